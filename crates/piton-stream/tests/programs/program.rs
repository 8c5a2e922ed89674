//! Random programs, as data: what a host does with at most eight streams.

use piton_driver::OnFailure;
use piton_stream::WhenFull;
use std::ops::Range;

pub(crate) const LANES: usize = 8;
/// Devices, if a program has more than one.
pub(crate) const DEVICES: usize = 2;

/// How a command is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Try,
    /// Parks while there is no room, where the stream's policy says so.
    Blocking,
    /// As a future that waits for room, or is dropped while it does.
    Future {
        is_dropped: bool,
    },
    /// By a writer, which has the stream to itself.
    Writer,
}

/// A command that moves bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    Fill,
    CopyWithin,
    CopyIn,
    CopyOut,
    /// To another device, or from it.
    CopyPeer,
}

/// One thing the host does. Numbers that name a lane, an event, a semaphore or a value are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// A kernel on the lane's block of the pool; takes a block if the lane has none.
    Use {
        lane: usize,
        is_large: bool,
        traps: bool,
        form: Form,
    },
    /// Kernels with many arguments, more than a small ring of parameters holds.
    Burst {
        lane: usize,
        form: Form,
    },
    /// A kernel of another lane on this lane's block, ordered by two waits.
    Lend {
        lane: usize,
        to: usize,
    },
    /// A kernel on the lane's block behind several events, taken with the waits it needs or not at all.
    Behind {
        lane: usize,
        events: [usize; 3],
        form: Form,
    },
    /// A writer of the lane is kept while the next operations are done: the lane's own go through it, if it can do them.
    Keep {
        lane: usize,
        operations: usize,
    },
    /// The lane's block goes back to the pool.
    Give(usize),
    /// Bytes of the lane's block, of its own two areas, or of the host; `dice` says which.
    Move {
        lane: usize,
        what: Move,
        dice: u64,
        form: Form,
    },
    Host {
        lane: usize,
        panics: bool,
    },
    Record {
        lane: usize,
        is_timed: bool,
    },
    Wait {
        lane: usize,
        event: usize,
    },
    WaitSemaphore {
        lane: usize,
        semaphore: usize,
        ahead: u64,
    },
    SignalSemaphore {
        lane: usize,
        semaphore: usize,
    },
    HostSignal(usize),
    /// The lane waits for a word in memory that another lane writes.
    WaitMemory {
        lane: usize,
        writer: usize,
        ahead: u32,
    },
    WriteMemory(usize),
    Query(usize),
    /// A future of an event is made, and polled.
    Await(usize),
    /// A future is polled again.
    Poll(usize),
    DropFuture(usize),
    /// The host waits for an event: in virtual time until it is reached or nothing runs any more, else not at all.
    WaitOnHost(usize),
    Flush(usize),
    Abort(usize),
    ClearFailure(usize),
    /// Drops the lane's stream and makes another in its place.
    Renew(usize),
    /// The last device goes away for good.
    Lose,
}

impl Op {
    /// Whether it needs the stream of the `lane`-th of so many lanes, or what takes its place.
    pub(crate) fn is_of(&self, lane: usize, lanes: usize) -> bool {
        let is_it = |named: usize| named % lanes == lane;
        match *self {
            Self::Lend { lane, to } => is_it(lane) || is_it(to),
            Self::Use { lane, .. }
            | Self::Burst { lane, .. }
            | Self::Behind { lane, .. }
            | Self::Keep { lane, .. }
            | Self::Give(lane)
            | Self::Move { lane, .. }
            | Self::Host { lane, .. }
            | Self::Record { lane, .. }
            | Self::Wait { lane, .. }
            | Self::WaitSemaphore { lane, .. }
            | Self::SignalSemaphore { lane, .. }
            | Self::WaitMemory { lane, .. }
            | Self::WriteMemory(lane)
            | Self::Flush(lane)
            | Self::ClearFailure(lane)
            | Self::Renew(lane) => is_it(lane),
            _ => false,
        }
    }
}

/// How a lane's streams are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneOptions {
    pub(crate) device: usize,
    pub(crate) commands: u32,
    pub(crate) priority: i32,
    pub(crate) on_failure: OnFailure,
    pub(crate) when_full: WhenFull,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) seed: u64,
    pub(crate) hardware_queues: u32,
    pub(crate) devices: usize,
    pub(crate) lanes: Vec<LaneOptions>,
    pub(crate) ops: Vec<Op>,
    /// Everything is dropped with work pending.
    pub(crate) is_abandoned: bool,
}

impl Program {
    /// The program of a seed.
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let weights = Weights::random(&mut random);
        let lanes: Vec<_> = (0..random.usize(1..=LANES))
            .map(|_| weights.lane(&mut random))
            .collect();
        let length = random.usize(5..100);
        Self {
            seed,
            hardware_queues: random.u32(1..4),
            devices: weights.devices,
            ops: (0..length).map(|_| weights.op(&mut random)).collect(),
            lanes,
            is_abandoned: random.u32(..8) == 0,
        }
    }

    /// A program that gives one lane of the lowest band little to do and the others, all more urgent, very much. It
    /// waits for nothing, so in virtual time all of it is there before any of it runs.
    pub(crate) fn crowded(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let lane = |priority| LaneOptions {
            device: 0,
            commands: 64,
            priority,
            on_failure: OnFailure::Stop,
            when_full: WhenFull::Refuse,
        };
        let mut ops: Vec<_> = (0..LANES * 60)
            .map(|at| fill(at % LANES, &mut random))
            .collect();
        ops.retain(|op| !matches!(op, Op::Move { lane: 0, .. }) || random.u32(..4) == 0);
        random.shuffle(&mut ops);
        let urgent = (1..LANES).map(|at| lane(if at % 2 == 0 { -1 } else { -2 }));
        Self {
            seed,
            hardware_queues: random.u32(1..4),
            devices: 1,
            lanes: [lane(0)].into_iter().chain(urgent).collect(),
            ops,
            is_abandoned: false,
        }
    }

    pub(crate) fn has_memory_waits(&self) -> bool {
        let waits = |op: &Op| matches!(op, Op::WaitMemory { .. });
        self.ops.iter().any(waits)
    }

    /// The same program without some of its operations.
    pub(crate) fn without(&self, range: Range<usize>) -> Self {
        let mut shorter = self.clone();
        shorter.ops.drain(range);
        shorter
    }
}

