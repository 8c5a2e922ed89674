//! Graphs: many commands that run as one.

use crate::{
    drive::{DeviceBuffer, pack, run_graph},
    outcome::{Checked, Failure, accepted, ensure, ensure_eq, refused},
    stage::{Stage, end, finish},
    subject::{Subject, TestKernels},
};
use piton_driver::{
    DevicePtr, DriverError, ErrorKind, ExecutableGraph, FillPattern, GraphDescription, GraphNode,
    Graphs, Grid, Kernel, NodeWork, Operation, Position, SignalledBy,
};
use piton_sync::atomic::{AtomicU64, Ordering};
use std::{panic::Location, sync::Arc};

cases! { "graphs":
    a_graph_is_one_command_however_many_nodes_it_has [Graphs HostMemory],
    nodes_run_in_the_order_of_their_edges [Graphs HostMemory],
    nodes_that_nothing_orders_all_run [Graphs HostMemory],
    an_empty_graph_ends [Graphs],
    a_body_runs_if_the_value_is_not_zero [Graphs HostMemory],
    a_loop_runs_until_the_value_is_zero [Graphs HostMemory],
    loops_nest [Graphs HostMemory],
    dependents_of_a_failed_node_do_not_run [Graphs HostMemory TrapKernel],
    a_failure_names_the_node_that_failed [Graphs TrapKernel],
    an_update_is_for_later_replays [Graphs Semaphores HostMemory],
    an_update_keeps_kind_and_signature [Graphs HostMemory],
    what_is_wrong_with_a_node_is_refused [Graphs],
    an_executable_of_another_driver_is_foreign [Graphs],
    a_host_function_runs_at_every_replay [Graphs HostFunctions],
    a_panic_in_a_node_fails_the_replay [Graphs HostFunctions],
    what_a_graph_keeps_lives_as_long_as_its_replays [Graphs Semaphores],
}

#[track_caller]
fn graphs(stage: &Stage) -> Result<&dyn Graphs, Failure> {
    let missing = || Failure::new("the case says it needs graphs", "it does not");
    stage.device.graphs().ok_or_else(missing)
}

#[track_caller]
fn node(work: NodeWork, after: &[u32]) -> GraphNode {
    GraphNode {
        work,
        after: after.to_vec(),
        origin: Location::caller(),
    }
}

/// Fills a whole buffer with a word.
fn fill(buffer: &DeviceBuffer, word: u32) -> NodeWork {
    NodeWork::Fill {
        dst: buffer.start(),
        pattern: FillPattern::Word(word),
        bytes: buffer.bytes(),
    }
}

fn copy(dst: &DeviceBuffer, src: &DeviceBuffer) -> NodeWork {
    NodeWork::CopyOnDevice {
        dst: dst.start(),
        src: src.start(),
        bytes: src.bytes(),
    }
}

/// One block of a kernel that takes one buffer and a value.
fn launch(kernel: &Arc<dyn Kernel>, buffer: &DeviceBuffer, value: u32) -> NodeWork {
    NodeWork::Launch {
        kernel: Arc::clone(kernel),
        grid: Grid::linear(1),
        arguments: pack(&**kernel, &[buffer], value).into(),
        extents: [buffer.bytes()].into(),
    }
}

fn instantiate(stage: &Stage, nodes: Vec<GraphNode>) -> Result<Arc<dyn ExecutableGraph>, Failure> {
    let graph = GraphDescription {
        nodes,
        kept: Vec::new(),
    };
    let made = graphs(stage)?.instantiate(graph);
    made.map_err(|refusal| Failure::new("the graph is instantiated", refusal.to_string()))
}

fn a_graph_is_one_command_however_many_nodes_it_has(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let buffer = stage.buffer(1024)?;
    let mut nodes = vec![node(fill(&buffer, 0), &[])];
    for before in 0..100 {
        nodes.push(node(launch(&add, &buffer, 1), &[before]));
    }
    let graph = instantiate(&stage, nodes)?;
    ensure_eq(graph.node_count(), 101, "nodes are counted")?;
    for replay in 1..=3 {
        let position = accepted(run_graph(&queue, &graph, &[&buffer]))?;
        ensure_eq(position, Position::new(replay), "a replay is one position")?;
    }
    finish(&queue)?;
    ensure_eq(stage.words(&buffer, 256)?, vec![100; 256], "it ran anew")
}

