//! One large copy over all ways of a machine, carried by the engine on simulated devices in virtual time: what it reaches of what
//! the machine carries at most.
//!
//! Of each file one pair of each kind is tried, and about [`SAMPLED`] besides, the same ones each time. All 1894 take minutes: their
//! figures are in `docs/benchmarks.md`, and come of this test with more sampled than there are.
//!
//! The files are not part of this repository: without them the tests of them say so and pass.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "a run says how much was reached")]

#[path = "../../piton-topology/tests/shared_files/mod.rs"]
mod shared_files;

use piton::{
    Devices, Machine, Runtime, RuntimeConfig, TransferConfig,
    sim::{Backing, DeviceConfig, ScheduleOrder},
};
use piton_topology::{
    BytesPerSec, CopyEngines, DeviceId, NcclRates, PeerAccess, Residual, StripeOptions,
    StripePlanner,
};
use shared_files::shared_files;
use std::{collections::BTreeSet, path::Path, time::Duration};

const GIB: u64 = 1 << 30;
/// Pairs of each file that are tried whatever their kind, about.
const SAMPLED: usize = 8;

/// Devices whose copies take time and carry nothing, with as many engines for copies to others as said.
fn device(peer_engines: u32) -> DeviceConfig {
    DeviceConfig {
        memory_bytes: 4 << 30,
        backing: Backing::Times,
        hardware_queues: 512,
        peer_engines,
        host_engines: 64,
        ..DeviceConfig::default()
    }
}

fn runtime(machine: &Machine, engines: Option<u16>) -> Runtime {
    let device = device(engines.map_or(512, u32::from));
    let mut config = RuntimeConfig::simulated_machine(machine, &device).unwrap();
    let Devices::Simulated(mut sim) = config.devices else {
        unreachable!("a simulated machine")
    };
    for simulated in &mut sim.devices {
        simulated.peer_engines = device.peer_engines;
    }
    config.devices = Devices::Simulated(sim.in_virtual_time(1, ScheduleOrder::ByTime));
    let mut transfers = TransferConfig {
        // There are no bytes to compare.
        verifies_peers: false,
        // Nobody comes or leaves meanwhile.
        installment: Duration::from_millis(100),
        engines: engines.map(|count| CopyEngines {
            count,
            rate: BytesPerSec::MAX,
        }),
        ..TransferConfig::default()
    };
    // The rates of the links are what copies get, through host bridges too.
    transfers.costs.host_bridge_sixths = 6;
    config.transfers = Some(transfers);
    Runtime::new(config).unwrap()
}

/// Bytes a second of a copy of a gibibyte from one device to another.
fn rate(runtime: &Runtime, from: DeviceId, to: DeviceId) -> f64 {
    let stream = |device: DeviceId| {
        let device = runtime.device(u32::from(device.get())).unwrap();
        device.stream("copy").unwrap()
    };
    let (from, to) = (stream(from), stream(to));
    let source = from.allocate::<u8>(GIB).unwrap();
    let mut target = to.allocate::<u8>(GIB).unwrap();
    from.synchronize().unwrap();
    let clock = runtime.driver().open(piton::DeviceId(0)).unwrap();
    let now = || clock.timestamps().unwrap().now();
    let start = now();
    to.copy_peer(&source, &mut target).unwrap();
    let ended = to.synchronize();
    assert!(ended.is_ok(), "{ended:?}: {:?}", runtime.incidents());
    let took = now() - start;
    GIB as f64 / (took as f64 / 1e9)
}

/// A file, its machine, and the pairs of devices that are tried, with the most that all routes carry of each.
struct Case {
    name: String,
    machine: Machine,
    pairs: Vec<(DeviceId, DeviceId, f64)>,
}

fn cases() -> Vec<Case> {
    let files = shared_files("nccl_xml", ".xml");
    files.iter().filter_map(|file| case(file)).collect()
}

