//! A graph of a hundred kernels in four chains, run as one command.
//!
//! The baselines have no graphs: they hand a hundred tasks over each time, which is what a replay saves.

#![expect(
    unsafe_code,
    reason = "launching is unsafe: the kernels here take no buffers"
)]

use crate::{
    device::{Rig, must},
    measure::{Effort, Samples, sample},
    naive::{Lane, Measured, Runtime},
    session::Session,
};
use piton_driver::Grid;
use piton_graph::{Executable, GraphBuilder, NodeId, NodeWork, PrivateMemory};
use std::{hint::black_box, sync::Arc, time::Instant};

const NODES: usize = 100;
const CHAINS: usize = 4;

pub(crate) fn measure(session: &mut Session) {
    let effort = session.effort.fewer(4);
    session.compare(
        "replay of 100 nodes, submitting",
        Some(300.0),
        |rig| submit(rig, effort),
        &Tasks(effort, Until::Submitted),
    );
    session.compare(
        "replay of 100 nodes, to the end",
        None,
        |rig| to_the_end(rig, effort),
        &Tasks(effort, Until::Done),
    );
}

fn submit(rig: &Rig, effort: Effort) -> Samples {
    let (mut graph, stream) = (instantiate(rig), rig.stream());
    sample(effort, 1, |samples| {
        // SAFETY: no kernel here has buffer arguments.
        samples.time(|| unsafe { graph.launch(&stream) });
        must(stream.synchronize());
    })
}

fn to_the_end(rig: &Rig, effort: Effort) -> Samples {
    let (mut graph, stream) = (instantiate(rig), rig.stream());
    sample(effort, 1, |samples| {
        samples.time(|| {
            // SAFETY: no kernel here has buffer arguments.
            must(unsafe { graph.launch(&stream) });
            must(stream.synchronize());
        });
    })
}

pub(crate) fn instantiate(rig: &Rig) -> Executable {
    let mut graph = GraphBuilder::new();
    let mut nodes: Vec<NodeId> = Vec::new();
    for index in 0..NODES {
        let work = NodeWork::Launch {
            kernel: Arc::clone(&rig.takes_16),
            grid: Grid::linear(1),
            arguments: Box::new([7; 16]),
            extents: Box::default(),
        };
        let before = index.checked_sub(CHAINS).map(|before| nodes[before]);
        nodes.push(must(graph.add(work, before.as_slice())));
    }
    must(graph.finish(PrivateMemory::new()).instantiate(&rig.device))
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
