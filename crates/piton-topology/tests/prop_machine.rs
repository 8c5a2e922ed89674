//! Properties of random machines, against plain models and against changes that must not matter.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

#[path = "prop_machine/random.rs"]
mod random;

use piton_topology::{
    BytesPerSec, Candidate, DeviceId, Distance, Link, Machine, Matrix, Nanos, NodeId, PeerAccess,
    Router, Transit, defaults,
};
use proptest::prelude::*;
use random::machines;

/// The value of the pair (row, column).
fn at<T: Copy>(matrix: &Matrix<T>, row: usize, column: usize) -> T {
    *matrix.get(row, column).unwrap()
}

/// Best value of each ordered pair of nodes by trying every middle node in turn (Floyd, Warshall).
struct AllPairs<T> {
    best: Vec<Vec<Option<T>>>,
}

impl<T: Copy> AllPairs<T> {
    /// `step` is the value of a link out of a node; `join` that of two paths meeting at a node, `None`
    /// where none may; `better` whether the first value replaces the second.
    fn new(
        machine: &Machine,
        none: T,
        step: impl Fn(&Link, NodeId) -> T,
        join: impl Fn(T, T, usize) -> Option<T>,
        better: impl Fn(T, T) -> bool,
    ) -> Self {
        let nodes = machine.nodes().len();
        let mut best: Vec<Vec<Option<T>>> = vec![vec![None; nodes]; nodes];
        let improve = |cell: &mut Option<T>, value: T| {
            if cell.is_none_or(|known| better(value, known)) {
                *cell = Some(value);
            }
        };
        for link in machine.links() {
            let (a, b) = (link.a.index(), link.b.index());
            improve(&mut best[a][b], step(link, link.a));
            improve(&mut best[b][a], step(link, link.b));
        }
        for (node, row) in best.iter_mut().enumerate() {
            row[node] = Some(none);
        }
        for middle in 0..nodes {
            for from in 0..nodes {
                for to in 0..nodes {
                    if let (Some(first), Some(second)) = (best[from][middle], best[middle][to])
                        && from != middle
                        && to != middle
                        && let Some(value) = join(first, second, middle)
                    {
                        improve(&mut best[from][to], value);
                    }
                }
            }
        }
        Self { best }
    }

    fn of(&self, machine: &Machine, from: usize, to: usize) -> Option<T> {
        let devices = machine.devices();
        self.best[devices[from].index()][devices[to].index()]
    }
}

fn may_pass(machine: &Machine, node: usize, transit: Transit) -> bool {
    transit == Transit::Devices || !machine.nodes()[node].kind.is_endpoint()
}

