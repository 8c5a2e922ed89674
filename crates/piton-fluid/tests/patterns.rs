//! Patterns of copies over all routes, in virtual time, against a linear program.
//!
//! The program knows nothing of prices or paths: how much of each source's bytes runs over each direction of each
//! link, as much arriving at each sink as at any other.

#![expect(
    clippy::print_stdout,
    reason = "a skipped test says so, and a run says how much was reached"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

#[path = "patterns/simplex.rs"]
mod simplex;

use std::collections::BTreeMap;
use std::path::Path;

use piton_fluid::{FlowSpec, Fluid, Network, Pattern};
use piton_topology::{
    DeviceId, LinkKind, Machine, NcclRates, NodeId, NodeKind, NvLinkVersion, PeerAccess, Residual,
    SharedPlan, StripeOptions, StripePlanner,
};

/// Large enough that launches and latencies do not matter.
const BYTES: u64 = 4 << 30;

type Pairs = Vec<(DeviceId, DeviceId)>;

fn plan(machine: &Machine, pairs: &Pairs) -> SharedPlan {
    let mut options = StripeOptions::default();
    // Links carry what they are said to, through host bridges too.
    options.costs.host_bridge_sixths = 6;
    let planner = StripePlanner::new(machine, PeerAccess::all(), options);
    planner
        .plan_together(pairs, BYTES, &Residual::of(machine))
        .unwrap()
}

/// Bytes a second of all copies together, if each carries [`BYTES`] over its routes.
fn reached(machine: &Machine, pairs: &Pairs, plan: &SharedPlan) -> f64 {
    let network = Network::new(machine);
    let mut fluid = Fluid::new(network.capacities().to_vec());
    for ((from, _), copy) in pairs.iter().zip(&plan.copies) {
        let source = machine.device_node(*from).unwrap();
        for part in &copy.stripes {
            let uses = network.uses(machine, source, &part.hops);
            let delay = part.delay.get();
            let weight = u32::try_from(part.rate.get() / 100_000).unwrap().max(1);
            let flow = FlowSpec {
                delay,
                weight,
                ..FlowSpec::new(uses, part.bytes)
            };
            fluid.start(flow).unwrap();
        }
    }
    let mut last = 0;
    while let Some(ended) = fluid.next_ended().unwrap() {
        last = ended.at;
    }
    fluid.check();
    pairs.len() as f64 * BYTES as f64 / (last as f64 / 1e9)
}

/// What each copy gets at most, in bytes a second.
fn bound(machine: &Machine, pairs: &Pairs) -> f64 {
    let node = |device: DeviceId| machine.device_node(device).unwrap();
    let mut sources: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for (from, to) in pairs {
        sources.entry(node(*from)).or_default().push(node(*to));
    }
    let is_nic = |id: NodeId| machine.node(id).unwrap().kind == NodeKind::Nic;
    let arcs: Vec<(NodeId, NodeId, f64)> = machine
        .links()
        .iter()
        .flat_map(|link| [(link.a, link.b, link.up), (link.b, link.a, link.down)])
        .filter(|(a, b, _)| !is_nic(*a) && !is_nic(*b))
        .map(|(a, b, rate)| (a, b, rate.get() as f64 / 1e9))
        .collect();
    // One variable for each source and arc, and the last: what each copy gets.
    let each = sources.len() * arcs.len();
    let mut rows: Vec<(Vec<(usize, f64)>, f64)> = Vec::new();
    for (number, (.., rate)) in arcs.iter().enumerate() {
        let used = (0..sources.len()).map(|source| (source * arcs.len() + number, 1.0));
        rows.push((used.collect(), *rate));
    }
    for (position, (source, sinks)) in sources.iter().enumerate() {
        for id in machine.node_ids().filter(|id| id != source && !is_nic(*id)) {
            // What leaves, and what stays for this sink, is no more than what comes.
            let mut row: Vec<(usize, f64)> = Vec::new();
            for (number, (a, b, _)) in arcs.iter().enumerate() {
                let way = f64::from(u8::from(*a == id)) - f64::from(u8::from(*b == id));
                if way != 0.0 {
                    row.push((position * arcs.len() + number, way));
                }
            }
            let here = sinks.iter().filter(|sink| **sink == id).count();
            row.push((each, here as f64));
            rows.push((row, 0.0));
        }
    }
    simplex::maximum(each + 1, each, &rows) * 1e9
}

