//! The pinned pool beside what else hands out memory to threads, in one run; and what it wastes on recorded requests.
//!
//! `cargo bench -p piton-benches --bench pinned [-- --quick] [--only TEXT] [--traces FOLDER] [--json]`
//!
//! A program of its own and not a criterion benchmark: what counts are ratios to baselines that took turns with it on
//! the same cores, with one thread and with two. Times are those threads' own time on a core, so that a machine with
//! other work does not change them much; caches shared with that work do. What the figures mean is in
//! `docs/benchmarks.md`.

mod clock;
mod copies;
mod general;
mod host_device;
mod locked;
mod locking;
mod subject;
mod threads;
mod waste;
mod ways;

use clap::Parser;
use std::path::PathBuf;

/// The pinned pool beside baselines.
#[derive(Debug, Parser)]
struct Options {
    /// A run of a second or two, to see that it runs.
    #[arg(long)]
    quick: bool,
    /// Only the part whose name contains this: threads, copies, ways, locking, waste.
    #[arg(long)]
    only: Option<String>,
    /// A folder of recorded traces; without one the waste is not measured.
    #[arg(long)]
    traces: Option<PathBuf>,
    /// What `cargo bench` says and `cargo test` does not: without it every run is a quick one.
    #[arg(long, hide = true)]
    bench: bool,
}

#[expect(clippy::print_stdout, reason = "prints its tables")]
fn main() {
    let options = Options::parse();
    let is_wanted = |part: &str| {
        let only = options.only.as_deref();
        only.is_none_or(|only| part.contains(only))
    };
    let is_full = options.bench && !options.quick;
    if is_wanted("threads") {
        println!("{}", threads::table(is_full));
    }
    if is_wanted("copies") {
        println!("{}", copies::table(is_full));
    }
    if is_wanted("ways") {
        println!("{}", ways::table(is_full));
    }
    if is_wanted("locking") {
        println!("{}", locking::table(is_full));
    }
    if is_wanted("waste") {
        match &options.traces {
            Some(folder) => println!("{}", waste::table(folder)),
            None => println!("skipped: waste, no --traces"),
        }
    }
}
