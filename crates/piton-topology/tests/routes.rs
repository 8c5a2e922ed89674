//! Routes on machines whose answers can be worked out by hand.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

use piton_topology::{
    BytesPerSec, DeviceId, Distance, Link, LinkKind, Machine, MachineBuilder, Nanos, NumaId,
    NvLinkVersion, PcieGeneration, PeerAccess, Route, RouteError, RouteKind, Router,
};

const MIB: u64 = 1 << 20;

fn device(number: u16) -> DeviceId {
    DeviceId::new(number)
}

fn route(router: &Router, from: u16, to: u16, bytes: u64) -> Route {
    router
        .route(device(from), device(to), bytes)
        .unwrap()
        .clone()
}

/// Two pairs joined by HCCS under PCIe switches, one pair on each socket.
fn linked_pairs() -> Machine {
    Machine::linked_pairs(4, LinkKind::Hccs, 2).unwrap()
}

#[test]
fn linked_pairs_have_every_class_of_distance() {
    let distances = linked_pairs().distances();
    let first_row: Vec<_> = distances.rows().next().unwrap().to_vec();
    use Distance::{Link, Same, Sys};
    assert_eq!(first_row, [Same, Link, Sys, Sys]);
    let eight = Machine::linked_pairs(8, LinkKind::Hccs, 1).unwrap();
    assert_eq!(eight.distances().get(0, 2), Some(&Distance::Phb));
}

#[test]
fn a_copy_goes_over_the_link_then_the_switch_then_the_host() {
    let router = Router::new(&linked_pairs(), &PeerAccess::all());
    assert_eq!(route(&router, 0, 1, MIB).kind, RouteKind::Direct);
    assert_eq!(route(&router, 0, 2, MIB).kind, RouteKind::HostBridge);
    assert_eq!(route(&router, 3, 3, MIB).kind, RouteKind::Local);
    let pairs = Router::new(&Machine::pcie_pairs(4).unwrap(), &PeerAccess::all());
    assert_eq!(route(&pairs, 2, 3, MIB).kind, RouteKind::Switch);
}

#[test]
fn a_pair_without_peer_access_is_staged_near_the_source_or_the_destination() {
    let mut peers = PeerAccess::all();
    peers.set(device(3), device(2), false);
    peers.set(device(0), device(2), false);
    let router = Router::new(&linked_pairs(), &peers);
    let second_socket = RouteKind::Staged {
        numa: NumaId::new(1),
    };
    assert_eq!(route(&router, 3, 2, MIB).kind, second_socket);
    // The way back was not refused.
    assert_eq!(route(&router, 2, 3, MIB).kind, RouteKind::Direct);
    assert!(matches!(
        route(&router, 0, 2, MIB).kind,
        RouteKind::Staged { .. }
    ));
}

#[test]
fn a_small_copy_takes_the_quick_road_and_a_large_one_the_wide_road() {
    let mut builder = MachineBuilder::new();
    let a = builder.device("a").unwrap();
    let b = builder.device("b").unwrap();
    let quick = Link {
        up: BytesPerSec::from_mb(1_000),
        latency: Nanos::new(100),
        ..Link::with_defaults(a, b, LinkKind::Sio, 1)
    };
    let wide = Link {
        up: BytesPerSec::from_mb(10_000),
        latency: Nanos::new(10_000),
        ..quick.clone()
    };
    builder.link(quick).unwrap();
    builder.link(wide).unwrap();
    let machine = builder.build().unwrap();
    let router = Router::new(&machine, &PeerAccess::all());
    assert_eq!(route(&router, 0, 1, 1_000).latency, Nanos::new(100));
    assert_eq!(route(&router, 0, 1, MIB).latency, Nanos::new(10_000));
    // 9 900 ns of latency are worth 11 000 bytes at 1 against 10 GB/s.
    assert_eq!(route(&router, 0, 1, 10_900).latency, Nanos::new(100));
    assert_eq!(route(&router, 0, 1, 11_100).latency, Nanos::new(10_000));
}

#[test]
fn each_direction_of_a_link_has_its_own_rate() {
    let mut builder = MachineBuilder::new();
    let a = builder.device("a").unwrap();
    let b = builder.device("b").unwrap();
    builder
        .link(Link {
            up: BytesPerSec::from_mb(3_000),
            down: BytesPerSec::from_mb(5_000),
            ..Link::with_defaults(a, b, LinkKind::Sio, 1)
        })
        .unwrap();
    let machine = builder.build().unwrap();
    let router = Router::new(&machine, &PeerAccess::all());
    let rate = |from, to| route(&router, from, to, MIB).bottleneck;
    assert_eq!(rate(0, 1), BytesPerSec::from_mb(3_000));
    assert_eq!(rate(1, 0), BytesPerSec::from_mb(5_000));
}

