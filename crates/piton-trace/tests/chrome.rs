//! What the file says of records.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton_driver::{
    Comparison, DeviceId, DevicePtr, ExecutionRecord, MemoryWait, MemoryWord, Operation, Position,
    QueueId, SemaphoreId, Signal,
};
use piton_trace::waits;
use serde_json::json;
use std::panic::Location;
use support::{file, record, trace};

#[test]
fn a_command_is_an_event_with_its_numbers() {
    let mut launch = record(7, 3, Operation::Launch, (1_234_567, 1_236_568));
    launch.label = Some("compute".into());
    launch.kernel = Some("saxpy".into());
    launch.origin = Some(Location::caller());
    let mut copy = record(8, 1, Operation::CopyPeer, (5, 15));
    (copy.bytes, copy.peer) = (125, Some(DeviceId(3)));
    let file = file(&[trace(0, vec![launch, copy])]);
    assert_eq!((file.written.commands, file.written.arrows), (2, 0));
    let [launch, copy] = file.events("X").try_into().unwrap();
    assert_eq!(launch["name"], "saxpy");
    assert_eq!(launch["args"]["position"], 3);
    let origin = launch["args"]["origin"].as_str().unwrap();
    assert!(origin.contains("chrome.rs:"), "{origin}");
    assert!(file.text.contains("\"ts\":1234.567,\"dur\":2.001"));
    assert_eq!(copy["args"]["bytes"], 125);
    assert_eq!(copy["args"]["gb_per_s"], 12.5);
    assert_eq!(copy["args"]["peer"], 3);
    assert_eq!(copy["cat"], "copy");
    assert_ne!(launch["tid"], copy["tid"]);
}

#[test]
fn devices_are_processes_and_queues_are_threads_under_their_labels() {
    let mut labelled = record(1, 1, Operation::Fill, (1, 2));
    labelled.label = Some("<copies> \u{1}".into());
    let unnamed = record(2, 1, Operation::Fill, (1, 2));
    let other = record(3, 1, Operation::Fill, (1, 2));
    let file = file(&[trace(0, vec![labelled, unnamed]), trace(1, vec![other])]);
    let names = |kind: &str| -> Vec<_> {
        let events = file.events("M");
        let of_kind = events.into_iter().filter(|event| event["name"] == kind);
        of_kind
            .map(|event| (event["pid"].clone(), event["args"]["name"].clone()))
            .collect()
    };
    assert_eq!(
        names("process_name"),
        [
            (json!(1), json!("device 0 simulated \"0\"")),
            (json!(2), json!("device 1 simulated \"0\""))
        ]
    );
    assert_eq!(
        names("thread_name"),
        [
            (json!(1), json!("<copies> \u{1}")),
            (json!(1), json!("queue 2")),
            (json!(2), json!("queue 3"))
        ]
    );
}

#[test]
fn an_arrow_leads_from_what_was_awaited_over_the_wait_to_what_it_held_up() {
    let fill = record(1, 5, Operation::Fill, (100, 200));
    let mut wait = record(2, 1, Operation::WaitQueue, (50, 210));
    wait.awaited = Some((QueueId(1), Position::new(5)));
    let next = record(2, 2, Operation::Launch, (230, 300));
    // The queue that waits is another device's.
    let file = file(&[trace(0, vec![fill]), trace(1, vec![wait, next])]);
    assert_eq!(file.written.arrows, 1);
    let point = |phase: &str| {
        let [point] = file.events(phase).try_into().unwrap();
        (
            point["pid"].as_u64().unwrap(),
            point["ts"].as_f64().unwrap(),
            point["id"].as_u64().unwrap(),
        )
    };
    assert_eq!(point("s"), (1, 0.199, 0));
    assert_eq!(point("t"), (2, 0.209, 0));
    assert_eq!(point("f"), (2, 0.230, 0));
}

fn raising(queue: u64, value: u64, times: (u64, u64)) -> ExecutionRecord {
    let mut record = record(queue, value, Operation::SignalSemaphore, times);
    record.signal = Some(Signal::Semaphore(SemaphoreId(4), value));
    record
}

fn awaiting(value: u64, times: (u64, u64)) -> ExecutionRecord {
    let mut record = record(9, 1, Operation::WaitSemaphore, times);
    record.signal = Some(Signal::Semaphore(SemaphoreId(4), value));
    record
}

/// Where the arrow of the only wait with one comes from: the queue.
fn arrow_from(records: Vec<ExecutionRecord>) -> Option<u64> {
    let traces = [trace(0, records)];
    let found = waits(&traces);
    assert!(found.len() < 2, "{found:?}");
    let place = found.first()?.awaited;
    Some(traces[place.device].records[place.record].queue.0)
}

#[test]
fn a_wait_for_a_semaphore_has_an_arrow_from_the_lowest_signal_that_was_high_enough() {
    let signals = || {
        vec![
            raising(1, 5, (10, 11)),
            raising(2, 7, (20, 21)),
            raising(3, 9, (30, 31)),
        ]
    };
    let from = |value, times| {
        let mut records = signals();
        records.push(awaiting(value, times));
        arrow_from(records)
    };
    assert_eq!(from(5, (0, 12)), Some(1));
    assert_eq!(from(6, (0, 22)), Some(2));
    // The device goes on with the wait before the signal itself has ended.
    assert_eq!(from(6, (0, 20)), Some(2));
    // It was there already.
    assert_eq!(from(7, (50, 50)), Some(2));
    // The host raised it before any queue did.
    assert_eq!(from(6, (0, 15)), None);
    assert_eq!(from(10, (0, 99)), None);
    let mut other = awaiting(5, (0, 12));
    other.signal = Some(Signal::Semaphore(SemaphoreId(3), 5));
    assert_eq!(arrow_from([signals(), vec![other]].concat()), None);
}

