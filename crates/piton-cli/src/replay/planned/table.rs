//! What hindsight makes of traces, as a table.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, LineStyle, Table};

use super::{PlannedStep, PlannedTrace};
use crate::quantity;

const COLUMNS: [&str; 11] = [
    "trace",
    "requests",
    "peak live",
    "planned / live",
    "seconds",
    "ns per op",
    "steps",
    "step, worst",
    "held / live, worst",
    "next step departs",
    "other step's plan / none",
];

/// What the columns are.
const NOTE: &str = "planned / live: bytes that a plan made from all recorded lifetimes takes, over the most bytes live at once; seconds: what \
planning took; ns per op: a request or a free served from the plan. By steps, if NAME.json beside the trace says where they begin (a dash: it does \
not): planned and held over live in the worst step; the share of requests that the plan of the step before does not serve; and what the pool holds \
with that plan over what it holds without one.";

/// All traces as a table.
#[must_use]
pub fn table(traces: &[PlannedTrace]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    table.set_header(COLUMNS);
    for trace in traces {
        table.add_row(row(trace));
    }
    if traces.len() > 1 {
        let mean = geometric_mean(traces.iter().map(|trace| trace.whole.ratio));
        let steps = geometric_mean(traces.iter().filter_map(|trace| worst(&trace.steps)));
        let held = traces.iter().filter_map(|trace| worst_held(&trace.steps));
        let mut row = vec![String::new(); COLUMNS.len()];
        row[0] = "geometric mean".to_owned();
        row[3] = format!("{mean:.5}");
        row[7] = format!("{steps:.5}");
        row[8] = format!("{:.5}", geometric_mean(held));
        row[10] = format!(
            "{:.4}",
            geometric_mean(traces.iter().filter_map(|trace| trace.other_step))
        );
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n{NOTE}")
}

fn row(trace: &PlannedTrace) -> Vec<String> {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let departs = trace.steps.iter().filter_map(|step| step.next_departs);
    let departs = departs.max_by(f64::total_cmp);
    vec![
        trace.trace.clone(),
        quantity::count(trace.whole.requests as u64),
        quantity::bytes(trace.whole.peak_live),
        format!("{:.5}", trace.whole.ratio),
        format!("{:.2}", trace.whole.seconds),
        format!("{:.0}", trace.whole.ns_per_operation),
        trace.steps.len().to_string(),
        or_dash(worst(&trace.steps).map(|ratio| format!("{ratio:.5}"))),
        or_dash(worst_held(&trace.steps).map(|ratio| format!("{ratio:.5}"))),
        or_dash(departs.map(|share| format!("{:.0} %", 100.0 * share))),
        or_dash(trace.other_step.map(|ratio| format!("{ratio:.4}"))),
    ]
}

fn worst(steps: &[PlannedStep]) -> Option<f64> {
    steps.iter().map(|step| step.ratio).max_by(f64::total_cmp)
}

fn worst_held(steps: &[PlannedStep]) -> Option<f64> {
    steps
        .iter()
        .map(|step| step.held_ratio)
        .max_by(f64::total_cmp)
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| {
        (sum + value.ln(), count + 1)
    });
    (sum / f64::from(count.max(1))).exp()
}
