//! Copies planned together where some devices may not access each other, or have few copy engines, against a linear program.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

#[path = "patterns/simplex.rs"]
mod simplex;

use piton_fluid::Pattern;
use piton_topology::{
    BytesPerSec, CopyEngines, DeviceId, LinkKind, Machine, MachineBuilder, NvLinkVersion,
    PeerAccess, Residual, SharedPlan, StripeOptions, StripePlanner,
};
use std::collections::BTreeMap;

const BYTES: u64 = 4 << 30;
const NV: LinkKind = LinkKind::NvLink(NvLinkVersion::V3);

type Pairs = Vec<(DeviceId, DeviceId)>;

/// Devices that all have links to each other, and no host.
fn mesh(devices: u16) -> Machine {
    let mut builder = MachineBuilder::new();
    let names = (0..devices).map(|at| format!("GPU{at}"));
    let nodes: Vec<_> = names.map(|name| builder.device(&name).unwrap()).collect();
    for (at, a) in nodes.iter().enumerate() {
        for b in &nodes[at + 1..] {
            builder.join(*a, *b, NV, 1).unwrap();
        }
    }
    builder.build().unwrap()
}

fn plan(
    machine: &Machine,
    peers: &PeerAccess,
    engines: Option<CopyEngines>,
    pairs: &Pairs,
) -> SharedPlan {
    let options = StripeOptions {
        engines,
        ..StripeOptions::default()
    };
    let planner = StripePlanner::new(machine, peers.clone(), options);
    planner
        .plan_together(pairs, BYTES, &Residual::of(machine))
        .unwrap()
}

/// What each copy gets at most, in bytes a second, where only allowed legs carry anything and what leaves a device is no more
/// than its engines carry.
fn bound(machine: &Machine, peers: &PeerAccess, all_engines: Option<u64>, pairs: &Pairs) -> f64 {
    let mut sources: BTreeMap<DeviceId, Vec<DeviceId>> = BTreeMap::new();
    for (from, to) in pairs {
        sources.entry(*from).or_default().push(*to);
    }
    let device = |node| {
        let mut devices = machine.device_ids();
        devices
            .find(|at| machine.device_node(*at) == Some(node))
            .unwrap()
    };
    let arcs: Vec<(DeviceId, DeviceId, f64)> = machine
        .links()
        .iter()
        .flat_map(|link| [(link.a, link.b, link.up), (link.b, link.a, link.down)])
        .map(|(a, b, rate)| (device(a), device(b), rate.get() as f64 / 1e9))
        .filter(|(a, b, _)| peers.allows(*a, *b))
        .collect();
    // One variable for each source and arc, and the last: what each copy gets.
    let at = |source: usize, arc: usize| source * arcs.len() + arc;
    let each = sources.len() * arcs.len();
    let mut rows: Vec<(Vec<(usize, f64)>, f64)> = Vec::new();
    let over = |arc: usize| (0..sources.len()).map(move |source| (at(source, arc), 1.0));
    for (arc, (.., rate)) in arcs.iter().enumerate() {
        rows.push((over(arc).collect(), *rate));
    }
    if let Some(all) = all_engines {
        for from in machine.device_ids() {
            let out = arcs.iter().enumerate().filter(|(_, arc)| arc.0 == from);
            let row = out.flat_map(|(arc, _)| over(arc)).collect();
            rows.push((row, all as f64 / 1e9));
        }
    }
    for (position, (source, sinks)) in sources.iter().enumerate() {
        for id in machine.device_ids().filter(|id| id != source) {
            // What leaves, and what stays for this sink, is no more than what comes.
            let mut row: Vec<(usize, f64)> = Vec::new();
            for (arc, (a, b, _)) in arcs.iter().enumerate() {
                let way = f64::from(u8::from(*a == id)) - f64::from(u8::from(*b == id));
                if way != 0.0 {
                    row.push((at(position, arc), way));
                }
            }
            let here = sinks.iter().filter(|sink| **sink == id).count();
            row.push((each, here as f64));
            rows.push((row, 0.0));
        }
    }
    simplex::maximum(each + 1, each, &rows) * 1e9
}

/// The devices each part of a plan sets out from.
fn starts(pairs: &Pairs, plan: &SharedPlan) -> BTreeMap<DeviceId, (usize, u64)> {
    let mut starts: BTreeMap<DeviceId, (usize, u64)> = BTreeMap::new();
    for ((from, _), copy) in pairs.iter().zip(&plan.copies) {
        for part in &copy.stripes {
            for device in [from].into_iter().chain(&part.relays) {
                let of_device = starts.entry(*device).or_default();
                of_device.0 += 1;
                of_device.1 += part.rate.get();
            }
        }
    }
    starts
}

