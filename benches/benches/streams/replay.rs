//! A graph of a hundred kernels in four chains, run as one command.
//!
//! The baselines have no graphs: they hand a hundred tasks over each time, which is what a replay saves.

#![expect(
    unsafe_code,
    reason = "submission is unsafe: the kernels here take no buffers"
)]

use crate::{
    device::{Rig, must},
    measure::{Effort, Samples, sample},
    naive::{Lane, Measured, Runtime},
    session::Session,
};
use piton_driver::{
    Command, ExecutableGraph, GraphDescription, GraphNode, Grid, NodeWork, Queue, QueueOptions,
};
use std::{hint::black_box, panic::Location, sync::Arc, time::Instant};

const NODES: u32 = 100;
const CHAINS: u32 = 4;

pub(crate) fn measure(session: &mut Session) {
    let effort = session.effort.fewer(4);
    session.compare(
        "replay of 100 nodes, submitting",
        Some(300.0),
        |rig| replay(rig, effort).0,
        &Tasks(effort, Until::Submitted),
    );
    session.compare(
        "replay of 100 nodes, to the end",
        None,
        |rig| replay(rig, effort).1,
        &Tasks(effort, Until::Done),
    );
}

/// What submitting takes, and what all of it takes.
fn replay(rig: &Rig, effort: Effort) -> (Samples, Samples) {
    let (graph, queue) = (instantiate(rig), queue(rig));
    let run = || {
        // SAFETY: no kernel here has buffer arguments.
        must(unsafe { queue.submit(&Command::RunGraph { graph: &graph }, Location::caller()) })
    };
    let finish = || must(queue.wait(queue.submitted(), None));
    let submitting = sample(effort, 1, |samples| {
        samples.time(run);
        let _reached = finish();
    });
    let to_the_end = sample(effort, 1, |samples| {
        samples.time(|| {
            let _accepted = run();
            finish()
        });
    });
    (submitting, to_the_end)
}

fn queue(rig: &Rig) -> Arc<dyn Queue> {
    must(rig.device.queues().create(&QueueOptions::default()))
}

fn instantiate(rig: &Rig) -> Arc<dyn ExecutableGraph> {
    let node = |index: u32| GraphNode {
        work: NodeWork::Launch {
            kernel: Arc::clone(&rig.takes_16),
            grid: Grid::linear(1),
            arguments: Box::new([7; 16]),
            extents: Box::default(),
        },
        after: index.checked_sub(CHAINS).into_iter().collect(),
        origin: Location::caller(),
    };
    let description = GraphDescription {
        nodes: (0..NODES).map(node).collect(),
        kept: Vec::new(),
    };
    let graph = rig
        .device
        .graphs()
        .map(|graphs| must(graphs.instantiate(description)));
    must(graph.ok_or("the device has no graphs"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    Submitted,
    Done,
}

struct Tasks(Effort, Until);

impl Measured for Tasks {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let lane = runtime.lane();
        let submit = || {
            for _ in 0..NODES {
                let arguments = black_box([7_u8; 16]);
                lane.spawn(move || {
                    black_box(arguments);
                });
            }
        };
        Some(sample(self.0, 1, |samples| {
            let started = Instant::now();
            submit();
            if self.1 == Until::Submitted {
                samples.push(started.elapsed());
                lane.synchronize();
            } else {
                lane.synchronize();
                samples.push(started.elapsed());
            }
        }))
    }
}
