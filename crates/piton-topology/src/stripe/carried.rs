//! Roads as commands can carry them.
//!
//! A flow may take any path, and a command between two devices takes the one way of its driver. So a path is cut where it
//! passes a device. A piece that is the command's own way is one command; any other goes through host memory, in two:
//! best through the memory of a NUMA node on the piece, so that it is the same way, but for the detour into memory.
//!
//! The detours may ask more of a link than the flow did, so each road gets at most what those before it have left. Roads that
//! the flow did not take fill what is left then.

use std::{cmp::Reverse, collections::BTreeSet};

use super::Stop;
use super::decompose::FlowPath;
use super::dinic::Arcs;
use super::fill::{fill, give_way, room};
use crate::command_ways::CommandWays;
use crate::id::{DeviceId, LinkId, NodeId, NumaId};
use crate::link::LinkKind;
use crate::machine::Machine;
use crate::node::NodeKind;
use crate::peer::PeerAccess;

/// Roads that are looked at to fill what is left, about.
const MOST_OTHERS: usize = 512;

/// What commands there are on a machine.
#[derive(Clone, Debug)]
pub(super) struct Commands {
    ways: CommandWays,
    memories: Vec<NumaId>,
    /// Whether a link is that between a host bridge and its memory.
    is_bus: Vec<bool>,
}

/// A road that commands carry.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    pub(super) stops: Vec<Stop>,
    /// By the directions of its links.
    pub(super) directions: Vec<u32>,
    pub(super) rate: u64,
    /// Commands of a leg that are under way at once.
    pub(super) lanes: u16,
}

/// Whose copy it is, and what it may use.
pub(super) struct Asked<'a> {
    pub(super) from: DeviceId,
    pub(super) to: DeviceId,
    pub(super) source: NodeId,
    pub(super) peers: &'a PeerAccess,
    pub(super) arcs: &'a Arcs,
    pub(super) kinds: &'a [NodeKind],
    /// By direction.
    pub(super) free: &'a [u64],
}

impl Commands {
    pub(super) fn new(machine: &Machine) -> Self {
        let ways = CommandWays::new(machine);
        let links = machine.links().iter();
        Self {
            memories: ways.memories(),
            is_bus: links.map(|link| link.kind == LinkKind::MemoryBus).collect(),
            ways,
        }
    }

    /// The roads that carry what `paths` do, or less; the widest first.
    pub(super) fn carry(&self, asked: &Asked<'_>, paths: &[FlowPath]) -> Vec<Carried> {
        let mut roads: Vec<Carried> = Vec::new();
        for path in paths {
            let Some(stops) = self.stops(asked, path) else {
                continue;
            };
            match roads.iter_mut().find(|road| road.stops == stops) {
                Some(road) => road.rate = road.rate.saturating_add(path.rate),
                None => roads.extend(self.road(asked, stops, path.rate)),
            }
        }
        roads.sort_by_key(|road| (Reverse(road.rate), road.stops.len()));
        let wanted: u64 = paths.iter().map(|path| path.rate).sum();
        let mut free = asked.free.to_vec();
        let mut carried: u64 = 0;
        for road in &mut roads {
            road.rate = road.rate.min(room(&free, &road.directions));
            road.take(road.rate, &mut free);
            carried += road.rate;
        }
        if carried < wanted {
            self.add_others(asked, &mut roads);
            carried += fill(&mut roads, &mut free, None);
            give_way(&mut roads, &mut free, (carried, wanted));
        }
        roads.retain(|road| road.rate > 0);
        roads.sort_by_key(|road| (Reverse(road.rate), road.stops.len()));
        roads
    }

    /// Adds roads that the flow did not take, and puts all in the order in which they are to have what is left: the shortest
    /// first, and those of the flow before the others.
    fn add_others(&self, asked: &Asked<'_>, roads: &mut Vec<Carried>) {
        let mut others = self.others(asked, roads);
        others.retain(|stops| roads.iter().all(|road| road.stops != *stops));
        roads.extend(
            others
                .into_iter()
                .filter_map(|stops| self.road(asked, stops, 0)),
        );
        roads.sort_by_key(|road| (road.rate == 0, road.stops.len(), Reverse(road.rate)));
    }