/// The slowest copy's share of the bound.
fn share(plan: &SharedPlan, bound: f64) -> f64 {
    let rates = plan.copies.iter().map(|copy| {
        let parts = copy.stripes.iter().map(|part| part.rate.get());
        parts.sum::<u64>()
    });
    rates.min().unwrap() as f64 / bound
}

#[test]
fn parts_go_only_where_peer_access_is_and_the_slowest_copy_is_as_fast_as_it_allows() {
    let machine = mesh(5);
    let id = DeviceId::new;
    let mut some = PeerAccess::all();
    for (from, to) in [(0, 1), (1, 2), (3, 0), (2, 4)] {
        some.set(id(from), id(to), false);
    }
    // A ring: each copy to another than the next one passes over all between.
    let ring: PeerAccess = (0..5).map(|at| (id(at), id((at + 1) % 5))).collect();
    for (name, peers) in [("some refused", some), ("one ring", ring)] {
        for pattern in [Pattern::Neighbour, Pattern::Shift, Pattern::AllToAll] {
            let pairs = pattern.pairs(5);
            let plan = plan(&machine, &peers, None, &pairs);
            for ((from, to), copy) in pairs.iter().zip(&plan.copies) {
                for part in &copy.stripes {
                    let mut at = *from;
                    for next in part.relays.iter().chain([to]) {
                        assert!(peers.allows(at, *next), "{name}: from {at} to {next}");
                        at = *next;
                    }
                }
            }
            let bound = bound(&machine, &peers, None, &pairs);
            let share = share(&plan, bound);
            println!(
                "{name}, {pattern:?}: {share:.3} of {:.1} GB/s each",
                bound / 1e9
            );
            assert!(share >= 0.95, "{name}, {pattern:?}: {share:.3}");
            assert!(plan.bound.get() as f64 >= 0.999 * bound);
        }
    }
}

#[test]
fn a_pair_that_no_peer_access_joins_has_no_plan() {
    let machine = mesh(3);
    let planner = StripePlanner::new(&machine, PeerAccess::none(), StripeOptions::default());
    let pairs = Pattern::Neighbour.pairs(3);
    let refused = planner.plan_together(&pairs, BYTES, &Residual::of(&machine));
    assert!(refused.is_err());
}

#[test]
fn no_more_parts_set_out_from_a_device_than_it_has_engines_or_copies() {
    let machine = mesh(6);
    let peers = PeerAccess::all();
    // What can be had: engines are whole, and a relayed part takes one of each of two devices. So with two a device half of six
    // copies get a second part, and the slowest has a third of what links allow.
    for (count, rate, least) in [
        (1, u64::MAX, [0.33, 0.33, 0.95]),
        (2, u64::MAX, [0.33, 0.33, 0.95]),
        (4, u64::MAX, [0.66, 0.66, 0.95]),
        (3, 10_000_000_000, [0.79, 0.79, 0.95]),
        // Two for one of five copies would be ten.
        (8, 5_000_000_000, [0.95, 0.95, 0.62]),
    ] {
        let engines = CopyEngines {
            count,
            rate: BytesPerSec::new(rate),
        };
        let patterns = [Pattern::Neighbour, Pattern::Shift, Pattern::AllToAll];
        for (pattern, least) in patterns.into_iter().zip(least) {
            let pairs = pattern.pairs(6);
            let plan = plan(&machine, &peers, Some(engines), &pairs);
            let all = rate.saturating_mul(count.into());
            for (device, (parts, out)) in starts(&pairs, &plan) {
                let copies = pairs.iter().filter(|(from, _)| *from == device).count();
                let most = copies.max(count.into());
                assert!(parts <= most, "{device} has {parts} parts for {most}");
                assert!(out <= all, "{device} sends {out} of {all}");
            }
            let parts = plan.copies.iter().flat_map(|copy| &copy.stripes);
            assert!(parts.clone().all(|part| part.rate.get() <= rate));
            let whole = bound(&machine, &peers, (rate < u64::MAX).then_some(all), &pairs);
            let share = share(&plan, whole);
            println!(
                "{count} engines of {rate}, {pattern:?}: {share:.3} of {:.1} GB/s each",
                whole / 1e9
            );
            assert!(share >= least, "{count} of {rate}, {pattern:?}: {share:.3}");
            assert!(plan.bound.get() as f64 >= 0.999 * whole);
        }
    }
}
