//! Random programs, as data: what a host does with at most eight streams.

use piton_driver::OnFailure;
use std::ops::Range;

pub(crate) const LANES: usize = 8;

/// One thing the host does. Numbers that name a lane, an event, a semaphore or a value are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// A kernel on the lane's block of the pool; takes a block if the lane has none.
    Use {
        lane: usize,
        is_large: bool,
        traps: bool,
    },
    /// Kernels with many arguments, more than a small ring of parameters holds.
    Burst(usize),
    /// A kernel of another lane on this lane's block, ordered by two waits.
    Lend {
        lane: usize,
        to: usize,
    },
    /// The lane's block goes back to the pool.
    Give(usize),
    Fill(usize),
    Copy(usize),
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
    /// The host waits for an event: in virtual time until it is reached or nothing runs any more, else not at all.
    WaitOnHost(usize),
    Flush(usize),
    Abort(usize),
    ClearFailure(usize),
    /// Drops the lane's stream and makes another in its place.
    Renew(usize),
}

/// How a lane's streams are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneOptions {
    pub(crate) commands: u32,
    pub(crate) priority: i32,
    pub(crate) on_failure: OnFailure,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) seed: u64,
    pub(crate) hardware_queues: u32,
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
            .map(|_| lane(&mut random))
            .collect();
        let length = random.usize(5..100);
        Self {
            seed,
            hardware_queues: random.u32(1..4),
            ops: (0..length).map(|_| weights.op(&mut random)).collect(),
            lanes,
            is_abandoned: random.u32(..8) == 0,
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

fn lane(random: &mut fastrand::Rng) -> LaneOptions {
    LaneOptions {
        commands: [2, 4, 8, 16, 64][random.usize(..5)],
        priority: random.i32(-2..=0),
        on_failure: if random.u32(..5) == 0 {
            OnFailure::Continue
        } else {
            OnFailure::Stop
        },
    }
}

/// What a program is made of: not every program has everything.
struct Weights {
    has_traps: bool,
    has_semaphores: bool,
    has_memory: bool,
    has_aborts: bool,
}

impl Weights {
    fn random(random: &mut fastrand::Rng) -> Self {
        Self {
            has_traps: random.bool(),
            has_semaphores: random.bool(),
            has_memory: random.u32(..3) == 0,
            has_aborts: random.u32(..3) == 0,
        }
    }

    fn op(&self, random: &mut fastrand::Rng) -> Op {
        let fails = self.has_traps && random.u32(..6) == 0;
        let (lane, other) = (random.usize(..LANES), random.usize(..1 << 20));
        match random.u32(..60) {
            0 => Op::Burst(lane),
            1..14 => Op::Use {
                lane,
                is_large: random.u32(..3) == 0,
                traps: fails,
            },
            14..17 => Op::Lend { lane, to: other },
            17..20 => Op::Give(lane),
            20..22 => Op::Fill(lane),
            22..24 => Op::Copy(lane),
            24..27 => Op::Host {
                lane,
                panics: fails,
            },
            27..32 => Op::Record {
                lane,
                is_timed: random.u32(..4) == 0,
            },
            32..40 => Op::Wait { lane, event: other },
            40..44 if self.has_semaphores => Op::WaitSemaphore {
                lane,
                semaphore: other,
                ahead: random.u64(..2),
            },
            40..47 if self.has_semaphores => Op::SignalSemaphore {
                lane,
                semaphore: other,
            },
            47..49 if self.has_semaphores => Op::HostSignal(other),
            40..44 if self.has_memory => Op::WaitMemory {
                lane,
                writer: other,
                ahead: random.u32(..2),
            },
            44..49 if self.has_memory => Op::WriteMemory(lane),
            40..49 => Op::Record {
                lane,
                is_timed: false,
            },
            49..52 => Op::Query(other),
            52..55 => Op::WaitOnHost(other),
            55 => Op::Flush(lane),
            56 | 57 if self.has_aborts => Op::ClearFailure(lane),
            58 if self.has_aborts => Op::Abort(lane),
            _ => Op::Renew(lane),
        }
    }
}
