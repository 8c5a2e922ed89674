//! Which command a wait waited for, and which one it held up.

use crate::DeviceTrace;
use piton_driver::{Operation, Position, QueueId};
use std::collections::HashMap;

/// A record of several devices' traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Index among the traces.
    pub device: usize,
    /// Index among its records.
    pub record: usize,
}

/// A wait with both its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitArrow {
    /// The command that was waited for.
    pub awaited: Place,
    /// The wait.
    pub wait: Place,
    /// The next command of the queue that waited, if it is in the trace.
    pub next: Option<Place>,
}

/// All waits of these traces whose awaited command is in one of them, in the order of the records.
///
/// Queues are told apart by their id, which is unique among the queues of one driver: pass devices of one driver
/// together. A wait for a command that is not in the traces (it ended before they were started, or found no room) has
/// no arrow.
pub fn waits(traces: &[DeviceTrace]) -> Vec<WaitArrow> {
    let ends = ends(traces);
    let arrow = |(wait, awaited): (Place, (QueueId, Position))| {
        let record = traces.get(wait.device)?.records.get(wait.record)?;
        let next = record.position.get().checked_add(1).map(Position::new);
        Some(WaitArrow {
            awaited: *ends.get(&awaited)?,
            wait,
            next: next.and_then(|next| ends.get(&(record.queue, next)).copied()),
        })
    };
    places(traces)
        .filter_map(|(place, record)| Some((place, record.awaited?)))
        .filter_map(arrow)
        .collect()
}

/// The record at which each position ended. Nodes of a graph have its position, and it ends with the last of them; the
/// graph's own record speaks for all.
fn ends(traces: &[DeviceTrace]) -> HashMap<(QueueId, Position), Place> {
    let mut ends: HashMap<(QueueId, Position), Place> = HashMap::new();
    for (place, record) in places(traces) {
        let is_graph = record.operation == Operation::RunGraph;
        let entry = ends.entry((record.queue, record.position));
        let kept = entry.or_insert(place);
        if is_graph {
            *kept = place;
        }
    }
    ends
}

fn places(traces: &[DeviceTrace]) -> impl Iterator<Item = (Place, &piton_driver::ExecutionRecord)> {
    traces.iter().enumerate().flat_map(|(device, trace)| {
        let records = trace.records.iter().enumerate();
        records.map(move |(record, found)| (Place { device, record }, found))
    })
}