#[test]
fn a_copy_does_not_pass_through_another_device() {
    let nv = LinkKind::NvLink(NvLinkVersion::V3);
    let ring = Machine::ring(6, nv, 4).unwrap();
    let router = Router::new(&ring, &PeerAccess::all());
    assert_eq!(route(&router, 0, 5, MIB).kind, RouteKind::Direct);
    assert_eq!(route(&router, 0, 2, MIB).kind, RouteKind::HostBridge);
}

#[test]
fn a_link_switch_joins_all_devices_at_the_width_of_a_device() {
    let star = Machine::star(8, LinkKind::HccsSwitch, 1).unwrap();
    let router = Router::new(&star, &PeerAccess::all());
    let found = route(&router, 1, 6, MIB);
    assert_eq!(found.kind, RouteKind::Switch);
    assert_eq!(found.bottleneck, BytesPerSec::from_mb(166_600));
    assert_eq!(star.distances().get(1, 6), Some(&Distance::LinkSwitch));
}

#[test]
fn the_time_of_a_copy_is_launch_latency_and_bytes_over_the_bottleneck() {
    let machine = Machine::pcie_pairs(2).unwrap();
    let router = Router::new(&machine, &PeerAccess::all());
    let found = route(&router, 0, 1, MIB);
    // Two PCIe links of 0.5 µs and a switch of 0.3 µs.
    assert_eq!(found.latency, Nanos::new(1_300));
    let gen4 = LinkKind::Pcie(PcieGeneration::Gen4);
    assert_eq!(Some(found.bottleneck), gen4.default_bandwidth(16));
    let on_the_wire = found.bottleneck.duration_of(MIB).get();
    let time = router.duration(&found, MIB);
    assert_eq!(time.get(), 5_000 + 1_300 + on_the_wire);
}

#[test]
fn staging_pays_a_second_launch_one_chunk_and_a_sixth_of_the_rate_at_the_bridge() {
    let machine = Machine::pcie_pairs(2).unwrap();
    let router = Router::new(&machine, &PeerAccess::none());
    let staged = route(&router, 0, 1, 64 * MIB);
    let (rate, wire) = (staged.rate(), staged.bottleneck);
    assert_eq!(rate.get() / 1_000, wire.get() / 6_000 * 5);
    let expected = 10_000
        + staged.latency.get()
        + rate.duration_of(64 * MIB).get()
        + wire.duration_of(MIB).get();
    assert_eq!(router.duration(&staged, 64 * MIB).get(), expected);
    // A copy smaller than a chunk is one.
    let bytes = rate.duration_of(4_096).get() + wire.duration_of(4_096).get();
    let expected = 10_000 + staged.latency.get() + bytes;
    assert_eq!(router.duration(&staged, 4_096).get(), expected);
}

#[test]
fn candidates_say_in_one_sentence_why() {
    let mut peers = PeerAccess::all();
    peers.set(device(0), device(2), false);
    let router = Router::new(&linked_pairs(), &peers);
    let say = |from, to| -> Vec<String> {
        let candidates = router.candidates(device(from), device(to), MIB).unwrap();
        candidates.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        say(0, 1),
        [
            "device 0 to device 1 directly: chosen, 1048576 bytes in 28.0 µs at 47.6 GB/s",
            "device 0 to device 1 through a switch: refused, 1048576 bytes in 47.9 µs at 25.2 GB/s, \
             19.9 µs later than the route chosen",
            "device 0 to device 1 staged in host memory of NUMA node 0: refused, 1048576 bytes in \
             105.7 µs at 21.0 GB/s, 77.7 µs later than the route chosen",
        ]
    );
    let far = say(0, 2);
    assert!(
        far[0].contains("staged in host memory of NUMA node"),
        "{far:#?}"
    );
    let refused = "device 0 may not access the memory of device 2";
    assert!(far.iter().any(|sentence| sentence.contains(refused)));
    let no_link = "refused, no link and no link switch joins them";
    assert!(far.iter().any(|sentence| sentence.contains(no_link)));
}

#[test]
fn memory_near_either_end_is_considered_for_staging() {
    let router = Router::new(&linked_pairs(), &PeerAccess::none());
    let candidates = router.candidates(device(0), device(3), MIB).unwrap();
    for numa in [0, 1].map(NumaId::new) {
        let staged = Some(RouteKind::Staged { numa });
        assert!(candidates.iter().any(|one| one.kind() == staged));
    }
}

