//! Rows: which thread of the file a record goes to, so that events of one thread never cross.

use piton_driver::{ExecutionRecord, QueueId};
use std::collections::BTreeMap;

/// Records of one queue, laid out on as many rows as they need.
#[derive(Debug, Default)]
pub(crate) struct QueueRows {
    /// Indices of records, by start and the longer first.
    pub(crate) records: Vec<usize>,
    /// The row of each, beside `records`.
    pub(crate) rows: Vec<usize>,
    /// How many rows there are.
    pub(crate) count: usize,
}

/// Each queue's rows.
pub(crate) fn rows(records: &[ExecutionRecord]) -> BTreeMap<QueueId, QueueRows> {
    let mut queues: BTreeMap<QueueId, QueueRows> = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        queues.entry(record.queue).or_default().records.push(index);
    }
    for queue in queues.values_mut() {
        lay_out(records, queue);
    }
    queues
}

fn lay_out(records: &[ExecutionRecord], queue: &mut QueueRows) {
    queue.records.sort_by_key(|index| {
        let (start, end) = span(&records[*index]);
        (start, std::cmp::Reverse(end))
    });
    // The ends of what is open on each row, innermost last.
    let mut open: Vec<Vec<u64>> = Vec::new();
    for index in &queue.records {
        let (start, end) = span(&records[*index]);
        let found = open.iter_mut().position(|row| fits(row, start, end));
        let row = found.unwrap_or_else(|| {
            open.push(Vec::new());
            open.len() - 1
        });
        open[row].push(end);
        queue.rows.push(row);
    }
    queue.count = open.len();
}

/// Whether what runs from `start` to `end` lies within what is open on the row, or behind it; closes what has ended.
fn fits(row: &mut Vec<u64>, start: u64, end: u64) -> bool {
    while row.last().is_some_and(|open| *open <= start) {
        row.pop();
    }
    row.last().is_none_or(|open| end <= *open)
}

/// Start and end of a record; never backwards.
pub(crate) fn span(record: &ExecutionRecord) -> (u64, u64) {
    (record.start_ns, record.end_ns.max(record.start_ns))
}
