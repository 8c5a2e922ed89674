//! The results of replays as a table, as JSON, and as a page.

use std::path::Path;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, LineStyle, Table};
use serde::Serialize;

use crate::quantity;
use crate::report::{self, AddressView, Column, Fact, MemoryView, ReportData, TimeAxis};

use super::minimum::Minimum;
use super::peers::Peers;
use super::player::{Tally, pool_config};
use super::{Placement, ReplayOptions, curve, verdict};

/// What the pool made of one trace. Sizes are bytes.
#[derive(Debug, Clone, Serialize)]
pub struct TraceResult {
    /// Name of the trace: its file without `.csv.gz`.
    pub trace: String,
    /// Events in it.
    pub events: u64,
    /// Most bytes live at once, as requested, of what was served.
    pub peak_live: u64,
    /// Most bytes the device had given away at once.
    pub peak_held: u64,
    /// Peak held over peak live: 1 is perfect.
    pub ratio: f64,
    /// Calls for device memory: allocate and free, or reserve, create, map, unmap, destroy and release.
    pub driver_calls: u64,
    /// Nanoseconds per allocation or free: median of the timed passes; absent without any.
    pub ns_per_operation: Option<f64>,
    /// Allocations refused for want of memory.
    pub out_of_memory: u64,
    /// Allocations handed out with a wait on another stream.
    pub waits: u64,
    /// Allocations served from what the pool held.
    pub hits: u64,
    /// Allocations that needed more.
    pub misses: u64,
    /// Allocations asked for.
    pub allocations: u64,
    /// The smallest device that runs the trace, if it was looked for.
    pub minimum: Option<Minimum>,
    /// What others hold for the trace.
    pub peers: Peers,
    #[serde(skip)]
    samples: Vec<report::MemorySample>,
}

impl TraceResult {
    pub(super) fn new(
        path: &Path,
        tally: Tally,
        nanoseconds: &[f64],
        minimum: Option<Minimum>,
        peers: Peers,
    ) -> Self {
        Self {
            minimum,
            peers,
            allocations: tally.allocations,
            trace: trace_name(path),
            events: tally.events,
            peak_live: tally.pool.peak_live_bytes,
            peak_held: tally.peak_held,
            ratio: ratio(tally.peak_held, tally.pool.peak_live_bytes),
            driver_calls: tally.driver_calls,
            ns_per_operation: median(nanoseconds),
            out_of_memory: tally.out_of_memory,
            waits: tally.pool.waits,
            hits: tally.pool.hits,
            misses: tally.pool.misses,
            samples: tally.samples,
        }
    }
}

impl TraceResult {
    /// Bytes of the smallest device over peak live bytes.
    #[must_use]
    pub fn minimum_ratio(&self) -> Option<f64> {
        let minimum = self.minimum.as_ref()?;
        Some(ratio(minimum.capacity, self.peak_live))
    }
}

/// The name of a trace: the file's, without endings.
pub(super) fn trace_name(path: &Path) -> String {
    let name = path
        .file_name()
        .map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".csv").unwrap_or(name).to_owned()
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn ratio(held: u64, live: u64) -> f64 {
    held as f64 / live.max(1) as f64
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length.is_multiple_of(2) => {
            Some(f64::midpoint(sorted[middle - 1], sorted[middle]))
        }
        _ => Some(sorted[middle]),
    }
}

/// Geometric mean; `None` without values.
pub(super) fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0_u32);
    values.for_each(|value| {
        sum += value.max(f64::MIN_POSITIVE).ln();
        count += 1;
    });
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

const COLUMNS: [&str; 13] = [
    "trace",
    "events",
    "peak live",
    "peak held",
    "held / live",
    "PyTorch",
    "best fit",
    "TLSF",
    "driver calls",
    "ns per op",
    "out of memory",
    "waits",
    "min / live",
];
/// The columns that have a mean.
const MEANS: [usize; 6] = [4, 5, 6, 7, 9, 12];

