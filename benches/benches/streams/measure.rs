//! Samples and their quantiles.
//!
//! One sample is the mean time of a batch of operations timed together: reading the clock costs about as much as the
//! shorter operations, so those are timed by the batch and the table says how many there are in one. Their p99 is then
//! that of batch means: a single slow operation shows by a batch's share of it.

use serde::Serialize;
use std::{
    hint::{black_box, spin_loop},
    time::{Duration, Instant},
};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Samples that are enough.
    samples: usize,
    /// Time after which what there is must do, for each figure.
    limit: Duration,
}

impl Effort {
    /// Enough for a p99.9 with ten samples above it.
    pub(crate) const FULL: Self = Self {
        samples: 20_000,
        limit: Duration::from_millis(800),
    };
    /// A run of a few seconds, to see that it runs.
    pub(crate) const QUICK: Self = Self {
        samples: 1_000,
        limit: Duration::from_millis(40),
    };

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
}

impl Samples {
    /// Times `batch` operations together, with dropping what they return.
    pub(crate) fn time<T>(&mut self, mut operation: impl FnMut() -> T) {
        let started = Instant::now();
        for _ in 0..self.batch {
            black_box(operation());
        }
        self.push(started.elapsed());
    }

    /// Notes how long one batch took.
    pub(crate) fn push(&mut self, took: Duration) {
        self.values
            .push(took.as_secs_f64() * 1e9 / f64::from(self.batch));
    }

    fn quantiles(mut self) -> Quantiles {
        self.values.sort_by(f64::total_cmp);
        let at = |per_mille: usize| {
            let index = self.values.len() * per_mille / 1000;
            let last = self.values.len().saturating_sub(1);
            self.values
                .get(index.min(last))
                .copied()
                .unwrap_or(f64::NAN)
        };
        Quantiles {
            p50: at(500),
            p99: at(990),
            p999: at(999),
            samples: self.values.len(),
            batch: self.batch,
        }
    }
}

/// Runs rounds until there are enough samples or the time is up. The first twentieth is thrown away.
pub(crate) fn sample(effort: Effort, batch: u32, mut round: impl FnMut(&mut Samples)) -> Quantiles {
    let warm_up = Effort {
        samples: effort.samples / 20,
        limit: effort.limit / 20,
    };
    drop(rounds(warm_up, batch, &mut round));
    rounds(effort, batch, &mut round).quantiles()
}

fn rounds(effort: Effort, batch: u32, round: &mut impl FnMut(&mut Samples)) -> Samples {
    let mut samples = Samples {
        values: Vec::with_capacity(effort.samples + 4096),
        batch,
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

/// What timing adds to a sample: the clock read twice.
pub(crate) fn clock(effort: Effort) -> Quantiles {
    sample(effort, 1, |samples| samples.time(|| ()))
}
