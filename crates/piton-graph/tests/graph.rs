//! Graphs that are built: bodies, failures, updates, private memory, what lives how long.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton_driver::{DevicePtr, DriverError, ErrorKind, GraphNode, MemoryUsage, Operation};
use piton_graph::{Graph, GraphBuilder, GraphError, NodeId, NodeWork, PrivateBlock, PrivateMemory};
use piton_stream::{Captured, Event, Offence, Semaphore, StreamError, StreamOptions, Submission};
use std::panic::Location;
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, Ordering},
};
use support::{BYTES, Bench, config, configs, copies, counts_down, fills, offer, replay, submit};

fn built(
    private: PrivateMemory,
    build: impl FnOnce(&mut GraphBuilder) -> Result<(), GraphError>,
) -> Graph {
    let mut builder = GraphBuilder::new();
    build(&mut builder).unwrap();
    builder.finish(private)
}

#[test]
fn a_body_runs_or_not_and_a_loop_counts_a_value_in_device_memory_down() {
    for config in configs() {
        let bench = Bench::new(config);
        let stream = bench.stream("s");
        let [data, out] = [bench.buffer(), bench.buffer()];
        let mut private = PrivateMemory::new();
        let counter = private.chunk(BYTES).unwrap().ptr();
        let mut names = Vec::new();
        let graph = built(private, |graph| {
            let set = graph.add(fills(counter, 5), &[])?;
            let clear = graph.add(fills(data, 1), &[])?;
            let count = graph.add_while(counter, &[set, clear], |body| {
                let tripled = body.add(bench.adds(data, 0), &[])?;
                body.add(counts_down(&bench, counter, 1), &[tripled])?;
                Ok(())
            })?;
            let choice = graph.add_if(data, &[count], |body| {
                names.push(body.add(fills(out, 1), &[])?);
                Ok(())
            })?;
            names.push(graph.add_if(counter, &[choice], |body| {
                body.add(fills(out, 2), &[])?;
                Ok(())
            })?);
            names.extend([set, clear]);
            Ok(())
        });
        assert_eq!(names, [NodeId(6), NodeId(7), NodeId(0), NodeId(1)]);
        assert_eq!(graph.node_count(), 9);
        let mut executable = graph.instantiate(&bench.device).unwrap();
        submit(&stream, &fills(out, 0)).unwrap();
        replay(&mut executable, &stream).unwrap();
        assert_eq!(bench.words(&stream, data)[0], 3_u32.pow(5));
        assert_eq!(bench.words(&stream, out)[0], 1, "the first body only");
        // Names go through bodies: node 0 is the counter's start, node 6 the body of the choice.
        executable.update(NodeId(0), fills(counter, 2)).unwrap();
        executable.update(NodeId(6), fills(out, 9)).unwrap();
        executable.update(NodeId(1), fills(data, 2)).unwrap();
        replay(&mut executable, &stream).unwrap();
        assert_eq!(bench.words(&stream, data)[0], 18);
        assert_eq!(bench.words(&stream, out)[0], 9);
        executable.update(NodeId(0), fills(counter, 0)).unwrap();
        executable.update(NodeId(1), fills(data, 0)).unwrap();
        replay(&mut executable, &stream).unwrap();
        assert_eq!(bench.words(&stream, data)[0], 0, "the loop ran not once");
        assert_eq!(bench.words(&stream, out)[0], 9, "and no body");
    }
}

