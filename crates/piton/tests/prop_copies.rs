//! Whatever the machine, whichever links are dead and in whichever order things run: copies that are guarded arrive, and
//! nothing else is written.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    Compared, DeviceId, Devices, Machine, Runtime, RuntimeConfig, SanitizerConfig, TransferConfig,
    sim::{DeviceConfig, FaultPlan, ScheduleOrder, Trigger},
};
use piton_topology::LinkKind;
use proptest::prelude::*;
use std::time::Duration;
use support::{check, copies::Copy};

#[derive(Clone, Debug)]
struct Case {
    devices: u16,
    shape: u8,
    cut: Vec<(u16, u16)>,
    copies: Vec<(u16, u16, usize)>,
    /// A seed of virtual time, or real time.
    seed: Option<u64>,
    is_seeded: bool,
    /// Whether a large copy is planned anew on its way, so that no part of it is long.
    in_installments: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let pair = || (0..5_u16, 1..5_u16);
    let copy = (0..5_u16, 1..5_u16, 1..(6_usize << 20));
    (
        2..6_u16,
        0..3_u8,
        prop::collection::vec(pair(), 0..4),
        prop::collection::vec(copy, 1..4),
        prop::option::of(any::<u64>()),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(devices, shape, cut, copies, seed, is_seeded, in_installments)| Case {
                devices,
                shape,
                cut,
                copies,
                seed,
                is_seeded,
                in_installments,
            },
        )
}

fn machine(case: &Case) -> Machine {
    match case.shape {
        0 => Machine::mesh(case.devices, LinkKind::Hccs, 1),
        1 => Machine::ring(case.devices, LinkKind::Hccs, 2),
        _ => Machine::pcie_pairs(case.devices.next_multiple_of(2)),
    }
    .unwrap()
}

fn runtime(case: &Case) -> Runtime {
    let device = DeviceConfig {
        memory_bytes: 64 << 20,
        page_bytes: 64 << 10,
        ..DeviceConfig::default()
    };
    let mut config = RuntimeConfig::simulated_machine(&machine(case), &device).unwrap();
    if let (Some(seed), Devices::Simulated(sim)) = (case.seed, config.devices.clone()) {
        let order = if case.is_seeded {
            ScheduleOrder::Seeded
        } else {
            ScheduleOrder::ByTime
        };
        config.devices = Devices::Simulated(sim.in_virtual_time(seed, order));
    }
    config.transfers = Some(TransferConfig {
        guarded_bytes: 0,
        compared: Compared::Places(2),
        installment: if case.in_installments {
            Duration::from_micros(100)
        } else {
            Duration::from_secs(60)
        },
        // Whatever else this machine does, nothing here hangs.
        oversees: false,
        ..TransferConfig::default()
    });
    config.sanitizer = Some(SanitizerConfig::default());
    Runtime::new(config).unwrap()
}

/// Two different devices of the case.
fn ends(case: &Case, (from, by): (u16, u16)) -> (u32, u32) {
    let count = case.devices;
    let (from, by) = (from % count, 1 + by % (count - 1).max(1));
    (from.into(), ((from + by) % count).into())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn guarded_copies_arrive_whatever_link_is_dead(case in cases()) {
        let runtime = runtime(&case);
        let cuts = case.cut.iter().map(|pair| ends(&case, *pair));
        let plan = cuts.fold(FaultPlan::new(), |plan, (a, b)| {
            plan.with(Trigger::CutLink(DeviceId(a), DeviceId(b)))
        });
        runtime.sim().unwrap().set_faults(plan);
        let mut copies: Vec<Copy> = Vec::new();
        for (seed, (from, by, bytes)) in (0..).zip(&case.copies) {
            let (from, to) = ends(&case, (*from, *by));
            copies.push(Copy::new(&runtime, from, to, *bytes, seed));
        }
        copies.iter_mut().for_each(Copy::start);
        copies.iter_mut().for_each(Copy::assert_arrived);
        drop(copies);
        check(&runtime);
        let carried: u64 = runtime.routes().iter().map(|route| route.bytes).sum();
        let asked: usize = case.copies.iter().map(|(_, _, bytes)| bytes).sum();
        prop_assert_eq!(carried, asked as u64);
    }
}
