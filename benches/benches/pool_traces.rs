//! The device pool on recorded traces: time for each allocation or free, its tail, and where the tail comes from.
//!
//! `cargo bench -p piton-benches --bench pool_traces -- --traces FOLDER [--quick] [--tables]`
//!
//! A program of its own and not a criterion benchmark: what counts are p99, p99.9 and the worst as well as the mean. The
//! source costs nothing and has no pages, so all time is the pool's. Every free names a use on the allocation's own
//! stream and on those that the trace says used it; all streams complete every 256 events. Means are the
//! thread's own time on a core, the median of several passes, with the row *harness* taken off; tails are single steps by
//! the wall clock, so what the machine does besides is in them, and is told apart from what the pool did.

#![expect(clippy::print_stdout, reason = "prints its table")]
#![expect(
    clippy::expect_used,
    reason = "a benchmark without its input ends and says why"
)]

#[path = "shared/addresses.rs"]
mod addresses;
#[path = "shared/trace_player.rs"]
mod trace_player;

use std::path::PathBuf;
use std::time::Instant;

use addresses::Addresses;
use clap::Parser;
use comfy_table::Table;
use piton_alloc::{
    AddressLookup, Allocation, DevicePool, MemoryPoolConfig, OwnedPool, PoolStats, Request,
};
use piton_sync::Mutex;
use piton_timeline::{Frontier, Lane, LaneId, Timeline};
use trace_player::{COMPLETION, Harness, Player, Subject, Trace, lanes, mean, traces_in};

#[derive(Debug, Parser)]
struct Options {
    /// A folder of recorded traces.
    #[arg(long)]
    traces: Option<PathBuf>,
    /// One pass of each.
    #[arg(long)]
    quick: bool,
    /// Pools that find allocations by address without a lock.
    #[arg(long)]
    tables: bool,
    /// What `cargo bench` says.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Subject for DevicePool {
    type Held = Allocation;

    #[inline(always)]
    fn take(&mut self, bytes: u64, lane: LaneId) -> Allocation {
        self.allocate(Request::new(bytes).on(lane))
            .expect("the source has enough")
    }

    #[inline(always)]
    fn give(&mut self, held: Allocation, uses: Frontier) {
        self.free(held, uses).expect("it is the pool's");
    }

    fn stats(&self) -> PoolStats {
        self.stats()
    }
}

/// A lock around an index that knows no streams.
struct Locked(Mutex<offset_allocator::Allocator<u32>>);

impl Subject for Locked {
    type Held = Option<offset_allocator::Allocation<u32>>;

    #[inline(always)]
    fn take(&mut self, bytes: u64, _lane: LaneId) -> Self::Held {
        let units = u32::try_from(bytes.div_ceil(512)).unwrap_or(u32::MAX);
        self.0.lock().allocate(units)
    }

    #[inline(always)]
    fn give(&mut self, held: Self::Held, _uses: Frontier) {
        if let Some(held) = held {
            self.0.lock().free(held);
        }
    }
}

/// Single steps by the wall clock, in nanoseconds.
struct Tail {
    p99: u64,
    p999: u64,
    worst: u64,
    /// Of the steps beyond p99.9: those that called the source, those that recovered memory without it, the others.
    causes: [u64; 3],
}

fn tail(subject: &mut impl Subject, lanes: &[Lane], trace: &Trace) -> Tail {
    let mut steps = Vec::with_capacity(trace.events.len());
    let mut player = Player::new(subject, lanes, trace);
    let mut before = player.subject.stats();
    for chunk in trace.events.chunks(COMPLETION) {
        for event in chunk {
            let started = Instant::now();
            if !player.step(*event) {
                continue;
            }
            let spent = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            // Looking costs: only where it may tell something, and outside the step.
            let cause = if spent > 300 {
                let now = player.subject.stats();
                let called = now.source_calls() != before.source_calls();
                let recovered = now.misses != before.misses;
                before = now;
                if called {
                    0
                } else {
                    2 - usize::from(recovered)
                }
            } else {
                2
            };
            steps.push((spent, cause));
        }
        player.advance();
    }
    player.give_all_back();
    steps.sort_unstable();
    let at = |thousandths: usize| steps[(steps.len() - 1) * thousandths / 1000].0;
    let p999 = at(999);
    let mut causes = [0; 3];
    for (spent, cause) in &steps {
        causes[*cause] += u64::from(*spent > p999);
    }
    Tail {
        p99: at(990),
        p999,
        worst: at(1000),
        causes,
    }
}

fn pool(streams: usize, config: &MemoryPoolConfig) -> (DevicePool, Vec<Lane>) {
    let timeline = Timeline::new();
    let lanes = lanes(&timeline, streams);
    let source = Addresses::new();
    let pool = DevicePool::new(source, timeline, config);
    (pool.expect("the configuration holds"), lanes)
}

fn row(name: &str, trace: &Trace, passes: usize, config: &MemoryPoolConfig) -> Vec<String> {
    let (_, lanes) = pool(trace.streams, config);
    let harness = mean(&mut Harness, &lanes, trace, passes);
    let locked = offset_allocator::Allocator::with_max_allocs(u32::MAX >> 1, 1 << 20);
    let locked = mean(&mut Locked(Mutex::new(locked)), &lanes, trace, passes) - harness;
    let (mut shared, lanes) = pool(trace.streams, config);
    let in_common = mean(&mut shared, &lanes, trace, passes) - harness;
    let Tail {
        p99,
        p999,
        worst,
        causes: [called, recovered, other],
    } = tail(&mut shared, &lanes, trace);
    let (unshared, lanes) = pool(trace.streams, config);
    let alone = mean(&mut OwnedPool::from(unshared), &lanes, trace, passes) - harness;
    vec![
        name.to_owned(),
        trace.events.len().to_string(),
        format!("{in_common:.1}"),
        format!("{alone:.1}"),
        format!("{locked:.1}"),
        format!("{p99} / {p999} / {worst}"),
        format!("{called} / {recovered} / {other}"),
    ]
}

fn main() {
    let options = Options::parse();
    let Some(folder) = &options.traces else {
        println!("skipped: no --traces");
        return;
    };
    let mut table = Table::new();
    table.set_header([
        "trace",
        "events",
        "shared pool, ns",
        "owned pool, ns",
        "locked offset-allocator, ns",
        "shared: p99 / p99.9 / worst, ns by the clock",
        "beyond p99.9: source / recovery / machine",
    ]);
    let passes = if options.bench && !options.quick {
        5
    } else {
        1
    };
    let address_lookup = if options.tables {
        AddressLookup::Tables
    } else {
        AddressLookup::Walk
    };
    let config = MemoryPoolConfig {
        address_lookup,
        ..MemoryPoolConfig::default()
    };
    for (name, trace) in traces_in(folder) {
        table.add_row(row(&name, &trace, passes, &config));
    }
    println!("{table}");
}
