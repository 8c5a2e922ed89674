//! One large copy over all its routes, in virtual time, against what the machine could carry at most.
//!
//! The files are not part of this repository: without them the first tests say so and pass.

#![expect(
    clippy::print_stdout,
    reason = "a skipped test says so, and a run says how much agrees"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

#[path = "../../piton-topology/tests/shared_files/mod.rs"]
mod shared_files;

use std::path::PathBuf;

use piton_fluid::{FlowSpec, Fluid, Network};
use piton_topology::{
    BytesPerSec, CopyEngines, DeviceId, LinkKind, Machine, NcclRates, PeerAccess, Residual,
    StripeOptions, StripePlan, StripePlanner, Transit,
};
use proptest::prelude::*;
use serde_json::Value;
use shared_files::shared_files;

const GIB: u64 = 1 << 30;

/// Each machine with the answers about it, and its devices in the answers' order.
fn machines() -> Vec<(PathBuf, Machine, Value, Vec<DeviceId>)> {
    let files = shared_files("nccl_xml", ".xml");
    files.into_iter().filter_map(read).collect()
}

fn read(file: PathBuf) -> Option<(PathBuf, Machine, Value, Vec<DeviceId>)> {
    let expected = std::fs::read_to_string(file.with_extension("expected.json")).unwrap();
    let mut expected: Value = serde_json::from_str(&expected).unwrap();
    let found = expected["found"].take();
    let text = std::fs::read_to_string(&file).unwrap();
    let gpus = found["gpus"].as_array()?;
    let machine = Machine::from_nccl_xml_with(&text, NcclRates::Library).unwrap();
    let device = |gpu: &Value| {
        machine
            .device_at(gpu.as_str().unwrap().parse().unwrap())
            .unwrap()
    };
    let devices = gpus.iter().map(device).collect();
    Some((file, machine, found, devices))
}

fn planner(machine: &Machine, change: impl FnOnce(&mut StripeOptions)) -> StripePlanner {
    let mut options = StripeOptions::default();
    // The library's rates are what copies get, through host bridges too.
    options.costs.host_bridge_sixths = 6;
    change(&mut options);
    StripePlanner::new(machine, PeerAccess::all(), options)
}

/// The table's value for a pair, in bytes a second.
fn stated(found: &Value, table: &str, row: usize, column: usize) -> Option<f64> {
    let row = found[table].as_array()?[row].as_str()?;
    let value: f64 = row.split(' ').nth(column)?.parse().ok()?;
    Some(value * 1e9)
}

fn pairs(devices: &[DeviceId]) -> impl Iterator<Item = (usize, usize)> + use<> {
    let count = devices.len();
    (0..count)
        .flat_map(move |a| (0..count).map(move |b| (a, b)))
        .filter(|(a, b)| a != b)
}

#[test]
fn the_most_that_all_routes_carry_is_what_another_program_says() {
    let mut agree = 0;
    for (file, machine, found, devices) in machines() {
        let residual = Residual::of(&machine);
        for (table, transit) in [
            ("maxflow_no_relay", Transit::HostOnly),
            ("maxflow_relay", Transit::Devices),
        ] {
            let planner = planner(&machine, |options| options.transit = transit);
            for (a, b) in pairs(&devices) {
                let Some(stated) = stated(&found, table, a, b) else {
                    continue;
                };
                let flow = planner.max_flow(devices[a], devices[b], &residual).unwrap();
                let off = (flow.get() as f64 - stated).abs();
                let place = format!("{} {table} {a} to {b}", file.display());
                assert!(off < 0.06e9, "{place}: {flow} for {stated}");
                agree += 1;
            }
        }
    }
    println!("{agree} maximum flows agree");
}