fn row(result: &TraceResult) -> Vec<String> {
    let means = MEANS.map(|column| shown(column, figure(result, column)));
    let [held, pytorch, best_fit, tlsf, ns, minimum] = means;
    vec![
        result.trace.clone(),
        quantity::count(result.events),
        quantity::bytes(result.peak_live),
        quantity::bytes(result.peak_held),
        held,
        pytorch,
        best_fit,
        tlsf,
        quantity::count(result.driver_calls),
        ns,
        quantity::count(result.out_of_memory),
        quantity::count(result.waits),
        minimum,
    ]
}

/// The figure in a column that has a mean.
fn figure(result: &TraceResult, column: usize) -> Option<f64> {
    let over_live = |bytes: u64| ratio(bytes, result.peak_live);
    match column {
        4 => Some(result.ratio),
        5 => result.peers.pytorch.map(over_live),
        6 => result.peers.best_fit.map(over_live),
        7 => result.peers.tlsf.map(over_live),
        9 => result.ns_per_operation,
        _ => result.minimum_ratio(),
    }
}

fn shown(column: usize, figure: Option<f64>) -> String {
    let Some(figure) = figure else {
        return "-".to_owned();
    };
    match column {
        9 => format!("{figure:.0}"),
        12 => format!("{figure:.4}"),
        _ => format!("{figure:.3}"),
    }
}

/// The line below more than one trace.
fn mean_row(results: &[TraceResult]) -> Option<Vec<String>> {
    if results.len() < 2 {
        return None;
    }
    let mut row = vec![String::new(); COLUMNS.len()];
    row[0] = "geometric mean".to_owned();
    for column in MEANS {
        let figures = results.iter().filter_map(|result| figure(result, column));
        row[column] = shown(column, geometric_mean(figures));
    }
    Some(row)
}

/// The results as tables for a terminal, with what they mean.
#[must_use]
pub fn table(results: &[TraceResult], options: &ReplayOptions) -> String {
    let rows = results.iter().map(row).chain(mean_row(results));
    let mut parts = vec![format!("{}\n{}", drawn(&COLUMNS, rows.collect()), NOTE)];
    let curve = curve::rows(results);
    if !curve.is_empty() {
        parts.push(drawn(&curve::COLUMNS, curve));
    }
    parts.extend(results.iter().map(|result| verdict::of(result, options)));
    parts.push(configuration(options));
    parts.join("\n\n")
}

/// What the columns are.
const NOTE: &str = "PyTorch, best fit, TLSF: what they hold over peak live. PyTorch's default caching allocator as recorded or modelled; \
the others in one endless range, with memory free for all the moment it is freed. A dash: not known, or not measured.";

/// The one configuration of all rows.
pub(super) fn configuration(options: &ReplayOptions) -> String {
    format!("Pool configuration of all rows: {:?}", pool_config(options))
}

pub(super) fn drawn(columns: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
        .set_header(columns);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

#[derive(Serialize)]
struct Json<'a> {
    capacity: u64,
    placement: Placement,
    lag: usize,
    repeat: usize,
    checked: bool,
    geometric_mean_ratio: Option<f64>,
    /// What each trace's figures mean.
    verdicts: Vec<String>,
    traces: &'a [TraceResult],
}

/// The results as JSON.
///
/// # Errors
/// As [`serde_json::to_string_pretty`]; not for finite numbers and text.
pub fn json(results: &[TraceResult], options: &ReplayOptions) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Json {
        capacity: options.capacity,
        placement: options.placement,
        lag: options.lag,
        repeat: options.repeat,
        checked: options.is_checked,
        geometric_mean_ratio: geometric_mean(results.iter().map(|result| result.ratio)),
        verdicts: results
            .iter()
            .map(|result| verdict::of(result, options))
            .collect(),
        traces: results,
    })
}

