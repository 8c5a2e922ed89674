//! Graphs on the simulated device: what is its own, beside the contract's suite.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton_driver::{
    Command, Device, DevicePtr, ErrorKind, ExecutableGraph, FillPattern, GraphDescription,
    GraphNode, Grid, Kernel, NodeWork, Operation, Position, Queue, WaitOutcome,
};
use piton_sim::{FaultPlan, ScheduleOrder, SimConfig, Trigger};
use std::{
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use support::{Pinned, accepted, config, fill, free, kernel, machine, queue, read};

#[track_caller]
fn node(work: NodeWork, after: &[u32]) -> GraphNode {
    GraphNode {
        work,
        after: after.to_vec(),
        origin: Location::caller(),
    }
}

fn add(kernel: &Arc<dyn Kernel>, blocks: u32, at: DevicePtr, value: u32) -> NodeWork {
    let mut arguments = at.address().to_ne_bytes().to_vec();
    arguments.extend(value.to_ne_bytes());
    NodeWork::Launch {
        kernel: Arc::clone(kernel),
        grid: Grid::linear(blocks),
        arguments: arguments.into(),
        extents: Box::default(),
    }
}

fn word(dst: DevicePtr, word: u32, bytes: u64) -> NodeWork {
    NodeWork::Fill {
        dst,
        pattern: FillPattern::Word(word),
        bytes,
    }
}

fn instantiate(device: &Arc<dyn Device>, nodes: Vec<GraphNode>) -> Arc<dyn ExecutableGraph> {
    let kept = Vec::new();
    let graphs = device.graphs().unwrap();
    graphs
        .instantiate(GraphDescription { nodes, kept })
        .unwrap()
}

#[expect(unsafe_code, reason = "submission is unsafe")]
fn run(queue: &Arc<dyn Queue>, graph: &Arc<dyn ExecutableGraph>) -> Position {
    // SAFETY: tests keep what nodes name until they have waited.
    accepted(unsafe { queue.submit(&Command::RunGraph { graph }, Location::caller()) })
}

fn finish(queue: &Arc<dyn Queue>) {
    let reached = queue.wait(queue.submitted(), None);
    assert_eq!(reached, Ok(WaitOutcome::Reached));
}

#[test]
fn in_virtual_time_branches_overlap_and_the_trace_shows_each_node() {
    let (_driver, device) = machine(config(1).in_virtual_time(1, ScheduleOrder::ByTime));
    let (queue, kernel) = (queue(&device), kernel(&device, "add"));
    let [a, b] = [(); 2].map(|()| device.memory().allocate(16 << 20).unwrap());
    let nodes = vec![
        node(word(a, 1, 16 << 20), &[]),
        node(word(b, 2, 16 << 20), &[]),
        node(add(&kernel, 1, a, 1), &[0, 1]),
    ];
    let origins: Vec<_> = nodes.iter().map(|node| Some(node.origin)).collect();
    let graph = instantiate(&device, nodes);
    let trace = device.execution_trace().unwrap();
    trace.start(10);
    let position = run(&queue, &graph);
    finish(&queue);
    let (records, _) = trace.finish();
    assert_eq!(records.len(), 4, "one a node and one for all: {records:?}");
    assert!(records.iter().all(|record| record.position == position));
    let of = |origin| {
        let mut found = records.iter().filter(move |record| record.origin == origin);
        found.next().unwrap()
    };
    let [first, second, third] = [of(origins[0]), of(origins[1]), of(origins[2])];
    let whole = &records[3];
    assert_eq!(third.kernel.as_deref(), Some("add"));
    assert!(first.start_ns < second.end_ns && second.start_ns < first.end_ns);
    assert!(third.start_ns >= first.end_ns.max(second.end_ns));
    assert_eq!(whole.operation, Operation::RunGraph);
    assert!(whole.start_ns <= first.start_ns.min(second.start_ns));
    assert_eq!(whole.end_ns, third.end_ns);
    for memory in [a, b] {
        free(&device, memory).unwrap();
    }
}

#[test]
fn in_real_time_records_are_in_order_too() {
    let (_driver, device) = machine(config(1));
    let (queue, kernel) = (queue(&device), kernel(&device, "add"));
    let a = device.memory().allocate(1024).unwrap();
    let calls = NodeWork::CallHost(Arc::new(|| {}));
    let nodes = vec![
        node(add(&kernel, 1, a, 1), &[]),
        node(calls, &[0]),
        node(add(&kernel, 1, a, 1), &[1]),
    ];
    let graph = instantiate(&device, nodes);
    let trace = device.execution_trace().unwrap();
    trace.start(10);
    run(&queue, &graph);
    finish(&queue);
    let (records, _) = trace.finish();
    let seen: Vec<_> = records.iter().map(|record| record.operation).collect();
    let expected = [
        Operation::Launch,
        Operation::CallHost,
        Operation::Launch,
        Operation::RunGraph,
    ];
    assert_eq!(seen, expected);
    assert!(
        records
            .windows(2)
            .all(|pair| pair[0].end_ns <= pair[1].end_ns)
    );
    free(&device, a).unwrap();
}

#[test]
fn the_seed_chooses_among_unordered_nodes_and_decides_all() {
    let order_of = |seed| {
        let (_driver, device) = machine(config(1).in_virtual_time(seed, ScheduleOrder::Seeded));
        let queue = queue(&device);
        let a = device.memory().allocate(1024).unwrap();
        let order = Arc::new(piton_sync::Mutex::new(Vec::new()));
        let nodes = (0..8)
            .map(|number| {
                let order = Arc::clone(&order);
                node(
                    NodeWork::CallHost(Arc::new(move || order.lock().push(number))),
                    &[],
                )
            })
            .collect();
        let graph = instantiate(&device, nodes);
        run(&queue, &graph);
        finish(&queue);
        free(&device, a).unwrap();
        let seen: Vec<u32> = order.lock().clone();
        seen
    };
    assert_eq!(order_of(3), order_of(3));
    let orders: std::collections::BTreeSet<_> = (0..20).map(order_of).collect();
    assert!(
        orders.len() > 10,
        "twenty seeds give {} orders",
        orders.len()
    );
}

/// A loop whose condition stays: it ends with its device.
fn endless(device: &Arc<dyn Device>, flag: DevicePtr) -> Arc<dyn ExecutableGraph> {
    let body = vec![node(word(flag, 7, 1024), &[])];
    let condition = flag;
    instantiate(
        device,
        vec![
            node(word(flag, 1, 1024), &[]),
            node(NodeWork::While { condition, body }, &[0]),
        ],
    )
}

#[test]
fn a_loop_without_end_lets_others_run_and_ends_with_its_device() {
    for config in [
        config(1),
        SimConfig {
            workers: Some(1),
            ..config(1)
        },
        config(1).in_virtual_time(5, ScheduleOrder::Seeded),
    ] {
        let (driver, device) = machine(config);
        let (looping, other) = (queue(&device), queue(&device));
        let flag = device.memory().allocate(1024).unwrap();
        let graph = endless(&device, flag);
        let position = run(&looping, &graph);
        let after = run(&looping, &graph);
        accepted(other.wait_for(&*looping, Position::START));
        for _ in 0..100 {
            let mut nothing: Option<piton_driver::HostFunction> = Some(Box::new(|| {}));
            let host = device.host_functions().unwrap();
            accepted(host.call(&*other, &mut nothing, Location::caller()));
        }
        finish(&other);
        assert_eq!(other.failure(), None);
        assert!(looping.completed() < position);
        driver.lose(piton_driver::DeviceId(0));
        assert_eq!(looping.wait(after, None), Ok(WaitOutcome::Reached));
        let failure = looping.failure().unwrap();
        assert_eq!(failure.position, position);
        assert_eq!(failure.error.kind, ErrorKind::DeviceLost);
    }
}

#[test]
fn an_abort_ends_a_loop_between_two_nodes_and_what_is_queued_behind_it() {
    for config in [
        config(1),
        config(1).in_virtual_time(5, ScheduleOrder::Seeded),
    ] {
        let (_driver, device) = machine(config);
        let (queue, flag) = (queue(&device), device.memory().allocate(1024).unwrap());
        let runs = Arc::new(AtomicU32::new(0));
        let (aborted, counted) = (Arc::clone(&queue), Arc::clone(&runs));
        let aborts = NodeWork::CallHost(Arc::new(move || {
            if counted.fetch_add(1, Ordering::AcqRel) == 2 {
                aborted.abort().unwrap();
            }
        }));
        let after = node(word(flag, 9, 1024), &[0]);
        let body = vec![node(aborts, &[]), after];
        let condition = flag;
        let graph = instantiate(
            &device,
            vec![
                node(word(flag, 1, 1024), &[]),
                node(NodeWork::While { condition, body }, &[0]),
                node(word(flag, 3, 1024), &[1]),
            ],
        );
        let first = accepted(fill(&queue, flag, 0, 1024));
        let position = run(&queue, &graph);
        let last = accepted(fill(&queue, flag, 4, 1024));
        assert_eq!(queue.wait(last, None), Ok(WaitOutcome::Reached));
        let failure = queue.failure().unwrap();
        assert!(first < failure.position);
        assert_eq!(failure.position, position);
        assert_eq!(failure.error.kind, ErrorKind::Aborted);
        assert_eq!(runs.load(Ordering::Acquire), 3);
        assert_eq!(read(&device, flag, 1), [9], "nothing ran after the abort");
        queue.clear_failure().unwrap();
        drop(graph);
        accepted(fill(&queue, flag, 5, 1024));
        finish(&queue);
        assert_eq!(read(&device, flag, 1), [5]);
    }
}

#[test]
fn a_kernel_that_hangs_in_a_graph_holds_its_queue_until_the_device_is_lost() {
    let (driver, device) = machine(config(1));
    let (held, other, kernel) = (queue(&device), queue(&device), kernel(&device, "add"));
    let a = device.memory().allocate(2048).unwrap();
    let kept = Arc::new(());
    let graphs = device.graphs().unwrap();
    let graph = graphs
        .instantiate(GraphDescription {
            nodes: vec![node(add(&kernel, 1, a, 1), &[])],
            kept: vec![kept.clone()],
        })
        .unwrap();
    driver.set_faults(FaultPlan::new().with(Trigger::HangKernel(1)));
    let position = run(&held, &graph);
    drop(graph);
    accepted(fill(&other, a, 1, 1024));
    finish(&other);
    assert!(held.completed() < position);
    assert_eq!(Arc::strong_count(&kept), 2, "its memory is still in use");
    driver.lose(piton_driver::DeviceId(0));
    assert_eq!(held.wait(position, None), Ok(WaitOutcome::Reached));
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn a_graph_spreads_the_blocks_of_its_kernels() {
    let (_driver, device) = machine(SimConfig {
        workers: Some(2),
        ..config(1)
    });
    let (queue, kernel) = (queue(&device), kernel(&device, "add"));
    let a = device.memory().allocate(64 * 1024).unwrap();
    let mut nodes = vec![node(word(a, 0, 64 * 1024), &[])];
    for before in 0..20 {
        nodes.push(node(add(&kernel, 64, a, before), &[before]));
    }
    let graph = instantiate(&device, nodes);
    run(&queue, &graph);
    finish(&queue);
    assert_eq!(read(&device, a, 64 * 256), [190; 64 * 256]);
    free(&device, a).unwrap();
}

/// A graph that copies `pinned` to the device, several times at once as far as its edges go.
fn copies(
    device: &Arc<dyn Device>,
    pinned: &Pinned,
    dst: DevicePtr,
    bytes: u64,
) -> Arc<dyn ExecutableGraph> {
    let copy = |_| {
        let work = NodeWork::CopyToDevice {
            dst,
            src: pinned.start(),
            bytes,
        };
        node(work, &[])
    };
    instantiate(device, (0..8).map(copy).collect())
}

#[test]
fn copies_of_graphs_take_their_turn_at_the_engine() {
    const WORDS: usize = 1 << 20;
    let (_driver, device) = machine(SimConfig {
        workers: Some(2),
        ..config(1)
    });
    let queues: Vec<_> = (0..3).map(|_| queue(&device)).collect();
    let bytes = WORDS as u64 * 4;
    let places: Vec<_> = (1..4_u32)
        .map(|n| {
            let pinned = Pinned::new(&device, &vec![n; WORDS]);
            (pinned, device.memory().allocate(bytes).unwrap())
        })
        .collect();
    let graphs: Vec<_> = places
        .iter()
        .map(|(pinned, dst)| copies(&device, pinned, *dst, bytes))
        .collect();
    let trace = device.execution_trace().unwrap();
    trace.start(10_000);
    for _ in 0..10 {
        for (queue, graph) in queues.iter().zip(&graphs) {
            run(queue, graph);
            queue.flush().unwrap();
        }
    }
    queues.iter().for_each(finish);
    let (records, lost) = trace.finish();
    assert_eq!(lost, 0);
    let mut turns: Vec<_> = records
        .iter()
        .filter(|record| record.operation == Operation::CopyToDevice)
        .map(|record| (record.start_ns, record.end_ns))
        .collect();
    turns.sort_unstable();
    assert_eq!(turns.len(), 3 * 8 * 10);
    let is_apart = |pair: &[(u64, u64)]| pair[0].1 <= pair[1].0;
    assert!(turns.windows(2).all(is_apart), "two copies at once");
    for (n, (_, dst)) in (1..4_u32).zip(&places) {
        assert_eq!(read(&device, *dst, WORDS), vec![n; WORDS]);
    }
}

#[test]
fn a_graph_aborted_while_its_copies_wait_for_a_turn_ends() {
    const WORDS: usize = 1 << 16;
    let (_driver, device) = machine(SimConfig {
        workers: Some(2),
        ..config(1)
    });
    let bytes = WORDS as u64 * 4;
    let dst = device.memory().allocate(bytes).unwrap();
    let pinned = Pinned::new(&device, &vec![1; WORDS]);
    let graph = copies(&device, &pinned, dst, bytes);
    for _ in 0..20 {
        let queues: Vec<_> = (0..3).map(|_| queue(&device)).collect();
        for queue in &queues {
            run(queue, &graph);
            queue.flush().unwrap();
        }
        queues[0].abort().unwrap();
        queues[1].abort().unwrap();
        queues.iter().for_each(finish);
        assert_eq!(queues[2].failure(), None);
    }
    assert_eq!(read(&device, dst, WORDS), vec![1; WORDS]);
}