#[test]
fn exactly_the_route_taken_is_called_chosen() {
    let router = Router::new(&linked_pairs(), &PeerAccess::all());
    for from in 0..4 {
        for to in 0..4 {
            let candidates = router.candidates(device(from), device(to), 0).unwrap();
            assert!(candidates[0].is_chosen());
            assert_eq!(candidates[0].kind(), Some(route(&router, from, to, 0).kind));
            assert_eq!(candidates.iter().filter(|one| one.is_chosen()).count(), 1);
        }
    }
}

#[test]
fn a_stranger_and_an_island_get_errors() {
    let mut builder = MachineBuilder::new();
    builder.device("a").unwrap();
    builder.device("b").unwrap();
    let machine = builder.build().unwrap();
    let router = Router::new(&machine, &PeerAccess::all());
    let (from, to) = (device(0), device(1));
    assert_eq!(
        router.route(from, to, 1),
        Err(RouteError::NoRoute { from, to })
    );
    assert_eq!(router.candidates(from, to, 1).unwrap().len(), 3);
    let stranger = RouteError::UnknownDevice {
        device: device(2),
        devices: 2,
    };
    assert_eq!(router.route(from, device(2), 1), Err(stranger));
    assert_eq!(router.candidates(device(2), to, 1), Err(stranger));
}

#[test]
fn the_longest_copy_does_not_overflow() {
    let router = Router::new(&linked_pairs(), &PeerAccess::none());
    let found = route(&router, 0, 3, u64::MAX);
    assert!(router.duration(&found, u64::MAX) < Nanos::MAX);
}

#[test]
fn a_processor_on_the_device_fabric_is_a_way_to_it() {
    let mut builder = MachineBuilder::new();
    let nodes: Vec<_> = [0, 1]
        .map(|number| {
            let memory = builder
                .numa(NumaId::new(number), Default::default())
                .unwrap();
            let device = builder.device(format!("GPU{number}")).unwrap();
            builder.join(device, memory, LinkKind::C2c, 1).unwrap();
            memory
        })
        .into();
    builder.join(nodes[0], nodes[1], LinkKind::Smp, 1).unwrap();
    let machine = builder.build().unwrap();
    assert_eq!(machine.distances().get(0, 1), Some(&Distance::Sys));
    let router = Router::new(&machine, &PeerAccess::all());
    assert_eq!(route(&router, 0, 1, MIB).kind, RouteKind::HostBridge);
}

#[test]
fn a_link_of_its_own_is_preferred_to_a_host_bridge_that_only_promises_as_much() {
    let mut builder = MachineBuilder::new();
    let bridge = builder.host_bridge("bridge").unwrap();
    let ends = ["a", "b"].map(|name| builder.device(name).unwrap());
    let gen4 = LinkKind::Pcie(PcieGeneration::Gen4);
    for end in ends {
        builder.join(end, bridge, gen4, 16).unwrap();
    }
    let xgmi = LinkKind::Xgmi(piton_topology::XgmiVersion::Gfx906);
    builder.join(ends[0], ends[1], xgmi, 1).unwrap();
    assert!(xgmi.default_bandwidth(1) < gen4.default_bandwidth(16));
    let router = Router::new(&builder.build().unwrap(), &PeerAccess::all());
    assert_eq!(route(&router, 0, 1, 1 << 30).kind, RouteKind::Direct);
}

#[test]
fn a_relay_is_found_on_request_and_taken_where_it_is_quicker() {
    let nv = LinkKind::NvLink(NvLinkVersion::V3);
    let ring = Machine::ring(4, nv, 4).unwrap();
    let mut peers = PeerAccess::all();
    let costs = piton_topology::CostModel::default();
    let over = |device_number| RouteKind::Relay {
        device: device(device_number),
    };
    let router = Router::with_relays(&ring, &peers, costs);
    assert_eq!(route(&router, 0, 2, 1 << 30).kind, over(1));
    // Two launches and a chunk are too much for a small copy.
    assert_eq!(route(&router, 0, 2, 1_000).kind, RouteKind::HostBridge);
    assert_eq!(route(&router, 0, 1, 1 << 30).kind, RouteKind::Direct);
    // Each half needs access, the whole does not.
    peers.set(device(0), device(1), false);
    peers.set(device(0), device(2), false);
    let router = Router::with_relays(&ring, &peers, costs);
    assert_eq!(route(&router, 0, 2, 1 << 30).kind, over(3));
    let without = Router::with_costs(&ring, &peers, costs);
    assert!(matches!(
        route(&without, 0, 2, 1 << 30).kind,
        RouteKind::Staged { .. }
    ));
}
