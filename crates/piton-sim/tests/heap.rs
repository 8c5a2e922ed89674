//! What takes nothing from the heap, counted on all threads of the process until it has ended.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "submission is unsafe")]

mod support;

use piton_driver::{Command, FillPattern, GraphDescription, GraphNode, NodeWork, WaitOutcome};
use piton_sim::SimConfig;
use std::panic::Location;
use support::{accepted, config, machine, queue};

/// Nodes that each come after the one before, and a body that is run once behind them.
fn nodes(at: piton_driver::DevicePtr) -> Vec<GraphNode> {
    let node = |work, after: &[u32]| GraphNode {
        work,
        after: after.to_vec(),
        origin: Location::caller(),
    };
    let fill = |word| NodeWork::Fill {
        dst: at,
        pattern: FillPattern::Word(word),
        bytes: 64,
    };
    let mut nodes = vec![node(fill(0), &[]), node(fill(1), &[])];
    nodes.extend((1..20).map(|n| node(fill(1), &[n])));
    let body = vec![node(fill(2), &[]), node(fill(3), &[0])];
    let condition = NodeWork::If {
        condition: at,
        body,
    };
    nodes.push(node(condition, &[20]));
    nodes
}

#[test]
fn a_replay_of_a_graph_that_has_run_allocates_nothing() {
    let (_driver, device) = machine(SimConfig {
        workers: Some(1),
        ..config(1)
    });
    let queue = queue(&device);
    let at = device.memory().allocate(1024).unwrap();
    let description = GraphDescription {
        nodes: nodes(at),
        kept: Vec::new(),
    };
    let graph = device.graphs().unwrap().instantiate(description).unwrap();
    let replay = || {
        let command = Command::RunGraph { graph: &graph };
        // SAFETY: the memory is held until the wait below has ended.
        let last = accepted(unsafe { queue.submit(&command, Location::caller()) });
        assert_eq!(queue.wait(last, None), Ok(WaitOutcome::Reached));
    };
    // The first makes the room that is used again, on each side.
    (0..10).for_each(|_| replay());
    let asked_in_a_round = || {
        let before = piton_heap::by_all_threads();
        (0..100).for_each(|_| replay());
        piton_heap::by_all_threads() - before
    };
    // Every thread of the process is counted, the test runner's too, which may ask for something of its own meanwhile,
    // once. Replays that allocated would do so in each round.
    let rounds: Vec<u64> = (0..10).map(|_| asked_in_a_round()).collect();
    assert!(rounds.contains(&0), "{rounds:?}");
}