#[test]
fn a_failed_node_poisons_the_stream_and_says_where_it_was_added() {
    for config in configs() {
        let bench = Bench::new(config);
        let [stream, other] = [bench.stream("s"), bench.stream("other")];
        let data = bench.buffer();
        let mut here = 0;
        let graph = built(PrivateMemory::new(), |graph| {
            let first = graph.add(fills(data, 1), &[])?;
            here = std::panic::Location::caller().line() + 1;
            let bad = graph.add(bench.traps(data), &[first])?;
            graph.add(fills(data, 2), &[bad])?;
            Ok(())
        });
        let mut executable = graph.instantiate(&bench.device).unwrap();
        let point = replay(&mut executable, &stream).unwrap();
        let Err(StreamError::Poisoned(failure)) = stream.synchronize() else {
            panic!("the replay fails");
        };
        assert_eq!(failure.timepoint, point);
        assert_eq!(failure.error.operation, Operation::Launch);
        let place = failure.place.unwrap();
        assert!(place.file().ends_with("graph.rs") && place.line() == here);
        assert_eq!(
            bench.words(&other, data)[0],
            1,
            "what comes after did not run"
        );
        // The failed replay has ended: another stream replays without meeting its failure.
        executable.update(NodeId(1), bench.adds(data, 4)).unwrap();
        drop(stream);
        replay(&mut executable, &other).unwrap();
        assert_eq!(bench.words(&other, data)[0], 2);
    }
}

#[test]
fn private_memory_stays_until_the_last_replay_has_ended() {
    for config in configs() {
        let bench = Bench::new(config);
        let stream = bench.stream("s");
        let free = || -> u64 {
            let usage: Result<MemoryUsage, DriverError> = bench.device.memory().usage();
            usage.unwrap().free
        };
        let out = bench.buffer();
        let before = free();
        let mut private = PrivateMemory::new();
        let scratch = private.chunk(1 << 20).unwrap().ptr();
        let graph = built(private, |graph| {
            let set = graph.add(fills(scratch, 6), &[])?;
            graph.add(copies(out, scratch), &[set])?;
            Ok(())
        });
        let mut executable = graph.instantiate(&bench.device).unwrap();
        assert!(free() <= before - (1 << 20));
        let gate = Semaphore::new(&bench.device, 0).unwrap();
        stream.wait_semaphore(&gate, 1).unwrap();
        replay(&mut executable, &stream).unwrap();
        drop((executable, graph));
        assert!(free() <= before - (1 << 20), "a replay is in flight");
        gate.signal(1).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(free(), before);
        assert_eq!(bench.words(&stream, out), [6; 64]);
        assert_eq!(bench.device.take_error(), None);
    }
}

#[test]
fn buffers_whose_lives_are_apart_share_bytes() {
    let bench = Bench::new(config());
    let stream = bench.stream("s");
    let out = bench.buffer();
    let mut private = PrivateMemory::new();
    let scratch: Vec<DevicePtr> = (0..10)
        .map(|_| private.chunk(BYTES).unwrap().ptr())
        .collect();
    let graph = built(private, |graph| {
        let mut last = graph.add(fills(scratch[0], 1), &[])?;
        for pair in scratch.windows(2) {
            last = graph.add(copies(pair[1], pair[0]), &[last])?;
            last = graph.add(bench.adds(pair[1], 1), &[last])?;
        }
        graph.add(copies(out, scratch[9]), &[last])?;
        Ok(())
    });
    assert_eq!(graph.private_bytes(), Ok(2 * BYTES));
    let mut executable = graph.instantiate(&bench.device).unwrap();
    replay(&mut executable, &stream).unwrap();
    let expected = (0..9).fold(1_u32, |x, _| x * 3 + 1);
    assert_eq!(bench.words(&stream, out), [expected; 64]);
}

