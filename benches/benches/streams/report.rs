//! The table and its JSON.

#![expect(clippy::print_stdout, reason = "the report is what the program is for")]

use crate::{measure::Quantiles, naive::NAMES};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// One operation, measured on piton and on the baselines.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) operation: String,
    /// What the design asks of the p50, in nanoseconds.
    pub(crate) target: Option<f64>,
    pub(crate) piton: Quantiles,
    pub(crate) baselines: [Option<Quantiles>; 4],
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let piton = self.piton;
        let verdict = match self.target {
            Some(target) if piton.p50 <= target => "met",
            Some(_) => "missed",
            None => "",
        };
        let target = self.target.map_or_else(String::new, figure);
        let batch = format!("{} x {}", piton.samples, piton.batch);
        let mut cells = vec![self.operation.clone(), batch];
        cells.extend([figure(piton.p50), target, verdict.to_owned()]);
        let ratio = |quantiles: &Option<Quantiles>| {
            quantiles.map_or_else(
                || "-".to_owned(),
                |naive| format!("{} ({:.1}x)", figure(naive.p50), naive.p50 / piton.p50),
            )
        };
        cells.extend(self.baselines.iter().map(ratio));
        cells
    }

    fn tails(&self) -> Vec<String> {
        let tail = |found: &Quantiles| format!("{} / {}", figure(found.p99), figure(found.p999));
        let mut cells = vec![self.operation.clone(), tail(&self.piton)];
        let baselines = self.baselines.iter().map(Option::as_ref);
        cells.extend(baselines.map(|found| found.map_or_else(|| "-".to_owned(), tail)));
        cells
    }
}

/// Any other table. The first column is text, the others figures.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Sheet {
    pub(crate) title: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Everything a run found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) cores: usize,
    /// Worker threads of the device; the default is one a core but one.
    pub(crate) workers: Option<u32>,
    /// Microseconds that its threads spin before they sleep, if not as they usually do.
    pub(crate) spin_us: Option<u64>,
    /// Threads of the foreign load.
    pub(crate) load: u32,
    /// What the system says of its load; a run of its own accounts for one or two.
    pub(crate) load_before: String,
    pub(crate) load_after: String,
    /// What reading the clock adds to a sample, in nanoseconds; it was taken off.
    pub(crate) clock: f64,
    /// What the loop adds to each operation.
    pub(crate) repetition: Quantiles,
    pub(crate) rows: Vec<Row>,
    pub(crate) sheets: Vec<Sheet>,
}

impl Report {
    pub(crate) fn print(&self) {
        println!(
            "Nanoseconds an operation. N x M: N samples of M operations timed together. {} ns of the clock \
             are taken off a sample; an operation includes {} ns of the loop. In brackets: baseline over piton.",
            figure(self.clock),
            figure(self.repetition.p50),
        );
        let workers = self.workers.unwrap_or_else(|| {
            u32::try_from(self.cores.saturating_sub(1).max(1)).unwrap_or(u32::MAX)
        });
        if let Some(spin) = self.spin_us {
            println!("Threads of the device spin for {spin} us.");
        }
        println!(
            "Cores: {}. Workers: {workers}. Foreign load: {} threads. Load average before: {}; after: {}.\n",
            self.cores, self.load, self.load_before, self.load_after
        );
        let columns = ["operation", "N x M", "p50", "target", ""];
        let columns: Vec<_> = columns.into_iter().chain(NAMES).collect();
        println!(
            "{}\n\np99 / p99.9",
            table(&columns, self.rows.iter().map(Row::cells))
        );
        let columns: Vec<_> = ["operation", "piton"].into_iter().chain(NAMES).collect();
        println!("{}", table(&columns, self.rows.iter().map(Row::tails)));
        for sheet in &self.sheets {
            println!("\n{}", sheet.title);
            println!("{}", table(&sheet.columns, sheet.rows.iter().cloned()));
        }
    }

    pub(crate) fn print_json(&self) {
        let text = serde_json::to_string_pretty(self);
        println!("{}", crate::device::must(text));
    }
}

fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_MARKDOWN)
        .set_header(columns.to_vec());
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Three significant digits, without an exponent.
pub(crate) fn figure(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}
