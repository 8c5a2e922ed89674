//! Any records make a valid file: what it holds is what was recorded, events nest, arrows pair up.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton_driver::{
    Comparison, DevicePtr, ExecutionRecord, MemoryWait, MemoryWord, Operation, Position, QueueId,
    SemaphoreId, Signal,
};
use piton_trace::DeviceTrace;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use support::{File, file, record, trace};

fn any_record(times: impl Strategy<Value = (u64, u64)>) -> impl Strategy<Value = ExecutionRecord> {
    let of = (0..4_u64, 0..6_u64, 0..Operation::ALL.len());
    let more = (
        any::<u64>(),
        "\\PC{0,6}",
        prop::option::of((0..4_u64, 0..6_u64)),
        prop::option::of(any_signal()),
    );
    (of, times, more).prop_map(
        |((queue, position, operation), times, (bytes, name, awaited, signal))| {
            let mut record = record(queue, position, Operation::ALL[operation], times);
            record.bytes = bytes;
            record.label = Some(name.as_str().into());
            record.kernel = Some(name.into());
            record.signal = signal;
            record.awaited =
                awaited.map(|(queue, position)| (QueueId(queue), Position::new(position)));
            record
        },
    )
}

fn any_signal() -> impl Strategy<Value = Signal> {
    let at = || (0..3_u64).prop_map(|at| DevicePtr::new(at * 8));
    let word = || (0..4_u32).prop_map(MemoryWord::U32);
    prop_oneof![
        (0..3_u64, 0..6_u64).prop_map(|(id, value)| Signal::Semaphore(SemaphoreId(id), value)),
        (at(), word()).prop_map(|(at, value)| Signal::MemoryWrite(at, value)),
        (at(), word()).prop_map(|(at, value)| Signal::MemoryWait(MemoryWait {
            at,
            comparison: Comparison::AtLeast,
            value,
        })),
    ]
}

fn any_traces(
    times: impl Strategy<Value = (u64, u64)> + Clone,
) -> impl Strategy<Value = Vec<DeviceTrace>> {
    let records = prop::collection::vec(any_record(times), 0..30);
    prop::collection::vec(records, 0..4).prop_map(|devices| {
        let devices = (0..).zip(devices);
        devices
            .map(|(device, records)| trace(device, records))
            .collect()
    })
}

/// Nanoseconds of a time in the file, exactly: it has three decimals.
fn nanoseconds(time: &Value) -> u64 {
    let text = time.to_string();
    let (whole, fraction) = text.split_once('.').unwrap();
    assert!(fraction.len() <= 3);
    let fraction = format!("{fraction:0<3}");
    whole.parse::<u64>().unwrap() * 1000 + fraction.parse::<u64>().unwrap()
}

type Thread = (u64, u64);

/// Start and end of each thread's events.
fn spans(file: &File) -> BTreeMap<Thread, Vec<(u64, u64)>> {
    let mut spans: BTreeMap<Thread, Vec<_>> = BTreeMap::new();
    for event in file.events("X") {
        let start = nanoseconds(&event["ts"]);
        let span = (start, start + nanoseconds(&event["dur"]));
        spans.entry(thread(event)).or_default().push(span);
    }
    spans
}

fn thread(event: &Value) -> Thread {
    (
        event["pid"].as_u64().unwrap(),
        event["tid"].as_u64().unwrap(),
    )
}

fn check_commands(file: &File, traces: &[DeviceTrace]) {
    let recorded = traces.iter().flat_map(|trace| &trace.records);
    let mut recorded: Vec<_> = recorded
        .map(|record| (record.start_ns, record.end_ns.max(record.start_ns)))
        .collect();
    let mut written: Vec<_> = spans(file).into_values().flatten().collect();
    recorded.sort_unstable();
    written.sort_unstable();
    assert_eq!(written, recorded);
}

fn check_nesting(file: &File) {
    for spans in spans(file).values() {
        for (index, a) in spans.iter().enumerate() {
            for b in &spans[index + 1..] {
                let is_apart = a.1 <= b.0 || b.1 <= a.0;
                let is_within = (a.0 <= b.0 && b.1 <= a.1) || (b.0 <= a.0 && a.1 <= b.1);
                assert!(is_apart || is_within, "{a:?} crosses {b:?}");
            }
        }
    }
}

fn check_names(file: &File) {
    let events = file.events("M");
    let named = events.iter().filter(|event| event["name"] == "thread_name");
    let mut named: Vec<_> = named.map(|event| thread(event)).collect();
    named.sort_unstable();
    let used: Vec<_> = spans(file).into_keys().collect();
    assert_eq!(named, used, "each thread has one name");
}

/// Each arrow starts once and ends once, and each of its points lies in an event of its thread.
fn check_arrows(file: &File) {
    let spans = spans(file);
    let mut phases: BTreeMap<u64, String> = BTreeMap::new();
    for event in file.root["traceEvents"].as_array().unwrap() {
        let phase = event["ph"].as_str().unwrap();
        if !["s", "t", "f"].contains(&phase) {
            continue;
        }
        let at = nanoseconds(&event["ts"]);
        let holds = |span: &&(u64, u64)| span.0 <= at && at <= span.1;
        assert!(spans[&thread(event)].iter().any(|span| holds(&span)));
        let id = event["id"].as_u64().unwrap();
        phases.entry(id).or_default().push_str(phase);
    }
    assert_eq!(phases.len() as u64, file.written.arrows);
    let are_paired = phases
        .values()
        .all(|phases| phases == "sf" || phases == "stf");
    assert!(are_paired, "{phases:?}");
}

fn check_file(traces: &[DeviceTrace]) {
    let file = file(traces);
    check_commands(&file, traces);
    check_nesting(&file);
    check_names(&file);
    check_arrows(&file);
}

proptest! {
    #[test]
    fn any_records_make_a_valid_file(traces in any_traces((0..60_u64, 0..60_u64))) {
        check_file(&traces);
    }

    #[test]
    fn so_do_records_of_wild_times(
        traces in any_traces((0..1_u64 << 42, 0..1_u64 << 42)),
    ) {
        check_file(&traces);
    }
}
