//! The device pool on recorded traces: time for each allocation or free, its tail, and where the tail comes from.
//!
//! `cargo bench -p piton-benches --bench pool_traces -- --traces FOLDER [--quick] [--tables]`
//!
//! A program of its own and not a criterion benchmark: what counts are p99, p99.9 and the worst as well as the mean. The
//! source costs nothing and has no pages, so all time is the pool's. Every free names a use on the allocation's own
//! stream and on those that the trace says used it; all streams complete every [`COMPLETION`] events. Means are the
//! thread's own time on a core, the median of several passes, with the row *harness* taken off; tails are single steps by
//! the wall clock, so what the machine does besides is in them, and is told apart from what the pool did.

#![expect(clippy::print_stdout, reason = "prints its table")]
#![expect(
    clippy::expect_used,
    reason = "a benchmark without its input ends and says why"
)]

#[path = "shared/addresses.rs"]
mod addresses;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use addresses::Addresses;
use clap::Parser;
use comfy_table::Table;
use flate2::read::MultiGzDecoder;
use piton_alloc::{
    AddressLookup, Allocation, DevicePool, MemoryPoolConfig, OwnedPool, PoolStats, Request,
};
use piton_sync::Mutex;
use piton_timeline::{Frontier, Lane, LaneId, Timeline};

/// Events after which all streams complete.
const COMPLETION: usize = 256;

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

#[derive(Clone, Copy)]
enum Event {
    Allocate {
        slot: usize,
        bytes: u64,
        stream: usize,
    },
    Use {
        slot: usize,
        stream: usize,
    },
    Free {
        slot: usize,
    },
}

#[derive(Default)]
struct Trace {
    events: Vec<Event>,
    slots: usize,
    streams: usize,
}

fn read(path: &Path) -> Trace {
    let file = File::open(path).expect("the trace is readable");
    let mut text = String::new();
    MultiGzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("the trace is gzip'd text");
    let mut trace = Trace::default();
    for line in text.lines() {
        let mut fields = line.split(',');
        let kind = fields.next();
        let numbers: Vec<usize> = fields.filter_map(|field| field.parse().ok()).collect();
        let event = match (kind, numbers.as_slice()) {
            (Some("a"), &[slot, bytes, stream]) => Event::Allocate {
                slot,
                bytes: bytes as u64,
                stream,
            },
            (Some("u"), &[slot, stream]) => Event::Use { slot, stream },
            (Some("f"), &[slot, ..]) => Event::Free { slot },
            _ => continue,
        };
        if let Event::Allocate { slot, stream, .. } = event {
            trace.slots = trace.slots.max(slot + 1);
            trace.streams = trace.streams.max(stream + 1);
        }
        if let Event::Use { stream, .. } = event {
            trace.streams = trace.streams.max(stream + 1);
        }
        trace.events.push(event);
    }
    trace
}

/// What is measured. In place, as where a program calls its pool itself: a handle that passes through one more function is
/// copied once more.
trait Subject {
    type Held;
    fn take(&mut self, bytes: u64, lane: LaneId) -> Self::Held;
    fn give(&mut self, held: Self::Held, uses: Frontier);
    fn stats(&self) -> PoolStats {
        PoolStats::default()
    }
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

impl Subject for OwnedPool {
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
        DevicePool::stats(self)
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

/// Does nothing: what the steps around the pool cost.
struct Harness;

impl Subject for Harness {
    type Held = LaneId;

    fn take(&mut self, _bytes: u64, lane: LaneId) -> LaneId {
        std::hint::black_box(lane)
    }

    fn give(&mut self, held: LaneId, uses: Frontier) {
        std::hint::black_box((held, uses));
    }
}

struct Player<'a, S: Subject> {
    subject: &'a mut S,
    lanes: &'a [Lane],
    held: Vec<Option<(S::Held, usize)>>,
    /// By slot, a bit for each stream besides its own that uses it.
    users: Vec<u64>,
    submitted: u64,
}

impl<'a, S: Subject> Player<'a, S> {
    fn new(subject: &'a mut S, lanes: &'a [Lane], trace: &Trace) -> Self {
        Self {
            subject,
            lanes,
            held: (0..trace.slots).map(|_| None).collect(),
            users: (0..trace.slots).map(|_| 0).collect(),
            submitted: lanes[0].now().seq,
        }
    }

    /// One event of the trace; whether the subject was asked.
    fn step(&mut self, event: Event) -> bool {
        match event {
            Event::Allocate {
                slot,
                bytes,
                stream,
            } => {
                let held = self.subject.take(bytes, self.lanes[stream].id());
                self.held[slot] = Some((held, stream));
                true
            }
            Event::Use { slot, stream } => {
                self.users[slot] |= 1 << stream;
                false
            }
            Event::Free { slot } => {
                let Some((held, stream)) = self.held[slot].take() else {
                    return false;
                };
                let mut uses = Frontier::from(self.lanes[stream].now());
                let mut users = std::mem::take(&mut self.users[slot]);
                while users != 0 {
                    uses.insert(self.lanes[users.trailing_zeros() as usize].now());
                    users &= users - 1;
                }
                self.subject.give(held, uses);
                true
            }
        }
    }

    /// New work on every stream, and everything before it complete.
    fn advance(&mut self) {
        for lane in self.lanes {
            lane.complete(self.submitted);
            lane.submit(self.submitted + 1);
        }
        self.submitted += 1;
    }

    fn give_all_back(&mut self) {
        for (held, _) in self.held.iter_mut().filter_map(Option::take) {
            self.subject.give(held, Frontier::new());
        }
    }
}

fn own_time() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Nanoseconds for each operation, the median of passes over a subject that has seen the trace once.
fn mean(subject: &mut impl Subject, lanes: &[Lane], trace: &Trace, passes: usize) -> f64 {
    let mut means = Vec::new();
    for _ in 0..=passes {
        let mut player = Player::new(subject, lanes, trace);
        let mut asked = 0_u64;
        let started = own_time();
        for chunk in trace.events.chunks(COMPLETION) {
            for event in chunk {
                asked += u64::from(player.step(*event));
            }
            player.advance();
        }
        means.push((own_time() - started) as f64 / asked.max(1) as f64);
        player.give_all_back();
    }
    means.remove(0);
    means.sort_by(f64::total_cmp);
    means[means.len() / 2]
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
    let lanes: Vec<Lane> = (0..streams)
        .filter_map(|_| timeline.register(None).ok())
        .collect();
    for lane in &lanes {
        lane.submit(1);
    }
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
    let entries = fs::read_dir(folder).expect("the folder of traces is readable");
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "gz"))
        .collect();
    paths.sort();
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
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split('.').next().unwrap_or_default().to_owned();
        table.add_row(row(&name, &read(&path), passes, &config));
    }
    println!("{table}");
}
