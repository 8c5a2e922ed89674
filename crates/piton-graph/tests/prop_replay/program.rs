//! Random programs, as data: what a host does with a few buffers on at most four streams, and where values in device
//! memory decide what is done.

use piton_driver::FillPattern;
use proptest::{collection::vec, prelude::*};

pub(crate) const STREAMS: usize = 4;
/// Buffers of the device whose content is compared; they come first.
pub(crate) const PUBLIC: usize = 3;
/// Buffers that live within the graph, behind those.
pub(crate) const PRIVATE: usize = 5;
/// What loops count down, one for each depth: the graph's own too.
pub(crate) const COUNTERS: usize = 2;
/// Buffers of the host, which are compared as well, behind those.
pub(crate) const HOSTS: usize = 2;
/// Buffers of the device.
pub(crate) const DEVICE: usize = PUBLIC + PRIVATE + COUNTERS;
/// All of them.
pub(crate) const BUFFERS: usize = DEVICE + HOSTS;
/// Buffers of the device that operations name: all but what loops count.
const NAMED: usize = PUBLIC + PRIVATE;

/// Words of a buffer, and bytes.
pub(crate) const WORDS: usize = 64;
pub(crate) const BYTES: usize = WORDS * 4;

/// Bytes of one buffer and as many of another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) bytes: usize,
}

/// Something that becomes a node, and a wait. Buffers are named by their places in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Fill {
        to: usize,
        pattern: FillPattern,
        at: usize,
        bytes: usize,
    },
    /// Kernels: each word by itself, with a value, or with another buffer's.
    Add(usize, u32),
    Mix(usize, usize),
    /// The lowest bit of each word of another buffer, which is something to decide on.
    Flag(usize, usize),
    /// A copy within the device, to it or from it.
    Move {
        to: usize,
        from: usize,
        span: Span,
    },
    /// A function on the host that reads one of its buffers and writes the other.
    Call {
        to: usize,
        from: usize,
        factor: u32,
    },
    /// Says how often a loop runs, and counts that down.
    Count(usize, u32),
    CountDown(usize),
    /// The stream waits for another without need.
    Wait(usize),
}

/// Operations, each with its stream; or others, as a value in device memory says.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Run(Vec<(usize, Op)>),
    If {
        /// The buffer with the value, and which word of it.
        flag: usize,
        word: usize,
        body: Vec<Self>,
    },
    While {
        counter: usize,
        body: Vec<Self>,
    },
}

/// New values for the nodes of a program: which, and dice.
pub(crate) type Updates = Vec<(prop::sample::Index, u32)>;

impl Op {
    /// The buffer it writes and the one it reads. What it leaves of the first it reads as well.
    pub(crate) fn named(self) -> Option<(usize, Option<usize>)> {
        match self {
            Self::Fill { to, .. } | Self::Add(to, _) => Some((to, None)),
            Self::Mix(to, from)
            | Self::Flag(to, from)
            | Self::Move { to, from, .. }
            | Self::Call { to, from, .. } => Some((to, Some(from))),
            Self::Count(depth, _) | Self::CountDown(depth) => Some((NAMED + depth, None)),
            Self::Wait(_) => None,
        }
    }

    /// The same on the same buffers with another value, other bytes or another factor, if it has such. What fills a whole
    /// buffer goes on to: it may be what the content begins with.
    pub(crate) fn changed(self, dice: u32) -> Self {
        match self {
            Self::Fill {
                to, bytes: BYTES, ..
            } => filled_whole(to, dice),
            Self::Fill { to, .. } => filled(to, dice, dice.rotate_left(7)),
            Self::Add(to, _) => Self::Add(to, dice),
            Self::Move { to, from, .. } => Self::Move {
                to,
                from,
                span: span(dice, dice.rotate_left(11)),
            },
            Self::Call { to, from, .. } => Self::Call {
                to,
                from,
                factor: dice,
            },
            Self::Count(depth, _) => Self::Count(depth, dice % 4),
            other => other,
        }
    }
}

/// A fill of some of a buffer's bytes with some pattern.
fn filled(to: usize, value: u32, dice: u32) -> Op {
    let bytes = value.to_le_bytes();
    let (unit, pattern) = match dice % 3 {
        0 => (1, FillPattern::Byte(bytes[0])),
        1 => (
            2,
            FillPattern::Half(u16::from_le_bytes([bytes[1], bytes[2]])),
        ),
        _ => (4, FillPattern::Word(value)),
    };
    let (first, count) = some_of(BYTES / unit, dice >> 8);
    Op::Fill {
        to,
        pattern,
        at: first * unit,
        bytes: count * unit,
    }
}

/// All of a buffer.
pub(crate) fn filled_whole(to: usize, value: u32) -> Op {
    Op::Fill {
        to,
        pattern: FillPattern::Word(value),
        at: 0,
        bytes: BYTES,
    }
}

fn span(dice: u32, more: u32) -> Span {
    let (to, bytes) = some_of(BYTES, dice);
    Span {
        to,
        from: more as usize % (BYTES - bytes + 1),
        bytes,
    }
}

