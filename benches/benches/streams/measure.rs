//! Samples and their quantiles.
//!
//! One sample is the mean time of a batch of operations timed together: reading the clock costs about as much as the
//! shorter operations, so those are timed by the batch and the table says how many there are in one. Their p99 is then
//! that of batch means: a single slow operation shows by a batch's share of it. What reading the clock takes itself is taken
//! off each sample.
//!
//! What is compared takes turns: each is measured in [`TURNS`] parts, every time with new streams and threads, so that
//! a machine that slows down, or a lucky address, is shared by all.

use serde::Serialize;
use std::{
    hint::{black_box, spin_loop},
    time::{Duration, Instant},
};

/// Parts in which each figure is measured.
pub(crate) const TURNS: usize = 5;

/// How much is measured in one turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Samples that are enough.
    samples: usize,
    /// Time after which what there is must do.
    limit: Duration,
}

impl Effort {
    /// Enough in all turns for a p99.9 with twenty samples above it.
    pub(crate) const FULL: Self = Self {
        samples: 4_000,
        limit: Duration::from_millis(200),
    };
    /// A run of a few seconds, to see that it runs.
    pub(crate) const QUICK: Self = Self {
        samples: 200,
        limit: Duration::from_millis(10),
    };

    /// How long to look at something that comes by itself.
    pub(crate) fn watch(self) -> Duration {
        self.limit * 10
    }

    /// For rounds so long that fewer samples must do.
    pub(crate) fn fewer(self, divisor: usize) -> Self {
        Self {
            samples: (self.samples / divisor).max(10),
            ..self
        }
    }
}

/// Nanoseconds an operation.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    /// How many samples.
    pub(crate) samples: usize,
    /// Operations in a sample.
    pub(crate) batch: u32,
}

/// Where a round puts what it has timed.
#[derive(Debug)]
pub(crate) struct Samples {
    values: Vec<f64>,
    batch: u32,
    /// What the clock takes of each sample.
    clock: Duration,
}

impl Samples {
    /// Times `batch` operations together, with dropping what they return.
    pub(crate) fn time<T>(&mut self, mut operation: impl FnMut() -> T) {
        let started = Instant::now();
        for _ in 0..self.batch {
            let result = operation();
            // By reference, and results of the shorter operations as they come: to move a value that was just
            // written in parts costs more than those do.
            black_box(&result);
        }
        self.push(started.elapsed());
    }

    /// Notes how long one batch took by the clock.
    pub(crate) fn push(&mut self, took: Duration) {
        let took = took.saturating_sub(self.clock);
        self.values
            .push(took.as_secs_f64() * 1e9 / f64::from(self.batch));
    }

    /// Takes in what another turn found.
    pub(crate) fn merge(&mut self, other: Self) {
        self.values.extend(other.values);
    }

    pub(crate) fn quantiles(mut self) -> Quantiles {
        self.values.sort_by(f64::total_cmp);
        Quantiles {
            p50: self.at(500),
            p99: self.at(990),
            p999: self.at(999),
            samples: self.values.len(),
            batch: self.batch,
        }
    }

    /// The value that so many of a thousand do not exceed; the values are sorted.
    fn at(&self, per_mille: usize) -> f64 {
        let last = self.values.len().saturating_sub(1);
        let index = (self.values.len() * per_mille / 1000).min(last);
        self.values.get(index).copied().unwrap_or(f64::NAN)
    }
}

/// Runs rounds until there are enough samples or the time is up. The first twentieth is thrown away.
pub(crate) fn sample(effort: Effort, batch: u32, mut round: impl FnMut(&mut Samples)) -> Samples {
    let warm_up = Effort {
        samples: effort.samples / 20,
        limit: effort.limit / 20,
    };
    drop(rounds(warm_up, batch, &mut round));
    rounds(effort, batch, &mut round)
}

fn rounds(effort: Effort, batch: u32, round: &mut impl FnMut(&mut Samples)) -> Samples {
    let mut samples = Samples {
        values: Vec::with_capacity(effort.samples + 4096),
        batch,
        clock: clock(),
    };
    let started = Instant::now();
    while samples.values.len() < effort.samples && started.elapsed() < effort.limit {
        round(&mut samples);
    }
    samples
}

/// Keeps the calling thread busy for so long.
pub(crate) fn spin_for(time: Duration) {
    let started = Instant::now();
    while started.elapsed() < time {
        spin_loop();
    }
}

/// What timing adds to a sample, by the quickest of many that time nothing.
pub(crate) fn clock() -> Duration {
    let nothing = || Instant::now().elapsed();
    (0..1000).map(|_| nothing()).min().unwrap_or_default()
}

/// What the loop around operations adds to each.
pub(crate) fn repetition(effort: Effort) -> Quantiles {
    sample(effort, 1024, |samples| samples.time(|| ())).quantiles()
}
