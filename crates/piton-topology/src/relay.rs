//! Routes over one other device: it receives the copy into its memory and sends it on.
//!
//! Worth it where two devices have no link of their own but each has one to a third. Only links between
//! devices count: what shares a switch or a bus with both ends gains nothing by a stop.

use std::cmp::Reverse;

use crate::id::{DeviceId, LinkId, NodeId};
use crate::machine::Machine;
use crate::node::NodeKind;
use crate::peer::PeerAccess;
use crate::quantity::{BytesPerSec, Nanos};
use crate::route::{Route, RouteKind};

/// How many routes over another device are kept for a pair.
const KEPT: usize = 2;

/// Machines with more devices have no such routes listed: all triples would be looked at. Copies there are
/// planned one by one, by [`StripePlanner`](crate::StripePlanner).
const MAX_DEVICES: usize = 128;

/// A device's widest link to another one.
#[derive(Clone, Copy)]
struct Hop {
    to: DeviceId,
    link: LinkId,
    rate: BytesPerSec,
    latency: Nanos,
}

/// The links between the devices of a machine.
pub(crate) struct Relays {
    hops: Vec<Vec<Hop>>,
}

impl Relays {
    pub(crate) fn new(machine: &Machine) -> Self {
        if machine.device_count() > MAX_DEVICES {
            return Self { hops: Vec::new() };
        }
        let nodes = machine.devices().iter();
        Self {
            hops: nodes.map(|node| hops_from(machine, *node)).collect(),
        }
    }

    /// The best routes over one other device, where peer access allows both halves.
    pub(crate) fn routes(&self, from: DeviceId, to: DeviceId, peers: &PeerAccess) -> Vec<Route> {
        let first = self.hops.get(from.index()).map_or(&[][..], Vec::as_slice);
        let over = |into: &Hop| {
            let out = self.hops.get(into.to.index())?;
            let out = out.iter().find(|out| out.to == to)?;
            let allowed = peers.allows(from, into.to) && peers.allows(into.to, to);
            (into.to != to && allowed).then(|| route(into, out))
        };
        let mut routes: Vec<Route> = first.iter().filter_map(over).collect();
        routes.sort_by_key(|route| (Reverse(route.bottleneck), route.latency));
        routes.truncate(KEPT);
        routes
    }
}

fn route(into: &Hop, out: &Hop) -> Route {
    Route {
        kind: RouteKind::Relay { device: into.to },
        hops: [into.link, out.link].into(),
        bottleneck: into.rate.min(out.rate),
        latency: into.latency.saturating_add(out.latency),
        faster_half: Some(into.rate.max(out.rate)),
    }
}

fn hops_from(machine: &Machine, node: NodeId) -> Vec<Hop> {
    let mut hops: Vec<Hop> = machine
        .neighbours(node)
        .iter()
        .filter_map(|&(id, end)| {
            let NodeKind::Device(to) = machine.node(end)?.kind else {
                return None;
            };
            let link = machine.link(id)?;
            Some(Hop {
                to,
                link: id,
                rate: link.bandwidth_from(node),
                latency: link.latency,
            })
        })
        .collect();
    hops.sort_by_key(|hop| (hop.to, Reverse(hop.rate), hop.latency));
    hops.dedup_by_key(|hop| hop.to);
    hops
}