    /// Roads through host memory, from the source or a device it has access to, to the destination or one that has access
    /// to it, and those that begin or end as a road of the flow does; the shortest first, and not all of a large machine's.
    fn others(&self, asked: &Asked<'_>, flow: &[Carried]) -> Vec<Vec<Stop>> {
        let (from, to) = (asked.from, asked.to);
        let devices = (0..self.ways.device_count()).filter_map(|at| u16::try_from(at).ok());
        let others = devices
            .map(DeviceId::new)
            .filter(|at| ![from, to].contains(at));
        let allows = |a, b| asked.peers.allows(a, b) && self.ways.between(a, b).is_some();
        let (mut starts, mut ends) = (vec![Vec::new()], vec![Vec::new()]);
        for other in others {
            let stop = vec![Stop::Device(other)];
            starts.extend(allows(from, other).then(|| stop.clone()));
            ends.extend(allows(other, to).then_some(stop));
        }
        let (first, last) = halves(flow);
        starts.extend(first);
        ends.extend(last);
        let mut roads = vec![Vec::new()];
        roads.retain(|_| allows(from, to));
        for start in &starts {
            for end in ends
                .iter()
                .filter(|end| end.iter().all(|stop| !start.contains(stop)))
            {
                for numa in &self.memories {
                    let memory = [Stop::Memory(*numa)];
                    roads.push([start.as_slice(), &memory, end].concat());
                }
            }
            if roads.len() > MOST_OTHERS {
                break;
            }
        }
        roads.sort_by_key(Vec::len);
        roads
    }

    /// Where the bytes of a path stop if commands carry it.
    fn stops(&self, asked: &Asked<'_>, path: &FlowPath) -> Option<Vec<Stop>> {
        let mut stops = Vec::new();
        let (mut from, mut begin) = (asked.from, 0);
        let nodes = path.through.iter().map(|node| asked.kinds[node.index()]);
        let ends = nodes.chain([NodeKind::Device(asked.to)]).enumerate();
        for (at, kind) in ends {
            let NodeKind::Device(to) = kind else { continue };
            let piece = &path.links[begin..=at];
            let is_own = asked.peers.allows(from, to) && self.ways.between(from, to) == Some(piece);
            if !is_own {
                stops.push(Stop::Memory(self.memory_for(from, to, piece)?));
            }
            if to != asked.to {
                // Who is nobody's peer forwards nothing, through host memory neither.
                if !asked.peers.is_peer(to, self.ways.device_count()) {
                    return None;
                }
                stops.push(Stop::Device(to));
            }
            (from, begin) = (to, at + 1);
        }
        Some(stops)
    }

    /// The memory through which a copy goes the same way as `piece`; if there is none, that near the source.
    fn memory_for(&self, from: DeviceId, to: DeviceId, piece: &[LinkId]) -> Option<NumaId> {
        let is_same = |numa: &&NumaId| {
            let into = self.ways.into_memory(from, **numa).into_iter().flatten();
            let out = self.ways.out_of_memory(**numa, to).into_iter().flatten();
            into.chain(out)
                .filter(|link| !self.is_bus[link.index()])
                .eq(piece)
        };
        let same = self.memories.iter().find(is_same).copied();
        same.or_else(|| self.ways.nearest(from))
    }

    /// The road with these stops; `None` if a command has no way there.
    fn road(&self, asked: &Asked<'_>, stops: Vec<Stop>, rate: u64) -> Option<Carried> {
        let mut links: Vec<LinkId> = Vec::new();
        let mut at = Stop::Device(asked.from);
        for next in stops.iter().copied().chain([Stop::Device(asked.to)]) {
            let way = match (at, next) {
                (Stop::Device(from), Stop::Device(to)) => self.ways.between(from, to),
                (Stop::Device(from), Stop::Memory(numa)) => self.ways.into_memory(from, numa),
                (Stop::Memory(numa), Stop::Device(to)) => self.ways.out_of_memory(numa, to),
                (Stop::Memory(_), Stop::Memory(_)) => None,
            };
            links.extend_from_slice(way?);
            at = next;
        }
        let directions = asked.arcs.directions(asked.source, &links);
        (directions.len() == links.len()).then_some(Carried {
            stops,
            directions,
            rate,
            lanes: 1,
        })
    }
}

/// How roads begin, and how they end: at least two devices, and no host memory.
fn halves(roads: &[Carried]) -> (BTreeSet<Vec<Stop>>, BTreeSet<Vec<Stop>>) {
    let is_device = |stop: &&Stop| matches!(stop, Stop::Device(_));
    let (mut starts, mut ends) = (BTreeSet::new(), BTreeSet::new());
    for road in roads {
        let first = road.stops.iter().take_while(is_device).count();
        let last = road.stops.iter().rev().take_while(is_device).count();
        starts.extend((2..=first).map(|count| road.stops[..count].to_vec()));
        let count = road.stops.len();
        ends.extend((2..=last).map(|last| road.stops[count - last..].to_vec()));
    }
    (starts, ends)
}