/// When the last part of a plan ends, with nothing else under way.
fn run(machine: &Machine, from: DeviceId, plan: &StripePlan) -> u64 {
    let network = Network::new(machine);
    let mut fluid = Fluid::new(network.capacities().to_vec());
    let source = machine.device_node(from).unwrap();
    for stripe in &plan.stripes {
        let uses = network.uses(machine, source, &stripe.hops);
        let delay = stripe.delay.get();
        // Where two parts share a link, each gets what was planned for it.
        let weight = u32::try_from(stripe.rate.get() / 1_000_000).unwrap().max(1);
        let flow = FlowSpec {
            delay,
            weight,
            ..FlowSpec::new(uses, stripe.bytes)
        };
        fluid.start(flow).unwrap();
    }
    let mut last = 0;
    while let Some(ended) = fluid.next_ended().unwrap() {
        fluid.check();
        last = ended.at;
    }
    last
}

#[test]
fn a_striped_copy_of_a_gibibyte_reaches_what_the_machine_carries() {
    let (mut worst, mut copies) = (f64::MAX, 0);
    for (file, machine, found, devices) in machines() {
        let planner = planner(&machine, |_| {});
        let residual = Residual::of(&machine);
        for (a, b) in pairs(&devices) {
            let Some(bound) = stated(&found, "maxflow_relay", a, b) else {
                continue;
            };
            let plan = planner
                .plan(devices[a], devices[b], GIB, &residual)
                .unwrap();
            let nanos = run(&machine, devices[a], &plan);
            let reached = GIB as f64 / (nanos as f64 / 1e9) / bound;
            let place = format!("{} {a} to {b}", file.display());
            assert!(reached >= 0.95, "{place}: {reached:.3} of {bound}");
            // The plan says what comes of it.
            let off = nanos.abs_diff(plan.time.get());
            assert!(off <= nanos / 100, "{place}: {nanos} ns for {}", plan.time);
            worst = worst.min(reached);
            copies += 1;
        }
    }
    println!("{copies} copies, the least {worst:.3} of its bound");
}

#[test]
fn with_few_engines_a_copy_reaches_what_they_carry_together() {
    let (mut worst, mut copies) = (f64::MAX, 0);
    for (file, machine, found, devices) in machines() {
        for count in [1_u16, 2, 4] {
            let rate = BytesPerSec::from_mb(20_000);
            let planner = planner(&machine, |options| {
                options.engines = Some(CopyEngines { count, rate })
            });
            let residual = Residual::of(&machine);
            for (a, b) in pairs(&devices) {
                let Some(flow) = stated(&found, "maxflow_relay", a, b) else {
                    continue;
                };
                let plan = planner
                    .plan(devices[a], devices[b], GIB, &residual)
                    .unwrap();
                assert!(plan.stripes.len() <= count.into());
                assert!(plan.stripes.iter().all(|stripe| stripe.rate <= rate));
                // Each engine on the road where it carries most.
                let mut wide = roads(&machine, devices[a], devices[b]);
                let mut engines = 0;
                for _ in 0..count {
                    let road = wide.iter_mut().max().unwrap();
                    let carried = (*road).min(rate.get());
                    engines += carried;
                    *road -= carried;
                }
                let bound = flow.min(engines as f64);
                let time = plan.time.get() as f64 / 1e9;
                let reached = GIB as f64 / time / bound;
                assert!(
                    reached >= 0.95,
                    "{} {count}: {a} to {b}: {reached:.3}",
                    file.display()
                );
                worst = worst.min(reached);
                copies += 1;
            }
        }
    }
    println!("{copies} copies, the least {worst:.3} of its bound");
}

/// The rates of all roads a plan without limits would take, widest first.
fn roads(machine: &Machine, from: DeviceId, to: DeviceId) -> Vec<u64> {
    let plan = planner(machine, |_| {})
        .plan(from, to, 1 << 40, &Residual::of(machine))
        .unwrap();
    plan.stripes
        .iter()
        .map(|stripe| stripe.rate.get())
        .collect()
}

