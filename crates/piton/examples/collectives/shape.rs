//! Which way round a collective goes: every device to every other at once, or along a ring.

use piton::Machine;
use piton_topology::{Distance, Transit};

/// How devices are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Each two have a link, or a link switch, between them.
    Mesh,
    /// In this order each has a link to the next, and the last to the first; where the machine has no such ring, the
    /// order is that of the devices.
    Ring(Vec<usize>),
}

impl Shape {
    pub(crate) fn of(machine: &Machine) -> Self {
        let count = machine.device_count();
        let is_joined = |a: usize, b: usize| {
            let near = machine.distances().get(a, b).copied();
            near.is_some_and(|near| near <= Distance::LinkSwitch)
        };
        let joined: Vec<Vec<bool>> = (0..count)
            .map(|a| (0..count).map(|b| a == b || is_joined(a, b)).collect())
            .collect();
        if joined.iter().flatten().all(|joined| *joined) {
            return Self::Mesh;
        }
        let mut ring = vec![0];
        if !close(&joined, &mut ring) {
            ring = (0..count).collect();
        }
        Self::Ring(ring)
    }
}

/// Makes a ring of all out of a path, by trying; quick for as few devices as one machine has.
fn close(joined: &[Vec<bool>], path: &mut Vec<usize>) -> bool {
    let (first, last) = (path[0], path[path.len() - 1]);
    if path.len() == joined.len() {
        return joined[last][first];
    }
    for next in 0..joined.len() {
        if joined[last][next] && !path.contains(&next) {
            path.push(next);
            if close(joined, path) {
                return true;
            }
            path.pop();
        }
    }
    false
}

/// The least rate between two devices that are joined, in bytes a second: what a collective of this shape can count on.
pub(crate) fn least_rate(machine: &Machine, shape: &Shape) -> u64 {
    let count = machine.device_count();
    let rates = machine.bandwidths(Transit::HostOnly);
    let rate = |a: usize, b: usize| {
        rates
            .get(a, b)
            .copied()
            .flatten()
            .map_or(0, |rate| rate.get())
    };
    match shape {
        Shape::Mesh => (0..count)
            .flat_map(|a| (0..count).filter(move |b| *b != a).map(move |b| (a, b)))
            .map(|(a, b)| rate(a, b))
            .min()
            .unwrap_or(0),
        Shape::Ring(ring) => (0..count)
            .map(|at| rate(ring[at], ring[(at + 1) % count]))
            .min()
            .unwrap_or(0),
    }
}
