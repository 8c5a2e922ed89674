//! Graphs under a sanitizer: nodes against each other, and replays against the rest of the program.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton_graph::{GraphBuilder, PrivateMemory};
use piton_sanitizer::{Hazard, Listener, Report, SanitizerConfig};
use piton_sync::Mutex;
use std::sync::Arc;
use support::{Bench, config, copies, fills, replay, submit};

fn lines(report: &Report) -> [u32; 2] {
    [&report.first, &report.second].map(|site| site.origin.unwrap().line())
}

#[test]
fn nodes_without_an_edge_are_reported_once_with_the_lines_they_were_added_at() {
    let bench = Bench::sanitized(config());
    let stream = bench.stream("s");
    let data = bench.buffer();
    let mut builder = GraphBuilder::new();
    builder.add(fills(data, 1), &[]).unwrap();
    let first = line!() - 1;
    builder.add(fills(data, 1), &[]).unwrap();
    let second = line!() - 1;
    let graph = builder.finish(PrivateMemory::new());
    let mut executable = graph.instantiate(&bench.device).unwrap();
    for _ in 0..3 {
        replay(&mut executable, &stream).unwrap();
    }
    let [report] = &bench.reports()[..] else {
        panic!("not one report");
    };
    assert_eq!((report.kind, report.times), (Hazard::WriteWrite, 1));
    assert_eq!(lines(report), [first, second]);
    assert!(report.to_string().contains("add an edge"), "{report}");
}

#[test]
fn a_replay_touches_what_its_nodes_touch_as_they_are_then() {
    let bench = Bench::sanitized(config());
    let [stream, other] = [bench.stream("s"), bench.stream("other")];
    let [a, b, c] = [bench.buffer(), bench.buffer(), bench.buffer()];
    let mut builder = GraphBuilder::new();
    let copied = builder.add(copies(b, a), &[]).unwrap();
    let line = line!() - 1;
    let graph = builder.finish(PrivateMemory::new());
    let mut executable = graph.instantiate(&bench.device).unwrap();
    submit(&other, &fills(a, 1)).unwrap();
    let written = line!() - 1;
    replay(&mut executable, &stream).unwrap();
    let [report] = &bench.reports()[..] else {
        panic!("not one report");
    };
    assert_eq!(report.kind, Hazard::WriteRead);
    assert_eq!(lines(report), [written, line]);
    // In order now, and no longer the same source: the fill of `a` is nobody's concern.
    other.wait(&stream.record()).unwrap();
    executable.update(copied, copies(b, c)).unwrap();
    replay(&mut executable, &stream).unwrap();
    submit(&other, &fills(a, 2)).unwrap();
    assert_eq!(bench.reports(), []);
    submit(&other, &fills(c, 2)).unwrap();
    assert_eq!(bench.reports()[0].kind, Hazard::ReadWrite);
}

#[test]
fn private_memory_that_had_another_use_begins_anew() {
    let bench = Bench::sanitized(config());
    let beside = bench.buffer();
    for turn in 0..8 {
        let stream = bench.stream("s");
        let mut private = PrivateMemory::new();
        let chunks = [0, 1].map(|_| private.chunk(support::BYTES).unwrap().ptr());
        let mut builder = GraphBuilder::new();
        let filled = builder.add(fills(chunks[0], turn), &[]).unwrap();
        builder
            .add(copies(chunks[1], chunks[0]), &[filled])
            .unwrap();
        let graph = builder.finish(private);
        let mut executable = graph.instantiate(&bench.device).unwrap();
        replay(&mut executable, &stream).unwrap();
        // Ends without anybody waiting for it, and the block goes back.
        let clock = bench.stream("clock");
        while !bench.streams.timeline().is_complete(stream.now()) {
            submit(&clock, &fills(beside, 0)).unwrap();
            clock.synchronize().unwrap();
        }
    }
    assert_eq!(bench.reports(), []);
}

#[test]
fn a_listener_may_replay_another_graph_when_it_is_told_of_one() {
    let other = Arc::new(Mutex::new(None));
    let taken = Arc::clone(&other);
    let listener: Listener = Arc::new(move |_: &Report| {
        if let Some((mut executable, stream)) = taken.lock().take() {
            replay(&mut executable, &stream).unwrap();
        }
    });
    let listener = Some(listener);
    let bench = Bench::watched(
        config(),
        SanitizerConfig {
            listener,
            ..SanitizerConfig::default()
        },
    );
    let racing = |data| {
        let mut builder = GraphBuilder::new();
        builder.add(fills(data, 1), &[]).unwrap();
        builder.add(fills(data, 1), &[]).unwrap();
        let graph = builder.finish(PrivateMemory::new());
        graph.instantiate(&bench.device).unwrap()
    };
    *other.lock() = Some((racing(bench.buffer()), bench.stream("other")));
    replay(&mut racing(bench.buffer()), &bench.stream("s")).unwrap();
    assert!(other.lock().is_none(), "the listener was told");
    let replays = bench.reports().into_iter().map(|report| report.times);
    assert_eq!(replays.sum::<u64>(), 2, "both were compared");
}
