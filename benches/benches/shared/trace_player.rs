//! Recorded traces, and what plays them against an allocator: for benches that compare allocators on the same steps.
//!
//! Every free names a use on the allocation's own stream and on those that the trace says used it; all streams complete
//! every [`COMPLETION`] events. Times are the thread's own on a core.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use piton_alloc::{Allocation, DevicePool, OwnedPool, PoolStats, Request};
use piton_timeline::{Frontier, Lane, LaneId, Timeline};

/// Events after which all streams complete.
pub(crate) const COMPLETION: usize = 256;

#[derive(Clone, Copy)]
pub(crate) enum Event {
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
pub(crate) struct Trace {
    pub(crate) events: Vec<Event>,
    /// Most allocations that the trace numbers.
    pub(crate) slots: usize,
    pub(crate) streams: usize,
}

/// The recorded traces of a folder and their names, in order of name.
pub(crate) fn traces_in(folder: &Path) -> impl Iterator<Item = (String, Trace)> {
    let entries = fs::read_dir(folder).expect("the folder of traces is readable");
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "gz"))
        .collect();
    paths.sort();
    paths.into_iter().map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split('.').next().unwrap_or_default().to_owned();
        (name, read(&path))
    })
}

/// A lane for each stream of a trace, with work that is not complete.
pub(crate) fn lanes(timeline: &Arc<Timeline>, streams: usize) -> Vec<Lane> {
    let registered = (0..streams).filter_map(|_| timeline.register(None).ok());
    let lanes: Vec<Lane> = registered.collect();
    for lane in &lanes {
        lane.submit(1);
    }
    lanes
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
pub(crate) trait Subject {
    type Held;
    fn take(&mut self, bytes: u64, lane: LaneId) -> Self::Held;
    fn give(&mut self, held: Self::Held, uses: Frontier);
    fn stats(&self) -> PoolStats {
        PoolStats::default()
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

/// Does nothing: what the steps around the pool cost.
pub(crate) struct Harness;

impl Subject for Harness {
    type Held = LaneId;

    fn take(&mut self, _bytes: u64, lane: LaneId) -> LaneId {
        std::hint::black_box(lane)
    }

    fn give(&mut self, held: LaneId, uses: Frontier) {
        std::hint::black_box((held, uses));
    }
}

pub(crate) struct Player<'a, S: Subject> {
    pub(crate) subject: &'a mut S,
    lanes: &'a [Lane],
    held: Vec<Option<(S::Held, usize)>>,
    /// By slot, a bit for each stream besides its own that uses it.
    users: Vec<u64>,
    submitted: u64,
}

impl<'a, S: Subject> Player<'a, S> {
    pub(crate) fn new(subject: &'a mut S, lanes: &'a [Lane], trace: &Trace) -> Self {
        Self {
            subject,
            lanes,
            held: (0..trace.slots).map(|_| None).collect(),
            users: (0..trace.slots).map(|_| 0).collect(),
            submitted: lanes[0].now().seq,
        }
    }

    /// One event of the trace; whether the subject was asked.
    pub(crate) fn step(&mut self, event: Event) -> bool {
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
    pub(crate) fn advance(&mut self) {
        for lane in self.lanes {
            lane.complete(self.submitted);
            lane.submit(self.submitted + 1);
        }
        self.submitted += 1;
    }

    pub(crate) fn give_all_back(&mut self) {
        for (held, _) in self.held.iter_mut().filter_map(Option::take) {
            self.subject.give(held, Frontier::new());
        }
    }
}

pub(crate) fn own_time() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Nanoseconds for each operation, the median of passes over a subject that has seen the trace once.
pub(crate) fn mean(
    subject: &mut impl Subject,
    lanes: &[Lane],
    trace: &Trace,
    passes: usize,
) -> f64 {
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
