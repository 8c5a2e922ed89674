//! Streams on the simulated device beside what someone would write instead, in one run.
//!
//! `cargo bench -p piton-benches --bench streams [-- --quick] [--load N] [--workers N] [--spin US] [--only TEXT] [--alone] [--json]`
//!
//! A program of its own and not a criterion benchmark: what counts is p99 and p99.9 as well as p50, and the ratio to
//! baselines that took turns with it on the same cores. Nothing is pinned. What the figures mean and where
//! their tails come from is in `docs/benchmarks.md`.

mod allocations;
mod device;
mod footprint;
mod heap;
mod latency;
mod load;
mod machine;
mod measure;
mod modules;
mod naive;
mod order;
mod pools;
mod replay;
mod report;
mod scale;
mod session;
mod submit;
mod submit_naive;
mod throughput;
mod writer;

use clap::Parser;
use device::Rig;
use load::Load;
use measure::Effort;
use naive::Baselines;
use report::Report;
use session::Session;
use std::time::Duration;

// GLOBAL: an allocator is the program's by its nature.
#[global_allocator]
static HEAP: heap::Counting = heap::Counting::new();

/// Streams beside naive baselines.
#[derive(Debug, Parser)]
struct Options {
    /// A run of a few seconds, to see that it runs.
    #[arg(long)]
    quick: bool,
    /// So many threads spin all the while.
    #[arg(long, default_value_t = 0)]
    load: u32,
    /// Worker threads of the device.
    #[arg(long)]
    workers: Option<u32>,
    /// Microseconds that threads of the device spin before they sleep.
    #[arg(long)]
    spin: Option<u64>,
    /// Only operations whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Without the baselines.
    #[arg(long)]
    alone: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// What `cargo bench` says and `cargo test` does not: without it every run is a quick one.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let options = Options::parse();
    let load_before = load::average();
    let load = Load::start(options.load);
    let session = run(&options);
    drop(load);
    let report = Report {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        load: options.load,
        workers: options.workers,
        spin_us: options.spin,
        load_before,
        load_after: load::average(),
        clock: measure::clock().as_secs_f64() * 1e9,
        repetition: measure::repetition(session.effort),
        rows: session.rows,
        sheets: session.sheets,
    };
    if options.json {
        report.print_json();
    } else {
        report.print();
    }
}

fn run(options: &Options) -> Session {
    let mut session = Session {
        rig: Rig::new(options.workers, options.spin.map(Duration::from_micros)),
        effort: if options.bench && !options.quick {
            Effort::FULL
        } else {
            Effort::QUICK
        },
        naive: (!options.alone).then(Baselines::new),
        only: options.only.clone(),
        rows: Vec::new(),
        sheets: Vec::new(),
    };
    machine::measure(&mut session);
    submit::measure(&mut session);
    order::measure(&mut session);
    latency::measure(&mut session);
    throughput::measure(&mut session);
    replay::measure(&mut session);
    modules::measure(&mut session);
    allocations::measure(&mut session);
    scale::measure(&mut session);
    footprint::measure(&mut session);
    session
}
