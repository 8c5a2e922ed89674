//! What traces cost on the smallest device that runs them and on some a little larger, as rows.

use super::minimum::CallsAt;
use super::summary::TraceResult;
use crate::quantity;

/// The columns of a row.
pub(super) const COLUMNS: [&str; 9] = [
    "trace",
    "device",
    "over the smallest",
    "driver calls",
    "calls per alloc",
    "pages moved",
    "modelled seconds",
    "waits",
    "out of memory",
];

/// A row for each device of each trace for which the smallest was looked for.
pub(super) fn rows(results: &[TraceResult]) -> Vec<Vec<String>> {
    let of_trace = |result: &TraceResult| -> Vec<Vec<String>> {
        let Some(minimum) = &result.minimum else {
            return Vec::new();
        };
        let smallest = minimum.capacity;
        let rows = minimum.curve.iter().enumerate();
        rows.map(|(index, at)| row(if index == 0 { &result.trace } else { "" }, at, smallest))
            .collect()
    };
    results.iter().flat_map(of_trace).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
fn row(trace: &str, at: &CallsAt, smallest: u64) -> Vec<String> {
    let of = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    vec![
        trace.to_owned(),
        quantity::bytes(at.capacity),
        format!("{:.3}", of(at.capacity, smallest)),
        quantity::count(at.driver_calls),
        format!("{:.4}", of(at.driver_calls, at.allocations)),
        quantity::count(at.pages_moved),
        format!("{:.3}", at.modelled_seconds),
        quantity::count(at.waits),
        quantity::count(at.out_of_memory),
    ]
}