/// What was reached of the bound of one pattern.
fn check(name: &str, machine: &Machine, pattern: Pattern, bound: f64, pairs: &Pairs) -> f64 {
    let plan = plan(machine, pairs);
    let all = bound * pairs.len() as f64;
    let proven = plan.bound.get() as f64;
    assert!(
        proven >= 0.999 * bound,
        "{name} {}: proven {proven} below {bound}",
        pattern.word()
    );
    let share = reached(machine, pairs, &plan) / all;
    println!(
        "{name} {}: {share:.3} of {:.1} GB/s",
        pattern.word(),
        all / 1e9
    );
    assert!(
        share >= 0.95,
        "{name} {}: {share:.3} of the bound",
        pattern.word()
    );
    share
}

#[test]
fn patterns_on_real_machines_reach_what_a_linear_program_allows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/topologies/nccl_xml");
    let names = [
        "rccl-4p3l",
        "pcie-4a6000",
        "rccl-8p6l",
        "rccl-8p_940",
        "rccl-8p_rome_n4",
        "oci-h100",
    ];
    for name in names {
        let Ok(text) = std::fs::read_to_string(folder.join(format!("{name}.xml"))) else {
            println!("skipped: no shared/topologies/nccl_xml/{name}.xml");
            continue;
        };
        let machine = Machine::from_nccl_xml_with(&text, NcclRates::Library).unwrap();
        let devices = u16::try_from(machine.device_count()).unwrap();
        for pattern in [Pattern::Neighbour, Pattern::Shift, Pattern::AllToAll] {
            let pairs = pattern.pairs(devices);
            let bound = bound(&machine, &pairs);
            check(name, &machine, pattern, bound, &pairs);
        }
    }
}

#[test]
fn patterns_on_made_up_machines_reach_what_a_linear_program_allows() {
    let nv = LinkKind::NvLink(NvLinkVersion::V3);
    for (name, machine) in [
        ("ring of 4", Machine::ring(4, nv, 2).unwrap()),
        ("pairs of 4", Machine::linked_pairs(4, nv, 4).unwrap()),
        ("mesh of 4", Machine::mesh(4, nv, 1).unwrap()),
    ] {
        for pattern in [Pattern::Neighbour, Pattern::Shift, Pattern::AllToAll] {
            let pairs = pattern.pairs(4);
            let bound = bound(&machine, &pairs);
            check(name, &machine, pattern, bound, &pairs);
        }
    }
}

#[test]
fn throughput_grows_with_the_devices_wherever_the_cut_allows() {
    let nv = LinkKind::NvLink(NvLinkVersion::V3);
    let star = |devices| Machine::star(devices, nv, 12).unwrap();
    for devices in [2_u16, 4, 8, 16, 64] {
        grows("star", &star(devices), Pattern::Neighbour);
    }
    for devices in [2_u16, 4, 8] {
        grows("star", &star(devices), Pattern::Shift);
        grows(
            "mesh",
            &Machine::mesh(devices, nv, 1).unwrap(),
            Pattern::Neighbour,
        );
        let ring = Machine::ring(devices, nv, 2).unwrap();
        grows("ring", &ring, Pattern::Neighbour);
        // Across the middle of a ring only few links lead, and the host's buses.
        grows("ring", &ring, Pattern::Shift);
    }
}

/// What all copies carry together grows with the devices, or as far as the cut lets it, which is printed beside it.
fn grows(name: &str, machine: &Machine, pattern: Pattern) {
    let devices = u16::try_from(machine.device_count()).unwrap();
    let pairs = pattern.pairs(devices);
    let nearest = machine.nearest_paths(machine.devices());
    let (from, to) = (pairs[0].0.index(), pairs[0].1.index());
    let path = nearest.get(from, to).unwrap().as_ref().unwrap();
    let linear = path.bottleneck.get() as f64 * pairs.len() as f64;
    let plan = plan(machine, &pairs);
    let cut = plan.bound.get() as f64 * pairs.len() as f64;
    let all = reached(machine, &pairs, &plan);
    let (grown, allowed) = (all / linear, cut / linear);
    println!(
        "{name} of {devices}, {pattern:?}: {:.1} GB/s, {grown:.3} of linear; the cut allows {allowed:.3}",
        all / 1e9
    );
    assert!(
        grown >= 0.95 * allowed,
        "{name} of {devices}: {grown:.3} of {allowed:.3}"
    );
}