fn nodes_run_in_the_order_of_their_edges(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let [a, b, c] = [
        stage.buffer(1024)?,
        stage.buffer(1024)?,
        stage.buffer(1024)?,
    ];
    let nodes = vec![
        node(fill(&a, 1), &[]),
        node(fill(&b, 10), &[]),
        node(launch(&add, &a, 2), &[0]),
        node(launch(&add, &b, 20), &[1]),
        node(copy(&c, &a), &[2]),
        node(copy(&a, &b), &[3, 4]),
        node(launch(&add, &c, 100), &[4]),
        node(copy(&b, &c), &[5, 6]),
    ];
    let graph = instantiate(&stage, nodes)?;
    for _ in 0..5 {
        accepted(run_graph(&queue, &graph, &[&a, &b, &c]))?;
    }
    finish(&queue)?;
    let seen = [
        stage.words(&a, 1)?,
        stage.words(&b, 1)?,
        stage.words(&c, 1)?,
    ];
    ensure_eq(seen.concat(), vec![30, 103, 103], "every edge held")
}

fn nodes_that_nothing_orders_all_run(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let mut parts = Vec::new();
    for _ in 0..8 {
        parts.push(stage.buffer(1024)?);
    }
    let mut nodes = vec![node(NodeWork::Empty, &[])];
    for (word, part) in (1..).zip(&parts) {
        let filled = u32::try_from(nodes.len()).unwrap_or(0);
        nodes.push(node(fill(part, word), &[0]));
        nodes.push(node(launch(&add, part, 1), &[filled]));
    }
    let graph = instantiate(&stage, nodes)?;
    accepted(run_graph(&queue, &graph, &parts.iter().collect::<Vec<_>>()))?;
    finish(&queue)?;
    for (word, part) in (1..).zip(&parts) {
        ensure_eq(
            stage.words(part, 256)?,
            vec![word + 1; 256],
            "each did its own",
        )?;
    }
    Ok(())
}

fn an_empty_graph_ends(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let graph = instantiate(&stage, Vec::new())?;
    accepted(run_graph(&queue, &graph, &[]))?;
    finish(&queue)
}

fn a_body_runs_if_the_value_is_not_zero(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let (flag, data) = (stage.buffer(1024)?, stage.buffer(1024)?);
    let body = vec![
        node(launch(&add, &data, 5), &[]),
        node(launch(&add, &data, 6), &[0]),
    ];
    let choice = |condition| NodeWork::If {
        condition,
        body: body.clone(),
    };
    for (value, expected) in [(0, 101), (1, 112), (0x8000_0000, 112)] {
        let nodes = vec![
            node(fill(&flag, value), &[]),
            node(fill(&data, 1), &[]),
            node(choice(flag.start()), &[0, 1]),
            node(launch(&add, &data, 100), &[2]),
        ];
        let graph = instantiate(&stage, nodes)?;
        ensure_eq(graph.node_count(), 6, "nodes of bodies count")?;
        accepted(run_graph(&queue, &graph, &[&flag, &data]))?;
        finish(&queue)?;
        ensure_eq(stage.words(&data, 1)?, vec![expected], "as the value says")?;
    }
    Ok(())
}

fn a_loop_runs_until_the_value_is_zero(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let (counter, data) = (stage.buffer(1024)?, stage.buffer(1024)?);
    for rounds in [0, 1, 40] {
        let body = vec![
            node(launch(&add, &data, 3), &[]),
            node(launch(&add, &counter, u32::MAX), &[]),
        ];
        let condition = counter.start();
        let nodes = vec![
            node(fill(&counter, rounds), &[]),
            node(fill(&data, 0), &[]),
            node(NodeWork::While { condition, body }, &[0, 1]),
            node(launch(&add, &data, 1000), &[2]),
        ];
        let graph = instantiate(&stage, nodes)?;
        for _ in 0..2 {
            accepted(run_graph(&queue, &graph, &[&counter, &data]))?;
            finish(&queue)?;
            let expected = vec![3 * rounds + 1000];
            ensure_eq(stage.words(&data, 1)?, expected, "once a round")?;
        }
    }
    Ok(())
}

fn loops_nest(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let [outer, inner, data] = [
        stage.buffer(1024)?,
        stage.buffer(1024)?,
        stage.buffer(1024)?,
    ];
    let count = |buffer: &DeviceBuffer| launch(&add, buffer, u32::MAX);
    let round = NodeWork::While {
        condition: inner.start(),
        body: vec![node(launch(&add, &data, 1), &[]), node(count(&inner), &[0])],
    };
    let rounds = NodeWork::While {
        condition: outer.start(),
        body: vec![
            node(fill(&inner, 4), &[]),
            node(round, &[0]),
            node(count(&outer), &[1]),
        ],
    };
    let nodes = vec![
        node(fill(&outer, 3), &[]),
        node(fill(&data, 0), &[]),
        node(rounds, &[0, 1]),
    ];
    let graph = instantiate(&stage, nodes)?;
    accepted(run_graph(&queue, &graph, &[&outer, &inner, &data]))?;
    finish(&queue)?;
    ensure_eq(stage.words(&data, 1)?, vec![12], "three times four")
}

