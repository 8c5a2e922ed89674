//! Many streams: what a launch costs when there are up to ten thousand.
//!
//! - *submit*: launches into streams that are held back by one gate; what the submitting thread pays.
//! - *to the end*: launches into free streams until all have ended, by worker and host together.
//!
//! In bursts a stream's lines are fetched once for sixteen launches; one by one they are fetched for each.

use crate::{
    device::{Gate, Rig, launch, must},
    measure::{Effort, sample},
    report::{Sheet, figure},
    session::Session,
    writer::Exclusive,
};
use piton_stream::Stream;
use std::time::Instant;

const COUNTS: [usize; 5] = [1, 8, 64, 1000, 10_000];
/// Launches a stream in one round.
const BURST: usize = 16;
/// The same, as a batch.
const BATCH: u32 = 16;
/// Commands a stream holds: many streams have small rings.
pub(crate) const COMMANDS: u32 = 64;
/// Ways to launch, each with two figures.
const FIGURES: usize = 6;

/// Whatever launches go into.
pub(crate) trait Target {
    /// Makes a new one.
    fn new(rig: &Rig) -> Self;

    /// Later launches start when the gate opens.
    fn hold(&self, gate: &Gate);

    /// Launches so often.
    fn burst(&mut self, rig: &Rig, launches: usize);

    /// Blocks until all has ended.
    fn finish(&self);
}

impl Target for Stream {
    fn new(rig: &Rig) -> Self {
        rig.stream_of(COMMANDS)
    }

    fn hold(&self, gate: &Gate) {
        gate.hold(self);
    }

    fn burst(&mut self, rig: &Rig, launches: usize) {
        for _ in 0..launches {
            launch(self, &rig.takes_16, &[7; 16]);
        }
    }

    fn finish(&self) {
        must(self.synchronize());
    }
}

#[derive(Clone, Copy)]
enum Turns {
    Bursts,
    OneByOne,
}

pub(crate) fn measure(session: &mut Session) {
    let effort = session.effort;
    let title = "scale: nanoseconds a launch, p50; in brackets: over one stream";
    session.fill(title, |rig| launches(rig, effort));
}

fn launches(rig: &Rig, effort: Effort) -> Sheet {
    let mut first: Option<[f64; FIGURES]> = None;
    let row = |count: usize| {
        let [a, b] = costs::<Exclusive>(rig, count, effort, Turns::Bursts);
        let [c, d] = costs::<Stream>(rig, count, effort, Turns::Bursts);
        let [e, f] = costs::<Stream>(rig, count, effort, Turns::OneByOne);
        let costs = [a, b, c, d, e, f];
        let one = *first.get_or_insert(costs);
        let cell = |(cost, one): (&f64, &f64)| format!("{} ({:.2}x)", figure(*cost), cost / one);
        let mut cells = vec![count.to_string()];
        cells.extend(costs.iter().zip(&one).map(cell));
        cells
    };
    Sheet {
        columns: vec![
            "streams",
            "writer, bursts, submit",
            "to the end",
            "shared, bursts, submit",
            "to the end",
            "shared, one by one, submit",
            "to the end",
        ],
        rows: COUNTS.map(row).into(),
        ..Sheet::default()
    }
}

/// Submitting alone, by sixteen launches timed together, and all of it, by the round.
fn costs<T: Target>(rig: &Rig, count: usize, effort: Effort, turns: Turns) -> [f64; 2] {
    let mut targets: Vec<T> = (0..count).map(|_| T::new(rig)).collect();
    let mut gate = rig.gate();
    // Until every ring has come round: what the system does when a page is touched first is not what is asked here.
    for _ in 0..=COMMANDS as usize / BURST {
        round(rig, &mut targets, turns, |sixteen| sixteen());
        targets.iter().for_each(T::finish);
    }
    let submit = sample(effort, BATCH, |samples| {
        gate.close();
        for target in &targets {
            target.hold(&gate);
        }
        round(rig, &mut targets, turns, |sixteen| {
            let started = Instant::now();
            sixteen();
            samples.push(started.elapsed());
        });
        gate.open();
        targets.iter().for_each(T::finish);
    });
    let batch = BATCH.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    let to_the_end = sample(effort.fewer(count.clamp(4, 20)), batch, |samples| {
        let started = Instant::now();
        round(rig, &mut targets, turns, |sixteen| sixteen());
        targets.iter().for_each(T::finish);
        samples.push(started.elapsed());
    });
    [submit.quantiles().p50, to_the_end.quantiles().p50]
}

/// Sixteen launches into each, handed to `run` by sixteen.
fn round<T: Target>(
    rig: &Rig,
    targets: &mut [T],
    turns: Turns,
    mut run: impl FnMut(&mut dyn FnMut()),
) {
    match turns {
        Turns::Bursts => {
            for target in targets {
                run(&mut || target.burst(rig, BURST));
            }
        }
        Turns::OneByOne => {
            for first in 0..targets.len() {
                run(&mut || {
                    for index in first * BURST..(first + 1) * BURST {
                        let next = index % targets.len();
                        targets[next].burst(rig, 1);
                    }
                });
            }
        }
    }
}