/// The first and the number of some of `all`, at least one; all of them every fourth time.
fn some_of(all: usize, dice: u32) -> (usize, usize) {
    let dice = dice as usize;
    if dice.is_multiple_of(4) {
        return (0, all);
    }
    let first = dice / 4 % all;
    (first, 1 + dice / 4 / all % (all - first))
}

fn op() -> impl Strategy<Value = (usize, Op)> {
    let which = (0_u32..24, 0..STREAMS);
    (which, 0..NAMED, 1..NAMED, any::<(u32, u32)>()).prop_map(
        |((which, stream), to, step, dice)| {
            let from = (to + step) % NAMED;
            (stream, made(which, (to, from), dice))
        },
    )
}

fn made(which: u32, (to, from): (usize, usize), (dice, more): (u32, u32)) -> Op {
    let host = DEVICE + dice as usize % HOSTS;
    let other = DEVICE + (dice as usize + 1) % HOSTS;
    let span = span(dice >> 4, more);
    let moved = |to, from| Op::Move { to, from, span };
    match which {
        0..3 => filled(to, dice, more),
        3..7 => Op::Add(to, dice),
        7..12 => Op::Mix(to, from),
        12 => Op::Flag(to, from),
        13..16 => moved(to, from),
        16..18 => moved(to, host),
        18..20 => moved(host, from),
        20..23 => Op::Call {
            to: host,
            from: other,
            factor: more,
        },
        _ => Op::Wait(more as usize % STREAMS),
    }
}

fn run(length: usize) -> impl Strategy<Value = Part> {
    vec(op(), 0..length).prop_map(Part::Run)
}

/// What decides is made right before it is asked.
fn choice(body: Vec<Part>, (flag, step, word): (usize, usize, usize)) -> Vec<Part> {
    let decided = Op::Flag(flag, (flag + step) % NAMED);
    vec![
        Part::Run(vec![(word % STREAMS, decided)]),
        Part::If { flag, word, body },
    ]
}

fn repeated(mut body: Vec<Part>, depth: usize, times: u32) -> Vec<Part> {
    body.push(Part::Run(vec![(0, Op::CountDown(depth))]));
    vec![
        Part::Run(vec![(0, Op::Count(depth, times))]),
        Part::While {
            counter: NAMED + depth,
            body,
        },
    ]
}

/// Parts that begin with operations and go on with a body, at most two deep.
fn parts(depth: usize, length: usize) -> BoxedStrategy<Vec<Part>> {
    if depth == COUNTERS {
        return run(length).prop_map(|part| vec![part]).boxed();
    }
    let flag = (0..NAMED, 1..NAMED, 0..WORDS);
    let body = parts(depth + 1, 5);
    let kinds = (0..3_u32, flag, 0..4_u32);
    (run(length), body, kinds, run(length))
        .prop_map(move |(first, body, (kind, flag, times), last)| {
            let mut parts = vec![first];
            match kind {
                0 => return parts,
                1 => parts.extend(choice(body, flag)),
                _ => parts.extend(repeated(body, depth, times)),
            }
            parts.push(last);
            parts
        })
        .boxed()
}

/// A program of one capture.
pub(crate) fn captured() -> impl Strategy<Value = Vec<Part>> {
    run(40).prop_map(|part| written_first(vec![part]))
}

/// A program with bodies.
pub(crate) fn decided() -> impl Strategy<Value = Vec<Part>> {
    parts(0, 8).prop_map(written_first)
}

pub(crate) fn updates() -> impl Strategy<Value = Updates> {
    vec((any::<prop::sample::Index>(), any::<u32>()), 0..5)
}

/// The program, but that each buffer of the graph's own is written before it is used: it holds anything at first.
fn written_first(parts: Vec<Part>) -> Vec<Part> {
    let mut is_written = [false; NAMED];
    is_written[..PUBLIC].fill(true);
    let mut written = Vec::new();
    for part in parts {
        let mut fills = |part: &Part, ops: &mut Vec<(usize, Op)>| {
            for buffer in used(part) {
                if !std::mem::replace(&mut is_written[buffer], true) {
                    ops.push((buffer % STREAMS, filled_whole(buffer, 7)));
                }
            }
        };
        let mut ops = Vec::new();
        if let Part::Run(run) = part {
            for (stream, op) in run {
                fills(&Part::Run(vec![(stream, op)]), &mut ops);
                ops.push((stream, op));
            }
            written.push(Part::Run(ops));
        } else {
            fills(&part, &mut ops);
            written.extend([Part::Run(ops), part]);
        }
    }
    written
}

/// The device's buffers that a part names, without what loops count.
fn used(part: &Part) -> Vec<usize> {
    let mut all = match part {
        Part::Run(ops) => {
            let named = ops.iter().filter_map(|(_, op)| op.named());
            named
                .flat_map(|(to, from)| [Some(to), from])
                .flatten()
                .collect()
        }
        Part::If { flag, body, .. } => {
            let mut all: Vec<_> = body.iter().flat_map(used).collect();
            all.push(*flag);
            all
        }
        Part::While { body, .. } => body.iter().flat_map(used).collect(),
    };
    all.retain(|buffer| *buffer < NAMED);
    all
}
