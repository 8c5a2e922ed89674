//! What the builder refuses, and what it puts right.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

use piton_topology::{
    BuildError, BytesPerSec, CpuList, DeviceId, Link, LinkId, LinkKind, MAX_DEVICES, Machine,
    MachineBuilder, NodeId, NumaId, Warning,
};

fn two_devices() -> (MachineBuilder, NodeId, NodeId) {
    let mut builder = MachineBuilder::new();
    let a = builder.device("a").unwrap();
    let b = builder.device("b").unwrap();
    (builder, a, b)
}

fn link_zero() -> LinkId {
    LinkId::new(0)
}

#[test]
fn a_link_to_nowhere_is_refused_with_both_numbers() {
    let (mut builder, a, _) = two_devices();
    let node = NodeId::new(7);
    builder.join(a, node, LinkKind::Hccs, 1).unwrap();
    let link = link_zero();
    let error = BuildError::UnknownNode {
        link,
        node,
        nodes: 2,
    };
    assert_eq!(
        error.to_string(),
        "link 0 ends at node 7, but there are 2 nodes"
    );
    assert_eq!(builder.build(), Err(error));
}

#[test]
fn a_link_without_lanes_or_rate_is_refused() {
    let (mut builder, a, b) = two_devices();
    builder.join(a, b, LinkKind::Hccs, 0).unwrap();
    let link = link_zero();
    assert_eq!(builder.build(), Err(BuildError::NoLanes { link, a, b }));
    let (mut builder, a, b) = two_devices();
    let one_way = Link {
        down: BytesPerSec::new(0),
        up: BytesPerSec::new(9),
        ..Link::with_defaults(a, b, LinkKind::Hccs, 1)
    };
    builder.link(one_way).unwrap();
    let (up, down) = (9, 0);
    let error = BuildError::NoBandwidth {
        link,
        a,
        b,
        up,
        down,
    };
    assert_eq!(builder.build(), Err(error));
}

#[test]
fn a_self_link_is_dropped_with_a_warning_even_without_lanes() {
    let (mut builder, a, b) = two_devices();
    builder.join(a, a, LinkKind::Hccs, 0).unwrap();
    builder.join(a, b, LinkKind::Hccs, 1).unwrap();
    let machine = builder.build().unwrap();
    assert_eq!(machine.links().len(), 1);
    assert_eq!(machine.warnings(), [Warning::SelfLink { node: a }]);
}

#[test]
fn names_and_addresses_and_numa_numbers_are_unique() {
    let (mut builder, first, _) = two_devices();
    let second = builder.nic("a").unwrap();
    assert_eq!(
        builder.build(),
        Err(BuildError::DuplicateName { first, second })
    );
    let (mut builder, first, second) = two_devices();
    let address = "0000:01:00.0".parse().unwrap();
    builder.pci(first, address, None);
    builder.pci(second, address, None);
    assert_eq!(
        builder.build(),
        Err(BuildError::DuplicateAddress { first, second })
    );
    let mut builder = MachineBuilder::new();
    let numa = NumaId::new(3);
    builder.numa(numa, CpuList::default()).unwrap();
    builder.numa(numa, CpuList::default()).unwrap();
    assert!(builder.build().is_err());
}

#[test]
fn names_that_cannot_be_printed_are_refused() {
    for name in ["", "a\u{1b}[31m", &"x".repeat(129)] {
        let mut builder = MachineBuilder::new();
        builder.device(name).unwrap();
        assert!(
            matches!(
                builder.build(),
                Err(BuildError::NameLength { .. } | BuildError::NameControl { .. })
            ),
            "{name:?}"
        );
    }
}

#[test]
fn one_device_too_many_is_refused() {
    let mut builder = MachineBuilder::new();
    for number in 0..MAX_DEVICES {
        builder.device(number.to_string()).unwrap();
    }
    let limit = MAX_DEVICES;
    assert_eq!(
        builder.device("more"),
        Err(BuildError::TooManyDevices { limit })
    );
    let machine = builder.build().unwrap();
    assert_eq!(machine.device_ids().last(), Some(DeviceId::new(1023)));
    assert_eq!(
        Machine::unknown_host(u16::MAX),
        Err(BuildError::TooManyDevices { limit })
    );
}

#[test]
fn presets_exist_for_every_small_number_of_devices() {
    for devices in 0..=9 {
        for machine in [
            Machine::mesh(devices, LinkKind::Hccs, 1),
            Machine::ring(devices, LinkKind::Hccs, 1),
            Machine::star(devices, LinkKind::HccsSwitch, 1),
            Machine::pcie_pairs(devices),
            Machine::linked_pairs(devices, LinkKind::Hccs, 1),
            Machine::unknown_host(devices),
        ] {
            assert_eq!(machine.unwrap().device_count(), usize::from(devices));
        }
    }
    let links = |machine: Result<Machine, BuildError>| {
        let machine = machine.unwrap();
        let hccs = machine
            .links()
            .iter()
            .filter(|link| link.kind == LinkKind::Hccs);
        hccs.count()
    };
    assert_eq!(links(Machine::ring(2, LinkKind::Hccs, 1)), 1);
    assert_eq!(links(Machine::ring(3, LinkKind::Hccs, 1)), 3);
    assert_eq!(links(Machine::mesh(5, LinkKind::Hccs, 1)), 10);
    assert_eq!(links(Machine::linked_pairs(5, LinkKind::Hccs, 1)), 2);
}
