//! What the pool takes for recorded requests beyond what they asked for, and what it holds beyond that.

#![expect(
    clippy::expect_used,
    reason = "a benchmark without its input ends and says why"
)]

use crate::subject::pool;
use comfy_table::Table;
use flate2::read::MultiGzDecoder;
use piton_pinned::{PinnedBlock, PinnedPoolConfig, PinnedStats};
use std::{
    collections::HashMap,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Bytes of a class that a thread keeps: as configured by default, and none.
const MAGAZINES: [u64; 2] = [32 << 20, 0];

/// What one trace came to. Sizes are bytes.
#[derive(Default)]
struct Waste {
    requests: u64,
    asked: u64,
    taken: u64,
    /// Requests whose slack is above a quarter and above 63 bytes.
    over_a_quarter: u64,
    /// Requests above 32 MiB whose slack is a page or more.
    over_a_page: u64,
    peak_live: u64,
    peak_taken: u64,
    peak_held: u64,
}

impl Waste {
    fn note(&mut self, block: &PinnedBlock) {
        let (asked, taken) = (block.bytes() as u64, block.capacity());
        let slack = taken - asked;
        self.requests += 1;
        self.asked += asked;
        self.taken += taken;
        self.over_a_quarter += u64::from(slack > 63 && slack > asked / 4);
        self.over_a_page += u64::from(asked > 32 << 20 && slack >= 4096);
    }

    /// What there is after a request: a drop makes nothing more.
    fn note_peaks(&mut self, stats: &PinnedStats) {
        if stats.requested_bytes > self.peak_live {
            self.peak_live = stats.requested_bytes;
            self.peak_taken = stats.live_bytes;
        }
        self.peak_held = self.peak_held.max(stats.held_bytes);
    }
}

/// Replays a trace, one line a request: `a,NAME,BYTES,STREAM` or `f,NAME,STREAM`. The thread keeps so many bytes of a class.
fn replay(lines: &str, magazine_bytes: u64) -> Waste {
    let config = PinnedPoolConfig {
        cap_bytes: 1 << 44,
        magazine_bytes,
        ..PinnedPoolConfig::default()
    };
    let pool = pool(config);
    let (mut waste, mut live) = (Waste::default(), HashMap::new());
    for line in lines.lines() {
        let mut fields = line.split(',');
        let (kind, name, bytes) = (fields.next(), fields.next(), fields.next());
        match (kind, name, bytes.and_then(|bytes| bytes.parse().ok())) {
            (Some("a"), Some(name), Some(bytes)) if bytes > 0 => {
                let block = pool.allocate(bytes).expect("the cap is above all traces");
                waste.note(&block);
                live.insert(name.to_owned(), block);
                waste.note_peaks(&pool.stats());
            }
            (Some("f"), Some(name), _) => drop(live.remove(name)),
            _ => {}
        }
    }
    waste
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        MultiGzDecoder::new(fs::File::open(path)?).read_to_string(&mut text)?;
    } else {
        fs::File::open(path)?.read_to_string(&mut text)?;
    }
    Ok(text)
}

fn traces(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of traces");
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.to_string_lossy();
            name.ends_with(".csv") || name.ends_with(".csv.gz")
        })
        .collect();
    paths.sort();
    paths
}

fn per_cent(part: u64, whole: u64) -> String {
    format!("{:.2}", 100.0 * part as f64 / whole.max(1) as f64)
}

/// One row a trace.
pub(crate) fn table(folder: &Path) -> Table {
    let mut table = Table::new();
    table.set_header([
        "trace",
        "requests",
        "slack, % of what was asked",
        "slack above max(25 %, 63 B)",
        "above 32 MiB: a page or more",
        "at the peak: blocks, % above live",
        "peak held, % above peak live",
        "where a thread keeps no blocks",
    ]);
    for path in traces(folder) {
        let lines = read(&path).expect("a readable trace");
        let [waste, none] = MAGAZINES.map(|bytes| replay(&lines, bytes));
        let held = |waste: &Waste| per_cent(waste.peak_held - waste.peak_live, waste.peak_live);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        table.add_row([
            name.split('.').next().unwrap_or_default().to_owned(),
            waste.requests.to_string(),
            per_cent(waste.taken - waste.asked, waste.asked),
            waste.over_a_quarter.to_string(),
            waste.over_a_page.to_string(),
            per_cent(waste.peak_taken - waste.peak_live, waste.peak_live),
            held(&waste),
            held(&none),
        ]);
    }
    table
}
