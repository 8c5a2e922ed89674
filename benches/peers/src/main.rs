//! The device pool beside `cubecl-runtime`'s memory management, on recorded traces: time for each allocation or free, and
//! what is held of the device.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml -- --traces FOLDER [--quick]`
//!
//! Both are played by the same code as in the bench `pool_traces`, over sources whose calls cost nothing; the row
//! *harness* is taken off. `cubecl-runtime` gives each stream a memory management of its own, and finds that memory is
//! free when its handle is dropped; so it is here, and uses on other streams cost it nothing. What is held is that of one
//! pass in which work completes one event late, by Blocks: the source maps no pages. A backend tells the peer how
//! large a page may be at most; those for CUDA and HIP say a quarter of the device, and the device here has twice the
//! trace's peak of live bytes.

#[path = "../../benches/shared/addresses.rs"]
mod addresses;
#[path = "../../benches/shared/trace_player.rs"]
mod trace_player;

mod cubecl;

use std::path::PathBuf;

use addresses::Addresses;
use clap::Parser;
use comfy_table::Table;
use cubecl::{Cubecl, Preset};
use piton_alloc::{DevicePool, MemoryPoolConfig, OwnedPool};
use piton_timeline::{Lane, Timeline};
use trace_player::{Event, Harness, Player, Subject, Trace, lanes, mean, traces_in};

#[derive(Debug, Parser)]
struct Options {
    /// A folder of recorded traces.
    #[arg(long)]
    traces: PathBuf,
    /// One pass of each.
    #[arg(long)]
    quick: bool,
}

/// Most bytes that are live at once.
fn peak_live(trace: &Trace) -> u64 {
    let mut sizes = vec![0; trace.slots];
    let (mut live, mut peak) = (0, 0);
    for event in &trace.events {
        match *event {
            Event::Allocate { slot, bytes, .. } => {
                sizes[slot] = bytes;
                live += bytes;
                peak = live.max(peak);
            }
            Event::Free { slot } => live -= std::mem::take(&mut sizes[slot]),
            Event::Use { .. } => {}
        }
    }
    peak
}

/// Nanoseconds for an operation, and bytes held at most over `peak`.
struct Figures {
    time: f64,
    held: f64,
}

impl Figures {
    fn cells(&self, harness: f64) -> [String; 2] {
        [
            format!("{:.1}", self.time - harness),
            format!("{:.3}", self.held),
        ]
    }
}

fn piton(trace: &Trace, peak: u64, passes: usize) -> Figures {
    let fresh = || {
        let timeline = Timeline::new();
        let lanes = lanes(&timeline, trace.streams);
        let pool = DevicePool::new(Addresses::new(), timeline, &MemoryPoolConfig::default());
        (
            OwnedPool::from(pool.expect("the configuration holds")),
            lanes,
        )
    };
    let (mut timed, lanes) = fresh();
    let time = mean(&mut timed, &lanes, trace, passes);
    let (mut counted, lanes) = fresh();
    play_once(&mut counted, &lanes, trace);
    let held = counted.stats().peak_held_bytes as f64 / peak as f64;
    Figures { time, held }
}

fn cubecl(trace: &Trace, peak: u64, passes: usize, preset: Preset) -> Figures {
    let lanes = lanes(&Timeline::new(), trace.streams);
    let fresh = || Cubecl::new(preset, &lanes, 2 * peak / 4);
    let time = mean(&mut fresh(), &lanes, trace, passes);
    let mut counted = fresh();
    play_once(&mut counted, &lanes, trace);
    let held = counted.peak_held() as f64 / peak as f64;
    Figures { time, held }
}

/// The whole trace; the work of each event completes with the next one.
fn play_once(subject: &mut impl Subject, lanes: &[Lane], trace: &Trace) {
    let mut player = Player::new(subject, lanes, trace);
    for event in &trace.events {
        player.step(*event);
        player.advance();
    }
    player.give_all_back();
}

fn row(name: &str, trace: &Trace, passes: usize) -> Vec<String> {
    let peak = peak_live(trace);
    let timeline = Timeline::new();
    let harness = mean(
        &mut Harness,
        &lanes(&timeline, trace.streams),
        trace,
        passes,
    );
    let subjects = [
        piton(trace, peak, passes),
        cubecl(trace, peak, passes, Preset::SubSlices),
        cubecl(trace, peak, passes, Preset::ExclusivePages),
    ];
    let cells = subjects.iter().flat_map(|figures| figures.cells(harness));
    std::iter::once(name.to_owned()).chain(cells).collect()
}

fn main() {
    let options = Options::parse();
    let mut table = Table::new();
    table.set_header([
        "trace",
        "piton, ns",
        "held / live",
        "cubecl sub-slices, ns",
        "held / live",
        "cubecl exclusive pages, ns",
        "held / live",
    ]);
    for (name, trace) in traces_in(&options.traces) {
        table.add_row(row(&name, &trace, if options.quick { 1 } else { 3 }));
    }
    println!("{table}");
}