/// The results as a page: the table, memory over the events of each trace, and where it lay.
#[must_use]
pub fn page(
    results: &[TraceResult],
    addresses: Vec<AddressView>,
    options: &ReplayOptions,
) -> ReportData {
    let view = |result: &TraceResult| MemoryView {
        title: result.trace.clone(),
        axis: TimeAxis::Events,
        samples: result.samples.clone(),
        others: Vec::new(),
    };
    ReportData {
        title: "Allocation traces through piton's device pool".to_owned(),
        subtitle: format!(
            "A simulated device of {} that keeps the books of its memory; work completes {} events after it was submitted.",
            quantity::bytes(options.capacity),
            quantity::count(options.lag as u64)
        ),
        facts: facts(results),
        memory: results.iter().map(view).collect(),
        addresses,
        tables: tables(results, options),
        ..ReportData::default()
    }
}

fn tables(results: &[TraceResult], options: &ReplayOptions) -> Vec<report::Table> {
    let note = format!(
        "Held is counted by the device, not by the pool. Time is the median over the timed passes. {NOTE} {}",
        configuration(options)
    );
    let rows = results.iter().map(row).chain(mean_row(results)).collect();
    let verdicts = results
        .iter()
        .map(|result| vec![verdict::of(result, options)]);
    let curve = curve::rows(results);
    let mut tables = vec![
        page_table("What it means", "", &["verdict"], verdicts.collect()),
        page_table("Traces", &note, &COLUMNS, rows),
    ];
    if !curve.is_empty() {
        let note = "Pages are of 2 MiB. Seconds are those of the driver's calls, by a model of round numbers.";
        tables.push(page_table(
            "Near the smallest device",
            note,
            &curve::COLUMNS,
            curve,
        ));
    }
    tables
}

fn page_table(title: &str, note: &str, columns: &[&str], rows: Vec<Vec<String>>) -> report::Table {
    let column = |(index, name): (usize, &&str)| {
        if index == 0 {
            Column::text(name)
        } else {
            Column::number(name)
        }
    };
    report::Table {
        title: title.to_owned(),
        note: note.to_owned(),
        columns: columns.iter().enumerate().map(column).collect(),
        rows,
    }
}

fn facts(results: &[TraceResult]) -> Vec<Fact> {
    let fact = |label: &str, value: String, note: String| Fact {
        label: label.to_owned(),
        value,
        note,
    };
    let total = |of: fn(&TraceResult) -> u64| quantity::count(results.iter().map(of).sum());
    let worst = results.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let mut facts = vec![fact(
        "events",
        total(|r| r.events),
        format!("in {} traces", results.len()),
    )];
    if let Some(mean) = geometric_mean(results.iter().map(|result| result.ratio)) {
        facts.push(fact(
            "held / live",
            format!("{mean:.3}"),
            "geometric mean of the peaks".to_owned(),
        ));
    }
    if let Some(worst) = worst {
        facts.push(fact(
            "worst",
            format!("{:.3}", worst.ratio),
            worst.trace.clone(),
        ));
    }
    if let Some(ns) = geometric_mean(results.iter().filter_map(|result| result.ns_per_operation)) {
        facts.push(fact(
            "per operation",
            format!("{ns:.0} ns"),
            "geometric mean of the medians".to_owned(),
        ));
    }
    facts.push(fact(
        "driver calls",
        total(|r| r.driver_calls),
        "for device memory, of either kind".to_owned(),
    ));
    facts.push(fact(
        "out of memory",
        total(|r| r.out_of_memory),
        "allocations refused".to_owned(),
    ));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_endings() {
        assert_eq!(trace_name(Path::new("/x/bert.csv.gz")), "bert");
        assert_eq!(trace_name(Path::new("bert.v2.csv")), "bert.v2");
    }

    #[test]
    fn middles_and_means() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        let mean = geometric_mean([1.0, 4.0].into_iter()).unwrap();
        assert!((mean - 2.0).abs() < 1e-12);
    }
}