fn fill(lane: usize, random: &mut fastrand::Rng) -> Op {
    Op::Move {
        lane,
        what: Move::Fill,
        dice: random.u64(..),
        form: Form::Try,
    }
}

fn form(random: &mut fastrand::Rng) -> Form {
    match random.u32(..8) {
        0..3 => Form::Try,
        3 | 4 => Form::Blocking,
        5 => Form::Writer,
        _ => Form::Future {
            is_dropped: random.bool(),
        },
    }
}

/// What a program is made of: not every program has everything.
struct Weights {
    has_traps: bool,
    has_semaphores: bool,
    has_memory: bool,
    has_aborts: bool,
    has_loss: bool,
    devices: usize,
}

impl Weights {
    fn random(random: &mut fastrand::Rng) -> Self {
        Self {
            has_traps: random.bool(),
            has_semaphores: random.bool(),
            has_memory: random.u32(..3) == 0,
            has_aborts: random.u32(..3) == 0,
            has_loss: random.u32(..12) == 0,
            devices: if random.u32(..3) == 0 { DEVICES } else { 1 },
        }
    }

    fn lane(&self, random: &mut fastrand::Rng) -> LaneOptions {
        // The host is one thread: if it parks, nobody gives the signal that makes room.
        let may_park = !self.has_semaphores && !self.has_memory;
        LaneOptions {
            device: random.usize(..self.devices),
            commands: [2, 4, 8, 16, 64][random.usize(..5)],
            priority: random.i32(-2..=0),
            on_failure: if random.u32(..5) == 0 {
                OnFailure::Continue
            } else {
                OnFailure::Stop
            },
            when_full: if may_park && random.bool() {
                WhenFull::Park
            } else {
                WhenFull::Refuse
            },
        }
    }

    fn op(&self, random: &mut fastrand::Rng) -> Op {
        let (lane, other) = (random.usize(..LANES), random.usize(..1 << 20));
        match random.u32(..78) {
            0..32 => self.work(random, (lane, other)),
            32..40 => Op::Wait { lane, event: other },
            40..49 => self.signal(random, (lane, other)),
            49..52 => Op::Query(other),
            52..55 => Op::WaitOnHost(other),
            55 => Op::Flush(lane),
            56 | 57 if self.has_aborts => Op::ClearFailure(lane),
            58 if self.has_aborts => Op::Abort(lane),
            60..64 => Op::Await(other),
            64..66 => Op::Poll(other),
            66 => Op::DropFuture(other),
            67..70 => Op::Record {
                lane,
                is_timed: random.u32(..4) == 0,
            },
            70..75 => Op::Behind {
                lane,
                events: [other, random.usize(..1 << 20), random.usize(..1 << 20)],
                form: form(random),
            },
            75 | 76 => Op::Keep {
                lane,
                operations: random.usize(1..10),
            },
            77 if self.has_loss => Op::Lose,
            _ => Op::Renew(lane),
        }
    }

    fn work(&self, random: &mut fastrand::Rng, (lane, other): (usize, usize)) -> Op {
        let fails = self.has_traps && random.u32(..6) == 0;
        match random.u32(..32) {
            0 => Op::Burst {
                lane,
                form: form(random),
            },
            1..14 => Op::Use {
                lane,
                is_large: random.u32(..3) == 0,
                traps: fails,
                form: form(random),
            },
            14..17 => Op::Lend { lane, to: other },
            17..20 => Op::Give(lane),
            20..28 => Op::Move {
                lane,
                what: [
                    Move::Fill,
                    Move::CopyWithin,
                    Move::CopyIn,
                    Move::CopyOut,
                    Move::CopyPeer,
                ][other % 5],
                dice: random.u64(..),
                form: form(random),
            },
            28..31 => Op::Host {
                lane,
                panics: fails,
            },
            _ => Op::Record {
                lane,
                is_timed: false,
            },
        }
    }

    fn signal(&self, random: &mut fastrand::Rng, (lane, other): (usize, usize)) -> Op {
        match random.u32(..9) {
            0..4 if self.has_semaphores => Op::WaitSemaphore {
                lane,
                semaphore: other,
                ahead: random.u64(..2),
            },
            0..7 if self.has_semaphores => Op::SignalSemaphore {
                lane,
                semaphore: other,
            },
            7..9 if self.has_semaphores => Op::HostSignal(other),
            0..4 if self.has_memory => Op::WaitMemory {
                lane,
                writer: other,
                ahead: random.u32(..2),
            },
            4..9 if self.has_memory => Op::WriteMemory(lane),
            _ => Op::Record {
                lane,
                is_timed: false,
            },
        }
    }
}