fn dependents_of_a_failed_node_do_not_run(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, trap) = (stage.queue()?, stage.kernel(TestKernels::TRAP)?);
    let (a, b) = (stage.buffer(1024)?, stage.buffer(1024)?);
    let flag = stage.buffer(1024)?;
    let body = vec![node(launch(&trap, &a, 0), &[]), node(fill(&b, 2), &[0])];
    let condition = flag.start();
    let nodes = vec![
        node(fill(&b, 1), &[]),
        node(fill(&flag, 1), &[]),
        node(NodeWork::If { condition, body }, &[0, 1]),
        node(fill(&b, 3), &[2]),
    ];
    let graph = instantiate(&stage, nodes)?;
    let failed = accepted(run_graph(&queue, &graph, &[&a, &b, &flag]))?;
    let after = accepted(run_graph(&queue, &graph, &[&a, &b, &flag]))?;
    end(&queue, after)?;
    let met = queue.failure().map(|failure| failure.position);
    ensure_eq(met, Some(failed), "the replay's position failed")?;
    ensure_eq(stage.words(&b, 256)?, vec![1; 256], "nothing after it ran")
}

fn a_failure_names_the_node_that_failed(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, trap) = (stage.queue()?, stage.kernel(TestKernels::TRAP)?);
    let a = stage.buffer(1024)?;
    let first = node(fill(&a, 1), &[]);
    let second = node(launch(&trap, &a, 0), &[0]);
    let origin = second.origin;
    let graph = instantiate(&stage, vec![first, second])?;
    let position = accepted(run_graph(&queue, &graph, &[&a]))?;
    end(&queue, position)?;
    let Some(failure) = queue.failure() else {
        return Err(Failure::new("the queue has failed", "it has not"));
    };
    ensure_eq(
        failure.error.operation,
        Operation::Launch,
        "the node's call",
    )?;
    ensure_eq(failure.origin, Some(origin), "the node's place")
}

fn an_update_is_for_later_replays(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let a = stage.buffer(1024)?;
    let Some(semaphores) = stage.device.semaphores() else {
        return Ok(());
    };
    let gate = semaphores.create(0, SignalledBy::Anyone)?;
    let nodes = vec![node(fill(&a, 0), &[]), node(launch(&add, &a, 1), &[0])];
    let first = instantiate(&stage, nodes)?;
    let second = instantiate(&stage, vec![node(launch(&add, &a, 10), &[])])?;
    accepted(queue.wait_semaphore(&gate, 1))?;
    accepted(run_graph(&queue, &first, &[&a]))?;
    accepted(run_graph(&queue, &second, &[&a]))?;
    second.update(0, &launch(&add, &a, 100))?;
    accepted(run_graph(&queue, &second, &[&a]))?;
    second.update(0, &launch(&add, &a, 1000))?;
    accepted(run_graph(&queue, &second, &[&a]))?;
    gate.signal(1)?;
    finish(&queue)?;
    ensure_eq(stage.words(&a, 1)?, vec![1111], "each as it was submitted")
}

fn an_update_keeps_kind_and_signature(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let (add, copies) = (
        stage.kernel(TestKernels::ADD)?,
        stage.kernel(TestKernels::COPY)?,
    );
    let (a, b) = (stage.buffer(1024)?, stage.buffer(1024)?);
    let nodes = vec![node(fill(&a, 7), &[]), node(launch(&add, &a, 1), &[0])];
    let graph = instantiate(&stage, nodes)?;
    let other = |node| move |kind: &ErrorKind| *kind == ErrorKind::OtherNode { node };
    let copied = NodeWork::Launch {
        kernel: Arc::clone(&copies),
        grid: Grid::linear(1),
        arguments: pack(&*copies, &[&a, &b], 0).into(),
        extents: [1024, 1024].into(),
    };
    refused(
        graph.update(0, &copy(&a, &b)),
        other(0),
        "a fill is no copy",
    )?;
    refused(
        graph.update(1, &fill(&a, 1)),
        other(1),
        "a launch is no fill",
    )?;
    refused(graph.update(1, &copied), other(1), "another signature")?;
    let missing = |kind: &ErrorKind| *kind == ErrorKind::InvalidIndex { index: 2, limit: 2 };
    refused(graph.update(2, &NodeWork::Empty), missing, "no such node")?;
    accepted(run_graph(&queue, &graph, &[&a, &b]))?;
    finish(&queue)?;
    ensure_eq(stage.words(&a, 1)?, vec![8], "it is as it was")
}