#[test]
fn a_wait_for_memory_has_an_arrow_from_the_last_write_in_its_favour() {
    let at = DevicePtr::new(64);
    let write = |queue, value, times| {
        let mut record = record(queue, 1, Operation::WriteMemory, times);
        record.signal = Some(Signal::MemoryWrite(at, MemoryWord::U32(value)));
        record
    };
    let wait = |at, value, times| {
        let mut record = record(9, 1, Operation::WaitMemory, times);
        record.signal = Some(Signal::MemoryWait(MemoryWait {
            at,
            comparison: Comparison::Equal,
            value: MemoryWord::U32(value),
        }));
        record
    };
    let writes = [
        write(1, 1, (10, 11)),
        write(2, 2, (20, 21)),
        write(3, 1, (30, 31)),
    ];
    let from = |wait| arrow_from([writes.to_vec(), vec![wait]].concat());
    assert_eq!(from(wait(at, 1, (5, 12))), Some(1));
    assert_eq!(from(wait(at, 2, (5, 22))), Some(2));
    // It looks late: the third write came in between.
    assert_eq!(from(wait(at, 2, (5, 32))), Some(2));
    assert_eq!(from(wait(at, 1, (40, 40))), Some(3));
    // A kernel wrote it: what commands wrote was gone when the wait began.
    assert_eq!(from(wait(at, 2, (40, 45))), None);
    assert_eq!(from(wait(DevicePtr::new(0), 1, (5, 99))), None);
    // Another device has memory of its own.
    let other = trace(1, vec![wait(at, 1, (5, 12))]);
    assert_eq!(waits(&[trace(0, writes.to_vec()), other]), []);
}

#[test]
fn arrows_of_signals_are_in_the_file_and_do_not_go_back_in_time() {
    let wait = awaiting(5, (50, 205));
    let next = record(9, 2, Operation::Launch, (230, 300));
    let file = file(&[trace(0, vec![raising(1, 5, (200, 210)), wait, next])]);
    assert_eq!(file.written.arrows, 1);
    let at = |phase: &str| {
        let [point] = file.events(phase).try_into().unwrap();
        (
            point["tid"].as_u64().unwrap(),
            point["ts"].as_f64().unwrap(),
        )
    };
    assert_eq!(at("s"), (1, 0.204));
    assert_eq!(at("t"), (2, 0.204));
    assert_eq!(at("f"), (2, 0.230));
    let [signal, wait, _] = file.events("X").try_into().unwrap();
    for told in [signal, wait] {
        assert_eq!(
            (&told["args"]["semaphore"], &told["args"]["value"]),
            (&json!(4), &json!(5))
        );
    }
}

#[test]
fn a_wait_for_what_is_not_in_the_trace_has_no_arrow() {
    let mut wait = record(2, 1, Operation::WaitQueue, (50, 210));
    wait.awaited = Some((QueueId(1), Position::new(5)));
    let file = file(&[trace(0, vec![record(1, 4, Operation::Fill, (1, 2)), wait])]);
    assert_eq!((file.written.commands, file.written.arrows), (2, 0));
}

#[test]
fn an_arrow_from_a_graph_starts_at_the_graph_and_not_at_one_of_its_nodes() {
    let nodes = [(10, 20), (10, 30)].map(|times| record(1, 1, Operation::Launch, times));
    let graph = record(1, 1, Operation::RunGraph, (5, 40));
    let mut wait = record(2, 1, Operation::WaitQueue, (1, 41));
    wait.awaited = Some((QueueId(1), Position::new(1)));
    let [first, second] = nodes;
    let file = file(&[trace(0, vec![first, second, graph, wait])]);
    let [start] = file.events("s").try_into().unwrap();
    assert_eq!(start["ts"], 0.039);
}

#[test]
fn nodes_that_run_side_by_side_lie_on_threads_of_their_own() {
    let graph = record(1, 1, Operation::RunGraph, (0, 100));
    let nodes = [(10, 50), (20, 60), (60, 90)].map(|times| record(1, 1, Operation::Launch, times));
    let records = [vec![graph], nodes.to_vec()].concat();
    let file = file(&[trace(0, records)]);
    let threads: Vec<_> = file
        .events("X")
        .iter()
        .map(|event| event["tid"].as_u64().unwrap())
        .collect();
    assert_eq!(threads, [1, 1, 2, 1]);
}

#[test]
fn nothing_recorded_is_a_file_all_the_same() {
    let mut dropped = trace(0, Vec::new());
    dropped.dropped = 12;
    let empty = file(&[]);
    assert!(empty.root["traceEvents"].as_array().unwrap().is_empty());
    let file = file(&[dropped]);
    assert_eq!(file.root["otherData"]["commands_dropped"], 12);
    assert_eq!(file.written.dropped, 12);
}
