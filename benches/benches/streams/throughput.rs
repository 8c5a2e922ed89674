//! Empty tasks, as many as go: submission, execution and completion together.

use crate::{
    device::{Rig, launch, must},
    measure::{Effort, Samples, sample},
    naive::{Event, Lane, Measured, Runtime},
    session::Session,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
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

fn tasks(rig: &Rig, effort: Effort, lanes: usize) -> Samples {
    let streams: Vec<_> = (0..lanes).map(|_| rig.deep_stream()).collect();
    sample(effort, TASKS, |samples| {
        let started = Instant::now();
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

/// What every task holds: how many are left, and who waits for the last.
#[derive(Debug)]
struct Left {
    tasks: AtomicU32,
    last: Event,
}

impl Measured for Tasks {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let lanes: Vec<_> = (0..self.1).map(|_| runtime.lane()).collect();
        Some(sample(self.0, TASKS, |samples| {
            let left = Arc::new(Left {
                tasks: AtomicU32::new(TASKS),
                last: Event::default(),
            });
            let started = Instant::now();
            for turn in 0..TASKS as usize / BURST {
                for _ in 0..BURST {
                    let left = Arc::clone(&left);
                    lanes[turn % lanes.len()].spawn(move || {
                        if left.tasks.fetch_sub(1, Ordering::AcqRel) == 1 {
                            left.last.set();
                        }
                    });
                }
            }
            left.last.wait();
            samples.push(started.elapsed());
        }))
    }
}