#[test]
fn a_small_copy_takes_one_route_and_a_larger_one_never_takes_longer_for_more_routes() {
    let machine = Machine::mesh(8, LinkKind::Hccs, 1).unwrap();
    let planner = planner(&machine, |_| {});
    let residual = Residual::of(&machine);
    let [a, b] = [0, 1].map(DeviceId::new);
    let small = planner.plan(a, b, 64 << 10, &residual).unwrap();
    assert_eq!(small.stripes.len(), 1);
    assert_eq!(small.stripes[0].hops.len(), 1);
    let large = planner.plan(a, b, GIB, &residual).unwrap();
    assert_eq!(large.stripes.len(), 8);
    assert!(large.time.get() * 6 < large.stripes[0].rate.duration_of(GIB).get());
}

#[test]
fn what_another_copy_takes_is_left_to_it() {
    let machine = Machine::mesh(4, LinkKind::Hccs, 1).unwrap();
    let planner = planner(&machine, |_| {});
    let [a, b] = [0, 1].map(DeviceId::new);
    let node = machine.device_node(a).unwrap();
    let mut residual = Residual::of(&machine);
    let all = planner.max_flow(a, b, &residual).unwrap();
    let direct = planner.plan(a, b, GIB, &residual).unwrap().stripes[0].hops[0];
    let taken = residual.free(direct, node);
    residual.take(direct, node, taken);
    let left = planner.max_flow(a, b, &residual).unwrap();
    assert_eq!(left.get(), all.get() - taken.get());
    let plan = planner.plan(a, b, GIB, &residual).unwrap();
    assert!(
        plan.stripes
            .iter()
            .all(|stripe| !stripe.hops.contains(&direct))
    );
    residual.give_back(direct, node, taken);
    assert_eq!(residual, Residual::of(&machine));
}

#[test]
fn no_part_goes_where_peer_access_is_refused() {
    let machine = Machine::mesh(4, LinkKind::Hccs, 1).unwrap();
    let mut peers = PeerAccess::all();
    let [a, b, c] = [0, 1, 2].map(DeviceId::new);
    peers.set(a, c, false);
    let planner = StripePlanner::new(&machine, peers, StripeOptions::default());
    let plan = planner.plan(a, b, GIB, &Residual::of(&machine)).unwrap();
    let relays: Vec<DeviceId> = plan
        .stripes
        .iter()
        .flat_map(|stripe| stripe.relays.to_vec())
        .collect();
    assert_eq!(relays, [DeviceId::new(3)]);
    let none = StripePlanner::new(&machine, PeerAccess::none(), StripeOptions::default());
    assert!(none.plan(a, b, GIB, &Residual::of(&machine)).is_err());
}

proptest! {
    #[test]
    fn the_parts_of_a_plan_are_the_copy_and_end_together(
        devices in 2..9_u16,
        lanes in 1..5_u16,
        bytes in 1..(4_u64 << 30),
        to in 1..9_u16,
        ring: bool,
    ) {
        let kind = LinkKind::Hccs;
        let machine = if ring { Machine::ring(devices, kind, lanes) } else { Machine::mesh(devices, kind, lanes) };
        let machine = machine.unwrap();
        let (from, to) = (DeviceId::new(0), DeviceId::new(to % devices));
        let planner = planner(&machine, |_| {});
        let plan = planner.plan(from, to, bytes, &Residual::of(&machine)).unwrap();
        let mut at = 0;
        for stripe in &plan.stripes {
            prop_assert_eq!(stripe.offset, at);
            prop_assert!(stripe.bytes > 0);
            at += stripe.bytes;
        }
        prop_assert_eq!(at, bytes);
        if from != to {
            let flow = planner.max_flow(from, to, &Residual::of(&machine)).unwrap();
            let sum: u64 = plan.stripes.iter().map(|stripe| stripe.rate.get()).sum();
            prop_assert!(sum <= flow.get());
            let ran = run(&machine, from, &plan);
            // A part may be a few alignments longer than the others.
            prop_assert!(ran <= plan.time.get() + 1_000, "{} ns for {}", ran, plan.time);
            let alone = plan.stripes[0].delay.saturating_add(plan.stripes[0].rate.duration_of(bytes));
            prop_assert!(plan.time <= alone);
        }
    }
}