#[test]
fn what_a_node_may_not_name_is_refused() {
    let bench = Bench::new(config());
    let data = bench.buffer();
    let mut private = PrivateMemory::new();
    let [a, b] = [BYTES, BYTES].map(|bytes| private.chunk(bytes).unwrap().ptr());
    let past = DevicePtr::new(a.address() + 4);
    let outside = built(private.clone(), |graph| {
        graph.add(fills(past, 1), &[]).map(drop)
    });
    let expected = GraphError::OutsidePrivate {
        node: NodeId(0),
        address: past,
        bytes: BYTES,
    };
    assert_eq!(outside.instantiate(&bench.device).map(drop), Err(expected));
    let graph = built(private, |graph| {
        let first = graph.add(fills(a, 1), &[])?;
        let second = graph.add(copies(data, a), &[first])?;
        graph.add(fills(b, 1), &[second]).map(drop)
    });
    assert_eq!(graph.private_bytes(), Ok(BYTES), "they share");
    let needed = BYTES;
    let small = PrivateBlock::none();
    assert_eq!(
        graph.instantiate_in(&bench.device, &small).map(drop),
        Err(GraphError::BlockTooSmall { given: 0, needed })
    );
    let mut executable = graph.instantiate(&bench.device).unwrap();
    let (node, address) = (NodeId(0), b);
    assert_eq!(
        executable.update(node, fills(b, 1)),
        Err(GraphError::NewPrivateUse { node, address })
    );
    let node = NodeId(3);
    assert_eq!(
        executable.update(node, NodeWork::Empty),
        Err(GraphError::UnknownNode { node })
    );
    let other = executable.update(NodeId(0), copies(a, data)).unwrap_err();
    assert!(matches!(
        other,
        GraphError::Driver(DriverError {
            kind: ErrorKind::OtherNode { node: 0 },
            ..
        })
    ));
}

#[test]
fn a_node_the_device_refuses_is_named_with_its_place() {
    let bench = Bench::new(config());
    let data = bench.buffer();
    let mut here = 0;
    let graph = built(PrivateMemory::new(), |graph| {
        let first = graph.add(fills(data, 1), &[])?;
        graph
            .add_if(data, &[first], |body| {
                body.add(fills(data, 1), &[])?;
                here = std::panic::Location::caller().line() + 1;
                body.add(copies(data, data), &[]).map(drop)
            })
            .map(drop)
    });
    let Err(GraphError::Node {
        node,
        origin,
        error,
    }) = graph.instantiate(&bench.device)
    else {
        panic!("a copy onto itself is refused");
    };
    assert_eq!((node, origin.line()), (NodeId(3), here));
    assert_eq!(error.operation, Operation::CopyOnDevice);
}

#[test]
fn edges_go_within_one_list() {
    let mut builder = GraphBuilder::new();
    let first = builder.add(NodeWork::Empty, &[]).unwrap();
    let node = NodeId(7);
    let unknown = builder.add(NodeWork::Empty, &[first, node]);
    assert_eq!(unknown, Err(GraphError::UnknownNode { node }));
    let at = DevicePtr::new(16);
    let nested = builder.add_if(at, &[first], |body| {
        let inner = body.add(NodeWork::Empty, &[])?;
        body.add(NodeWork::Empty, &[inner, first]).map(drop)
    });
    assert_eq!(nested, Err(GraphError::UnknownNode { node: first }));
    let second = builder.add(NodeWork::Empty, &[first]).unwrap();
    assert_eq!(second, NodeId(1), "what failed has taken no number");
}

#[test]
fn a_host_function_of_a_graph_does_not_wait_for_the_stream_it_is_replayed_on() {
    for config in configs() {
        let bench = Bench::new(config);
        let [stream, free] = [bench.stream("s"), bench.stream("free")].map(Arc::new);
        let seen: Arc<OnceLock<_>> = Arc::default();
        let work = {
            let (stream, free, seen) = (stream.clone(), free.clone(), seen.clone());
            NodeWork::CallHost(Arc::new(move || {
                let _set = seen.set((stream.synchronize(), free.synchronize()));
            }))
        };
        let graph = built(PrivateMemory::new(), |graph| graph.add(work, &[]).map(drop));
        let mut executable = graph.instantiate(&bench.device).unwrap();
        replay(&mut executable, &stream).unwrap();
        stream.synchronize().unwrap();
        let (own, other) = seen.get().unwrap();
        assert!(matches!(own, Err(StreamError::WouldDeadlock { .. })));
        assert_eq!(*other, Ok(()));
    }
}

