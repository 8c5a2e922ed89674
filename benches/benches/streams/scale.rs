//! Many streams: what a launch costs when there are up to ten thousand, what a stream costs, in time and in bytes.
//!
//! - *submit*: launches into streams that are held back by one gate; what the submitting thread pays.
//! - *to the end*: launches into free streams until all have ended, by worker and host together.
//!
//! In bursts a stream's lines are fetched once for sixteen launches; one by one they are fetched for each.

use crate::{
    HEAP,
    device::{Rig, launch, must},
    measure::{Effort, sample},
    report::{Sheet, figure},
    session::Session,
};
use piton_stream::Stream;
use std::time::Instant;

const COUNTS: [usize; 5] = [1, 8, 64, 1000, 10_000];
/// Launches a stream in one round.
const BURST: usize = 16;
/// Streams made for the cost of one.
const MADE: usize = 1000;

#[derive(Clone, Copy)]
enum Turns {
    Bursts,
    OneByOne,
}

pub(crate) fn measure(session: &mut Session) {
    let effort = session.effort;
    session.fill(
        "scale: nanoseconds a launch, p50; in brackets: over one stream",
        |rig| launches(rig, effort),
    );
    session.fill("scale: what a stream costs", |rig| streams(rig, effort));
}

fn launches(rig: &Rig, effort: Effort) -> Sheet {
    let mut first: Option<[f64; 4]> = None;
    let row = |count: usize| {
        let streams: Vec<_> = (0..count).map(|_| rig.stream()).collect();
        let rounds = effort.fewer(count.clamp(4, 200));
        let costs = [Turns::Bursts, Turns::OneByOne].map(|turns| {
            let submit = submit(rig, &streams, rounds, turns);
            [submit, to_the_end(rig, &streams, rounds, turns)]
        });
        let costs = [costs[0][0], costs[0][1], costs[1][0], costs[1][1]];
        let one = *first.get_or_insert(costs);
        let cell = |(cost, one): (&f64, &f64)| format!("{} ({:.2}x)", figure(*cost), cost / one);
        let mut cells = vec![count.to_string()];
        cells.extend(costs.iter().zip(&one).map(cell));
        cells
    };
    Sheet {
        columns: vec![
            "streams",
            "bursts of 16, submit",
            "bursts of 16, to the end",
            "one by one, submit",
            "one by one, to the end",
        ],
        rows: COUNTS.map(row).into(),
        ..Sheet::default()
    }
}

fn submit(rig: &Rig, streams: &[Stream], effort: Effort, turns: Turns) -> f64 {
    let mut gate = rig.gate();
    sample(effort, batch(streams), |samples| {
        gate.hold(streams);
        let started = Instant::now();
        round(rig, streams, turns);
        samples.push(started.elapsed());
        gate.open();
        synchronize(streams);
    })
    .quantiles()
    .p50
}

fn to_the_end(rig: &Rig, streams: &[Stream], effort: Effort, turns: Turns) -> f64 {
    sample(effort, batch(streams), |samples| {
        let started = Instant::now();
        round(rig, streams, turns);
        synchronize(streams);
        samples.push(started.elapsed());
    })
    .quantiles()
    .p50
}

fn batch(streams: &[Stream]) -> u32 {
    u32::try_from(streams.len() * BURST).unwrap_or(u32::MAX)
}

fn round(rig: &Rig, streams: &[Stream], turns: Turns) {
    let (outer, inner) = match turns {
        Turns::Bursts => (1, BURST),
        Turns::OneByOne => (BURST, 1),
    };
    for _ in 0..outer {
        for stream in streams {
            for _ in 0..inner {
                launch(stream, &rig.takes_16, &[7; 16]);
            }
        }
    }
}

fn synchronize(streams: &[Stream]) {
    for stream in streams {
        must(stream.synchronize());
    }
}

/// What a stream costs: made, made and used, dropped.
fn streams(rig: &Rig, effort: Effort) -> Sheet {
    let made = sample(effort.fewer(4), 64, |samples| {
        let mut streams = Vec::with_capacity(64);
        samples.time(|| streams.push(rig.stream()));
    })
    .quantiles();
    let make = || -> Vec<_> { (0..MADE).map(|_| rig.stream()).collect() };
    // Once before, so that slots and tables are there.
    drop(make());
    let (streams, fresh) = HEAP.during(make);
    let ((), used) = HEAP.during(|| {
        for _ in 0..4 {
            round(rig, &streams, Turns::Bursts);
        }
        for pair in streams.windows(2) {
            must(pair[1].wait(&pair[0].record()));
        }
        synchronize(&streams);
    });
    #[expect(clippy::cast_precision_loss, reason = "bytes of a stream are few")]
    let each = |bytes: i64| figure(bytes as f64 / MADE as f64);
    let line = |name: &str, value: String| vec![name.to_owned(), value];
    Sheet {
        columns: vec!["a stream", "mean of 1000"],
        rows: vec![
            line("made, ns p50", figure(made.p50)),
            line("made, ns p99", figure(made.p99)),
            line("bytes besides its rings, fresh", each(fresh.small_bytes)),
            line("bytes of its rings, fresh", each(fresh.ring_bytes)),
            line(
                "more bytes after 64 launches and a wait",
                each(used.small_bytes),
            ),
            line("more bytes of rings after that", each(used.ring_bytes)),
        ],
        ..Sheet::default()
    }
}
