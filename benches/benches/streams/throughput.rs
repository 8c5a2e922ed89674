//! Empty tasks, as many as go: submission, execution and completion together.

use crate::{
    device::{Rig, launch, must},
    measure::{Effort, Quantiles, sample},
    naive::{Event, Lane, Measured, Runtime},
    session::Session,
};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// Tasks in a sample.
const TASKS: u32 = 4096;
/// Tasks a lane gets before the next one's turn.
const BURST: usize = 16;

pub(crate) fn measure(session: &mut Session) {
    let effort = session.effort.fewer(10);
    for (name, lanes, target) in [
        ("empty task, one stream", 1, 100.0),
        ("empty task, 64 streams", 64, 200.0),
    ] {
        let measured = |rig: &Rig| tasks(rig, effort, lanes);
        session.compare(name, Some(target), measured, &Tasks(effort, lanes));
    }
}

fn tasks(rig: &Rig, effort: Effort, lanes: usize) -> Quantiles {
    let streams: Vec<_> = (0..lanes).map(|_| rig.stream()).collect();
    sample(effort, TASKS, |samples| {
        let started = std::time::Instant::now();
        for turn in 0..TASKS as usize / BURST {
            for _ in 0..BURST {
                launch(&streams[turn % lanes], &rig.empty, &[]);
            }
        }
        for stream in &streams {
            must(stream.synchronize());
        }
        samples.push(started.elapsed());
    })
}

struct Tasks(Effort, usize);

impl Measured for Tasks {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Quantiles> {
        let lanes: Vec<_> = (0..self.1).map(|_| runtime.lane()).collect();
        Some(sample(self.0, TASKS, |samples| {
            let left = Arc::new(AtomicU32::new(TASKS));
            let last = Arc::new(Event::default());
            let started = std::time::Instant::now();
            for turn in 0..TASKS as usize / BURST {
                for _ in 0..BURST {
                    let (left, last) = (Arc::clone(&left), Arc::clone(&last));
                    lanes[turn % lanes.len()].spawn(move || {
                        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                            last.set();
                        }
                    });
                }
            }
            last.wait();
            samples.push(started.elapsed());
        }))
    }
}