#[test]
fn a_graph_is_not_replayed_in_a_capture() {
    let bench = Bench::new(config());
    let stream = bench.stream("s");
    let graph = built(PrivateMemory::new(), |graph| {
        graph.add(NodeWork::Empty, &[]).map(drop)
    });
    let mut executable = graph.instantiate(&bench.device).unwrap();
    let capture = stream.begin_capture().unwrap();
    let refused = replay(&mut executable, &stream);
    let Err(GraphError::Stream(StreamError::Capture(error))) = refused else {
        panic!("graphs do not nest: {refused:?}");
    };
    assert_eq!(error.offence, Offence::Command(Operation::RunGraph));
    assert_eq!(capture.end().map(drop), Err(error.into()));
}

#[test]
fn what_a_graph_keeps_goes_with_its_last_executable_and_replay() {
    let bench = Bench::new(config());
    let stream = bench.stream("s");
    let kept = Arc::new(AtomicU32::new(0));
    let graph = built(PrivateMemory::new(), |graph| {
        graph.add(NodeWork::Empty, &[]).map(drop)
    });
    let graph = graph.keeping(kept.clone());
    let mut executables = [(); 3].map(|()| graph.instantiate(&bench.device).unwrap());
    drop(graph);
    for executable in &mut executables {
        replay(executable, &stream).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(Arc::strong_count(&kept), 4);
    drop(executables);
    assert_eq!(Arc::strong_count(&kept), 1);
    assert_eq!(kept.load(Ordering::Relaxed), 0);
}

#[test]
fn trying_takes_a_replay_with_its_wait_for_the_last_one_or_neither_and_never_parks() {
    for config in configs() {
        let bench = Bench::new(config);
        let options = StreamOptions {
            commands: Some(2),
            ..StreamOptions::default()
        };
        let [first, second] = [(); 2].map(|()| {
            let options = options.clone();
            bench.streams.create(&bench.device, options).unwrap()
        });
        let data = bench.buffer();
        let graph = built(PrivateMemory::new(), |builder| {
            builder.add(fills(data, 1), &[]).map(drop)
        });
        let mut executable = graph.instantiate(&bench.device).unwrap();
        let gate = Semaphore::new(&bench.device, 0).unwrap();
        first.wait_semaphore(&gate, 1).unwrap();
        replay(&mut executable, &first).unwrap();
        second.wait_semaphore(&gate, 2).unwrap();
        // Room for one, and two are needed: the replay, and its wait for the one before.
        let before = (second.now(), executable.last().map(Event::timepoint));
        assert_eq!(offer(&mut executable, &second), Ok(Submission::Full));
        let after = (second.now(), executable.last().map(Event::timepoint));
        assert_eq!(after, before);
        gate.signal(1).unwrap();
        first.synchronize().unwrap();
        // The last one has ended, so no wait is needed.
        let taken = offer(&mut executable, &second).unwrap();
        assert_eq!(taken, Submission::Accepted(second.now()));
        gate.signal(2).unwrap();
        second.synchronize().unwrap();
    }
}

#[test]
fn an_edge_of_a_capture_to_no_earlier_node_is_refused() {
    let bench = Bench::new(config());
    let mut builder = GraphBuilder::new();
    builder.add(NodeWork::Empty, &[]).unwrap();
    for edge in [0, 1, u32::MAX] {
        let node = GraphNode {
            work: NodeWork::Empty,
            after: vec![edge],
            origin: Location::caller(),
        };
        let captured = Captured {
            nodes: vec![node],
            device: Arc::clone(&bench.device),
        };
        let refused = builder.add_captured(captured, &[]);
        let unknown = GraphError::UnknownNode { node: NodeId(edge) };
        assert_eq!(refused, Err(unknown));
    }
}