fn for_pairs(machine: &Machine, mut check: impl FnMut(usize, usize)) {
    for from in 0..machine.device_count() {
        for to in 0..machine.device_count() {
            check(from, to);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn widest_paths_are_those_of_a_plain_model(parts in machines()) {
        let machine = parts.build();
        for transit in [Transit::HostOnly, Transit::Devices] {
            let model = AllPairs::new(
                &machine,
                BytesPerSec::MAX,
                |link, from| link.bandwidth_from(from),
                |first, second, middle| {
                    may_pass(&machine, middle, transit).then(|| first.min(second))
                },
                |new, old| new > old,
            );
            let found = machine.bandwidths(transit);
            for_pairs(&machine, |from, to| {
                assert_eq!(at(&found, from, to), model.of(&machine, from, to));
            });
        }
    }

    #[test]
    fn quickest_paths_are_those_of_a_plain_model(parts in machines()) {
        let machine = parts.build();
        for transit in [Transit::HostOnly, Transit::Devices] {
            let inside = |node: usize| defaults::transit_latency(machine.nodes()[node].kind);
            let model = AllPairs::new(
                &machine,
                Nanos::ZERO,
                |link, _| link.latency,
                |first, second, middle| {
                    let through = first.saturating_add(inside(middle)).saturating_add(second);
                    may_pass(&machine, middle, transit).then_some(through)
                },
                |new, old| new < old,
            );
            let found = machine.latencies(transit);
            for_pairs(&machine, |from, to| {
                assert_eq!(at(&found, from, to), model.of(&machine, from, to));
            });
        }
    }

    #[test]
    fn distance_is_the_same_both_ways_and_zero_only_to_itself(parts in machines()) {
        let machine = parts.build();
        let distances = machine.distances();
        for_pairs(&machine, |from, to| {
            assert_eq!(at(&distances, from, to), at(&distances, to, from));
            assert_eq!(at(&distances, from, to) == Distance::Same, from == to);
        });
    }

    #[test]
    fn with_relays_a_detour_is_never_wider(parts in machines()) {
        let machine = parts.build();
        let widths = machine.bandwidths(Transit::Devices);
        for_pairs(&machine, |from, to| {
            for middle in 0..machine.device_count() {
                let detour = at(&widths, from, middle).zip(at(&widths, middle, to));
                let detour = detour.map(|(first, second)| first.min(second));
                assert!(at(&widths, from, to) >= detour);
            }
        });
    }

    #[test]
    fn a_link_less_never_widens_or_brings_nearer(parts in machines(), which: prop::sample::Index) {
        let all = parts.build();
        prop_assume!(!all.links().is_empty());
        let dropped = which.index(all.links().len());
        let mut builder = all.to_builder();
        builder.retain_links(|id, _| id.index() != dropped);
        let fewer = builder.build().unwrap();
        let (before, after) = (all.bandwidths(Transit::HostOnly), fewer.bandwidths(Transit::HostOnly));
        let (near, far) = (all.distances(), fewer.distances());
        for_pairs(&all, |from, to| {
            assert!(at(&after, from, to) <= at(&before, from, to));
            assert!(at(&far, from, to) >= at(&near, from, to));
        });
    }

    #[test]
    fn the_order_of_devices_does_not_matter((parts, order) in shuffled()) {
        let (plain, mixed) = (parts.build(), parts.build_in_order(&order));
        let place: Vec<usize> = (0..plain.device_count())
            .map(|number| order.iter().position(|other| *other == number).unwrap())
            .collect();
        let (near, far) = (plain.distances(), mixed.distances());
        let (wide, other_wide) = (
            plain.bandwidths(Transit::HostOnly),
            mixed.bandwidths(Transit::HostOnly),
        );
        let peers = PeerAccess::all();
        let (router, other_router) = (Router::new(&plain, &peers), Router::new(&mixed, &peers));
        for_pairs(&plain, |from, to| {
            let (other_from, other_to) = (place[from], place[to]);
            assert_eq!(at(&near, from, to), at(&far, other_from, other_to));
            assert_eq!(at(&wide, from, to), at(&other_wide, other_from, other_to));
            for bytes in [0, 4 << 10, 1 << 30] {
                let route = router.route(device(from), device(to), bytes);
                let other = other_router.route(device(other_from), device(other_to), bytes);
                let time = |router: &Router, route| router.duration(route, bytes);
                assert_eq!(
                    route.ok().map(|route| time(&router, route)),
                    other.ok().map(|route| time(&other_router, route))
                );
            }
        });
    }

    #[test]
    fn a_route_is_a_path_whose_narrowest_link_is_its_bottleneck(parts in machines()) {
        let machine = parts.build();
        let router = Router::new(&machine, &PeerAccess::all());
        for_pairs(&machine, |from, to| {
            let (from, to) = (device(from), device(to));
            for candidate in router.candidates(from, to, 1 << 20).unwrap() {
                let Candidate::Route { route, .. } = candidate else {
                    continue;
                };
                let mut at = machine.device_node(from).unwrap();
                let mut narrowest = None;
                for hop in &*route.hops {
                    let link = machine.link(*hop).unwrap();
                    let rate = link.bandwidth_from(at);
                    narrowest = Some(narrowest.map_or(rate, |known: BytesPerSec| known.min(rate)));
                    at = link.other_end(at).expect("each hop starts where the last one ended");
                }
                assert_eq!(Some(at), machine.device_node(to));
                if from != to {
                    assert_eq!(narrowest, Some(route.bottleneck));
                }
            }
        });
    }

    #[test]
    fn no_usable_candidate_is_quicker_than_the_route(parts in machines(), bytes: u64) {
        let machine = parts.build();
        let peers: PeerAccess = machine
            .device_ids()
            .flat_map(|from| machine.device_ids().map(move |to| (from, to)))
            .filter(|(from, to)| (from.get() * 7 + to.get()) % 3 != 0)
            .collect();
        let router = Router::new(&machine, &peers);
        for_pairs(&machine, |from, to| {
            let (from, to) = (device(from), device(to));
            let Ok(chosen) = router.route(from, to, bytes) else {
                return;
            };
            let may = peers.allows(from, to);
            assert!(may || !chosen.kind.needs_peer_access());
            for candidate in router.candidates(from, to, bytes).unwrap() {
                if let Candidate::Route { route, .. } = candidate
                    && (may || !route.kind.needs_peer_access())
                {
                    assert!(router.duration(chosen, bytes) <= router.duration(route, bytes));
                }
            }
        });
    }

    #[test]
    fn a_machine_survives_the_trip_through_json(parts in machines()) {
        let machine = parts.build();
        let json = machine.to_json().unwrap();
        prop_assert_eq!(Machine::from_json(&json).unwrap(), machine);
    }
}

fn device(number: usize) -> DeviceId {
    DeviceId::new(u16::try_from(number).unwrap())
}

/// A machine and an order of its devices.
fn shuffled() -> impl Strategy<Value = (random::RandomMachine, Vec<usize>)> {
    machines().prop_flat_map(|parts| {
        let order: Vec<usize> = (0..parts.devices).collect();
        (Just(parts), Just(order).prop_shuffle())
    })
}