fn what_is_wrong_with_a_node_is_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (add, a) = (stage.kernel(TestKernels::ADD)?, stage.buffer(1024)?);
    let foreign = Stage::open(subject)?.kernel(TestKernels::ADD)?;
    let condition = DevicePtr::new(a.start().address() + 2);
    let wrong = [
        node(fill(&a, 1), &[1]),
        node(fill(&a, 1), &[u32::MAX]),
        node(copy(&a, &a), &[]),
        node(launch(&foreign, &a, 1), &[]),
        node(
            NodeWork::If {
                condition,
                body: Vec::new(),
            },
            &[],
        ),
        node(
            NodeWork::Launch {
                kernel: Arc::clone(&add),
                grid: Grid::linear(0),
                arguments: pack(&*add, &[&a], 1).into(),
                extents: Box::default(),
            },
            &[],
        ),
    ];
    for bad in wrong {
        let nodes = vec![node(fill(&a, 1), &[]), bad];
        let kept = Vec::new();
        let made = graphs(&stage)?.instantiate(GraphDescription { nodes, kept });
        match made {
            Ok(_) => return Err(Failure::new("the node is refused", "it was granted")),
            Err(refusal) => ensure_eq(refusal.node, 1, "the refusal names the node")?,
        }
    }
    Ok(())
}

fn an_executable_of_another_driver_is_foreign(subject: &Subject) -> Checked {
    let (stage, other) = (Stage::open(subject)?, Stage::open(subject)?);
    let queue = stage.queue()?;
    let foreign = instantiate(&other, Vec::new())?;
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::ForeignObject { .. });
    refused(
        run_graph(&queue, &foreign, &[]),
        is_reason,
        "a foreign executable does not run",
    )?;
    ensure_eq(queue.submitted(), Position::START, "and takes no position")
}

fn counting(calls: &Arc<AtomicU64>) -> NodeWork {
    let calls = Arc::clone(calls);
    NodeWork::CallHost(Arc::new(move || {
        calls.fetch_add(1, Ordering::AcqRel);
    }))
}

fn a_host_function_runs_at_every_replay(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, a) = (stage.queue()?, stage.buffer(1024)?);
    let calls = Arc::new(AtomicU64::new(0));
    let nodes = vec![
        node(counting(&calls), &[]),
        node(fill(&a, 1), &[0]),
        node(counting(&calls), &[1]),
    ];
    let graph = instantiate(&stage, nodes)?;
    for replay in 1..=10 {
        accepted(run_graph(&queue, &graph, &[&a]))?;
        finish(&queue)?;
        let called = calls.load(Ordering::Acquire);
        ensure_eq(called, 2 * replay, "both, once a replay")?;
    }
    Ok(())
}

fn a_panic_in_a_node_fails_the_replay(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let calls = Arc::new(AtomicU64::new(0));
    let panics = NodeWork::CallHost(Arc::new(|| std::panic::resume_unwind(Box::new(()))));
    let nodes = vec![node(panics, &[]), node(counting(&calls), &[0])];
    let graph = instantiate(&stage, nodes)?;
    let position = accepted(run_graph(&queue, &graph, &[]))?;
    end(&queue, position)?;
    let met = queue.failure().map(|failure| failure.error.kind);
    let expected = Some(ErrorKind::HostFunctionPanicked);
    ensure_eq(met, expected, "the panic is the position's failure")?;
    ensure_eq(
        calls.load(Ordering::Acquire),
        0,
        "what comes after did not run",
    )
}

fn what_a_graph_keeps_lives_as_long_as_its_replays(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, a) = (stage.queue()?, stage.buffer(1024)?);
    let Some(semaphores) = stage.device.semaphores() else {
        return Ok(());
    };
    let gate = semaphores.create(0, SignalledBy::Anyone)?;
    let kept = Arc::new(());
    let description = GraphDescription {
        nodes: vec![node(fill(&a, 1), &[])],
        kept: vec![kept.clone()],
    };
    let graph = graphs(&stage)?.instantiate(description);
    let graph = graph.map_err(|refusal| Failure::from(refusal.error))?;
    accepted(queue.wait_semaphore(&gate, 1))?;
    accepted(run_graph(&queue, &graph, &[&a]))?;
    drop(graph);
    ensure_eq(Arc::strong_count(&kept), 2, "a replay is in flight")?;
    gate.signal(1)?;
    finish(&queue)?;
    ensure_eq(Arc::strong_count(&kept), 1, "the last replay has ended")?;
    let unused: Result<Arc<dyn ExecutableGraph>, DriverError> = graphs(&stage)?
        .instantiate(GraphDescription {
            nodes: Vec::new(),
            kept: vec![kept.clone()],
        })
        .map_err(|refusal| refusal.error);
    drop(unused?);
    ensure(
        Arc::strong_count(&kept) == 1,
        "without replays it goes at once",
    )
}
