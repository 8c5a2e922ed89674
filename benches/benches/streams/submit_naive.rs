//! Handing a task over to the baselines; `submit` says what the cases mean.

use crate::{
    measure::{Effort, Samples, sample},
    naive::{Lane, Measured, Runtime},
    submit::{AHEAD, BATCH, BATCHES, beside_another},
};
use std::{
    hint::{black_box, spin_loop},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// A task with so many bytes of arguments, not taken meanwhile.
pub(crate) struct Behind<const BYTES: usize>(pub(crate) Effort);

impl<const BYTES: usize> Measured for Behind<BYTES> {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let lane = runtime.lane();
        let arguments = [7_u8; BYTES];
        Some(sample(self.0, BATCH, |samples| {
            let gate = runtime.hold(&lane);
            for _ in 0..BATCHES {
                samples.time(|| spawn_with(&lane, black_box(arguments)));
            }
            gate.set();
            lane.synchronize();
        }))
    }
}

/// The same, taken as it comes.
pub(crate) struct Racing<const BYTES: usize>(pub(crate) Effort);

impl<const BYTES: usize> Measured for Racing<BYTES> {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let lane = runtime.lane();
        let arguments = [7_u8; BYTES];
        let taken = Arc::new(AtomicU64::new(0));
        Some(sample(self.0, BATCH, |samples| {
            taken.store(0, Ordering::Relaxed);
            for _ in 0..AHEAD {
                let taken = Arc::clone(&taken);
                lane.spawn(move || {
                    taken.fetch_add(1, Ordering::Relaxed);
                });
            }
            while taken.load(Ordering::Relaxed) == 0 {
                spin_loop();
            }
            for _ in 0..BATCHES {
                samples.time(|| spawn_with(&lane, black_box(arguments)));
            }
            lane.synchronize();
        }))
    }
}

/// The same from two threads.
pub(crate) struct ByTwo<const BYTES: usize>(pub(crate) Effort);

impl<const BYTES: usize> Measured for ByTwo<BYTES> {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let lane = runtime.lane();
        let arguments = [7_u8; BYTES];
        Some(sample(self.0, BATCH, |samples| {
            let gate = runtime.hold(&lane);
            beside_another(samples, || spawn_with(&lane, black_box(arguments)));
            gate.set();
            lane.synchronize();
        }))
    }
}

fn spawn_with<const BYTES: usize>(lane: &impl Lane, arguments: [u8; BYTES]) {
    lane.spawn(move || {
        black_box(arguments);
    });
}
