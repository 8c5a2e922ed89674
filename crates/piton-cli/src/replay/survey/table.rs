//! A survey as tables for a terminal.

use super::{OnPlacement, PLACEMENTS, Surveyed, on};
use crate::quantity;
use crate::replay::summary::{self, drawn, geometric_mean, ratio};
use crate::replay::{ReplayOptions, TraceResult, curve, planned, verdict};

/// Peak live bytes from which on a trace counts as a large one.
const LARGE: u64 = 2 << 30;

const MEMORY: [&str; 9] = [
    "trace",
    "peak live",
    "smallest, virtual",
    "smallest, Blocks",
    "held, virtual",
    "held, Blocks",
    "PyTorch",
    "best fit",
    "TLSF",
];
const LAG: [&str; 10] = [
    "trace",
    "placement",
    "held / live",
    "held / at once, no stealing",
    "waits",
    "driver calls",
    "waits forbidden: held / live",
    "refused",
    "events late",
    "peak live",
];
const TIME: [&str; 9] = [
    "trace",
    "placement",
    "ns per op",
    "p99",
    "p99.9",
    "worst",
    "beyond p99.9: driver",
    "recovery",
    "machine",
];

/// All of it, each part under a line that says what it is.
#[must_use]
pub fn table(traces: &[Surveyed], options: &ReplayOptions) -> String {
    let part = |title: &str, table: String| format!("{title}\n{table}");
    let planned: Vec<_> = traces.iter().map(|trace| trace.planned.clone()).collect();
    let mut parts = vec![part(
        &format!(
            "Smallest device that runs the trace, and what is held on one of {}, over peak live bytes; others hold",
            quantity::bytes(options.capacity)
        ),
        drawn(&MEMORY, memory(traces)),
    )];
    for (index, placement) in PLACEMENTS.into_iter().enumerate() {
        let results: Vec<TraceResult> = of(traces, index).map(|on| on.result.clone()).collect();
        let title = format!("What running near the smallest device costs, {placement:?}");
        parts.push(part(&title, drawn(&curve::COLUMNS, curve::rows(&results))));
    }
    parts.push(part(
        "A host that sees what streams have done so many events late; at once, no stealing: the same placement that sees all at once",
        drawn(&LAG, each(traces, lag)),
    ));
    parts.push(part(
        "Steps served from plans, with pages that are mapped",
        planned::table(&planned),
    ));
    parts.push(part(
        "Time for an allocation or a free, nanoseconds, the player's own ten among them; tails one by one, with a look at the clock",
        drawn(&TIME, each(traces, time)),
    ));
    parts.push(verdicts(traces, options));
    for placement in PLACEMENTS {
        parts.push(summary::configuration(&on(placement, options)));
    }
    parts.join("\n\n")
}

fn of(traces: &[Surveyed], index: usize) -> impl Iterator<Item = &OnPlacement> {
    traces.iter().map(move |trace| &trace.placements[index])
}

/// The figures of a row of the first table.
fn figures(trace: &Surveyed) -> [Option<f64>; 7] {
    let [mapped, blocks] = &trace.placements;
    let peers = &mapped.result.peers;
    let over_live = |bytes: Option<u64>| bytes.map(|bytes| ratio(bytes, mapped.result.peak_live));
    [
        mapped.result.minimum_ratio(),
        blocks.result.minimum_ratio(),
        Some(mapped.result.ratio),
        Some(blocks.result.ratio),
        over_live(peers.pytorch),
        over_live(peers.best_fit),
        over_live(peers.tlsf),
    ]
}

fn memory(traces: &[Surveyed]) -> Vec<Vec<String>> {
    let shown =
        |figure: Option<f64>| figure.map_or("-".to_owned(), |figure| format!("{figure:.4}"));
    let row = |trace: &Surveyed| {
        let result = &trace.placements[0].result;
        let mut row = vec![result.trace.clone(), quantity::bytes(result.peak_live)];
        row.extend(figures(trace).map(shown));
        row
    };
    let all: Vec<_> = traces.iter().map(figures).collect();
    let large = |trace: &&Surveyed| trace.placements[0].result.peak_live >= LARGE;
    let large: Vec<_> = traces.iter().filter(large).map(figures).collect();
    let below = |name: &str, of: &dyn Fn(usize) -> Option<f64>| {
        let mut row = vec![name.to_owned(), String::new()];
        row.extend((0..7).map(|column| shown(of(column))));
        row
    };
    let worst = |rows: &[[Option<f64>; 7]], column: usize| {
        let column = rows.iter().filter_map(|row| row[column]);
        column.max_by(f64::total_cmp)
    };
    let mut rows: Vec<_> = traces.iter().map(row).collect();
    rows.push(below("geometric mean", &|column| {
        geometric_mean(all.iter().filter_map(|row| row[column]))
    }));
    rows.push(below("worst", &|column| worst(&all, column)));
    rows.push(below("worst, peak of 2 GiB or more", &|column| {
        worst(&large, column)
    }));
    rows
}

/// Rows of all traces, a placement each.
fn each(
    traces: &[Surveyed],
    row: impl Fn(&OnPlacement) -> Option<Vec<String>>,
) -> Vec<Vec<String>> {
    let of_trace = |trace: &Surveyed| trace.placements.iter().filter_map(&row).collect();
    traces
        .iter()
        .flat_map(|trace| -> Vec<_> { of_trace(trace) })
        .collect()
}

fn lag(on: &OnPlacement) -> Option<Vec<String>> {
    let lagging = on.lagging.as_ref()?;
    let over_live = |bytes: u64| format!("{:.3}", ratio(bytes, lagging.peak_live));
    Some(vec![
        on.result.trace.clone(),
        format!("{:?}", on.placement),
        over_live(lagging.held),
        format!("{:.3}", lagging.ratio()),
        quantity::count(lagging.waits),
        quantity::count(lagging.driver_calls),
        over_live(lagging.held_without_waits),
        quantity::count(lagging.refused_without_waits),
        quantity::count(lagging.lag as u64),
        quantity::bytes(lagging.peak_live),
    ])
}

fn time(on: &OnPlacement) -> Option<Vec<String>> {
    let tails = &on.tails;
    let mean = on.result.ns_per_operation;
    let mut row = vec![
        on.result.trace.clone(),
        format!("{:?}", on.placement),
        mean.map_or("-".to_owned(), |ns| format!("{ns:.0}")),
    ];
    let counts = [
        tails.p99,
        tails.p999,
        tails.worst,
        tails.called_driver,
        tails.recovered,
        tails.machine,
    ];
    row.extend(counts.map(quantity::count));
    Some(row)
}

fn verdicts(traces: &[Surveyed], options: &ReplayOptions) -> String {
    let lines = traces.iter().flat_map(|trace| &trace.placements);
    let lines = lines.map(|on| {
        let options = super::on(on.placement, options);
        format!("{:?}: {}", on.placement, verdict::of(&on.result, &options))
    });
    lines.collect::<Vec<_>>().join("\n")
}