fn case(file: &Path) -> Option<Case> {
    let expected = std::fs::read_to_string(file.with_extension("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
    let found = &expected["found"];
    let (gpus, rows) = (
        found["gpus"].as_array()?,
        found["maxflow_relay"].as_array()?,
    );
    let text = std::fs::read_to_string(file).unwrap();
    let machine = Machine::from_nccl_xml_with(&text, NcclRates::Library).unwrap();
    let place = |gpu: &serde_json::Value| {
        machine
            .device_at(gpu.as_str().unwrap().parse().unwrap())
            .unwrap()
    };
    let places: Vec<DeviceId> = gpus.iter().map(place).collect();
    let distances = machine.distances();
    let all = places.len() * places.len().saturating_sub(1);
    let step = all.div_ceil(SAMPLED).max(1);
    let (mut kinds, mut pairs, mut looked) = (BTreeSet::new(), Vec::new(), 0);
    for (from, row) in places.iter().zip(rows) {
        for (to, stated) in places.iter().zip(row.as_str().unwrap().split(' ')) {
            let distance = distances.get(from.index(), to.index()).unwrap();
            if from == to {
                continue;
            }
            let is_new = kinds.insert((*distance, stated.to_owned()));
            if is_new || looked % step == 0 {
                pairs.push((*from, *to, stated.parse::<f64>().unwrap() * 1e9));
            }
            looked += 1;
        }
    }
    let name = file.file_stem().unwrap().to_string_lossy().into_owned();
    (!pairs.is_empty()).then_some(Case {
        name,
        machine,
        pairs,
    })
}

/// Of copies' shares of their bounds: all are at least `least`, and all but `below` of them at least 0.95.
fn assert_reached(shares: &[f64], least: f64, below: usize) {
    let short = shares.iter().filter(|share| **share < 0.95).count();
    let worst = shares.iter().copied().fold(f64::MAX, f64::min);
    let count = shares.len();
    println!("{count} copies, {short} below 0.95, the least {worst:.3} of its bound");
    assert!(
        worst >= least && short <= below,
        "{short} of {count}, {worst:.3}"
    );
}

fn share(runtime: &Runtime, name: &str, (from, to): (DeviceId, DeviceId), bound: f64) -> f64 {
    let share = rate(runtime, from, to) / bound;
    let gb = bound / 1e9;
    println!("{name:24} {from} to {to}: {gb:6.1} GB/s, {share:.3}");
    share
}

#[test]
fn a_gibibyte_reaches_what_all_ways_of_each_known_machine_carry() {
    let mut shares = Vec::new();
    for case in cases() {
        let runtime = runtime(&case.machine, None);
        for (from, to, bound) in &case.pairs {
            shares.push(share(&runtime, &case.name, (*from, *to), *bound));
        }
    }
    assert_reached(&shares, 0.95, 0);
}

#[test]
fn a_gibibyte_reaches_what_few_engines_carry_of_each_known_machine() {
    for (count, least, below) in [(1, 0.97, 0), (2, 0.95, 0), (4, 0.90, 30)] {
        let mut shares = Vec::new();
        println!("{count} engines:");
        for case in cases() {
            let runtime = runtime(&case.machine, Some(count));
            for (from, to, _) in case.pairs {
                let bound = with_engines(&case.machine, from, to, count.into());
                shares.push(share(&runtime, &case.name, (from, to), bound));
            }
        }
        assert_reached(&shares, least, below);
    }
}

/// What the widest roads of the maximum flow carry, one for each engine.
fn with_engines(machine: &Machine, from: DeviceId, to: DeviceId, count: usize) -> f64 {
    let mut options = StripeOptions::default();
    options.costs.host_bridge_sixths = 6;
    let planner = StripePlanner::new(machine, PeerAccess::all(), options);
    let plan = planner
        .plan(from, to, 1 << 40, &Residual::of(machine))
        .unwrap();
    let widest = plan.stripes.iter().take(count);
    widest.map(|road| road.rate.get() as f64).sum()
}
