//! A demonstration as the data of a report.

use std::collections::{BTreeMap, BTreeSet};

use piton::{DeviceTrace, ExecutionRecord, Operation, PinnedStats, PoolStats, RouteUse};
use piton_driver::QueueId;
use piton_topology::{DeviceId, Highlight};
use piton_trace::Place;

use crate::quantity;
use crate::report::{
    Arrow, Column, DeviceTimeline, Fact, LaneTimeline, MemorySample, MemoryView, ReportData,
    RouteRow, Span, SpanKind, StepMark, Table, TimeAxis, Topology,
};

use super::outcome::{Outcome, PinnedParts, device_name};

pub(super) fn of(outcome: &Outcome) -> ReportData {
    let config = &outcome.options.config;
    let origin = origin(outcome);
    let shifted = |at: u64| at.saturating_sub(origin);
    let memory = |(index, samples): (usize, &Vec<MemorySample>)| MemoryView {
        title: format!("device {index}"),
        axis: TimeAxis::Nanoseconds,
        samples: samples
            .iter()
            .map(|sample| MemorySample {
                at: shifted(sample.at),
                ..*sample
            })
            .collect(),
        others: Vec::new(),
    };
    let device = |(index, trace): (usize, &DeviceTrace)| DeviceTimeline {
        name: format!("device {index}"),
        lanes: lanes(&trace.records, origin),
    };
    let kind = outcome.options.backend.as_str();
    ReportData {
        title: format!("piton: a network trained on {kind} devices"),
        subtitle: format!(
            "{} {kind} devices train a 64-64-32-10 network on handwritten digits, {} images a step on each, {} steps, \
             seed {}{}.",
            config.devices,
            config.batch_per_device,
            config.steps,
            config.seed,
            if outcome.options.is_deterministic {
                ", in virtual time"
            } else {
                ""
            }
        ),
        facts: facts(outcome),
        checks: outcome.checks(),
        training: outcome.training.clone(),
        devices: outcome.traces.iter().enumerate().map(device).collect(),
        arrows: arrows(&outcome.traces, origin),
        steps: outcome
            .steps
            .iter()
            .map(|mark| StepMark {
                start_ns: shifted(mark.start_ns),
                ..*mark
            })
            .collect(),
        memory: outcome.memory.iter().enumerate().map(memory).collect(),
        addresses: Vec::new(),
        topology: Some(topology(outcome)),
        routes: outcome.routes.iter().map(route_row).collect(),
        tables: vec![
            pools(&outcome.pools),
            pinned(&outcome.pinned),
            pinned_classes(&outcome.pinned_parts),
            pinned_threads(&outcome.pinned_parts),
        ],
    }
}

/// The first moment of the run on the devices' clock.
fn origin(outcome: &Outcome) -> u64 {
    let starts = outcome
        .traces
        .iter()
        .flat_map(|trace| &trace.records)
        .map(|record| record.start_ns);
    let marks = outcome.steps.iter().map(|mark| mark.start_ns);
    starts.chain(marks).min().unwrap_or(0)
}

fn facts(outcome: &Outcome) -> Vec<Fact> {
    let fact = |label: &str, value: String, note: String| Fact {
        label: label.to_owned(),
        value,
        note,
    };
    let times = outcome.step_times();
    let at = |share: usize| {
        times
            .get(times.len().saturating_sub(1) * share / 100)
            .copied()
            .unwrap_or_default()
    };
    let sum = |of: fn(&PoolStats) -> u64| outcome.pools.iter().map(of).sum::<u64>();
    let (hits, misses) = (sum(|pool| pool.hits), sum(|pool| pool.misses));
    let peer = outcome
        .routes
        .iter()
        .fold((0, 0), |(copies, bytes), route| {
            (copies + route.copies, bytes + route.bytes)
        });
    let (to_device, bytes_to_device) = outcome.copied(Operation::CopyToDevice);
    vec![
        fact(
            "accuracy",
            quantity::percent(outcome.accuracy),
            "on 360 held-back images".to_owned(),
        ),
        fact(
            "time per step",
            quantity::duration(at(50)),
            format!("median; 95 % below {}", quantity::duration(at(95))),
        ),
        fact(
            "launches",
            quantity::count(outcome.launches),
            "kernels with tiling data".to_owned(),
        ),
        fact(
            "between devices",
            quantity::bytes(peer.1),
            format!("in {} copies", quantity::count(peer.0)),
        ),
        fact(
            "to devices",
            quantity::bytes(bytes_to_device),
            format!("in {} copies", quantity::count(to_device)),
        ),
        fact(
            "pool hits",
            quantity::percent(share(hits, hits + misses)),
            format!("{} misses", quantity::count(misses)),
        ),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// A lane per queue, under its stream's label: the replica's own in their order, then what the runtime made to stage
/// copies.
fn lanes(records: &[ExecutionRecord], origin: u64) -> Vec<LaneTimeline> {
    let mut queues: BTreeMap<(usize, QueueId), LaneTimeline> = BTreeMap::new();
    for record in records {
        if let Some(span) = span(record, origin) {
            let name = lane_name(record);
            let lane = queues
                .entry(lane_key(record))
                .or_insert_with(|| LaneTimeline {
                    // The device stands beside the lane already.
                    name: name
                        .find("staging")
                        .map_or(name, |at| &name[at..])
                        .to_owned(),
                    spans: Vec::new(),
                });
            lane.spans.push(span);
        }
    }
    queues.into_values().collect()
}

fn lane_name(record: &ExecutionRecord) -> &str {
    record.label.as_deref().unwrap_or("unnamed")
}

/// A lane's place among those of its device.
fn lane_key(record: &ExecutionRecord) -> (usize, QueueId) {
    let own = ["compute", "copies", "peers"];
    let place = own.iter().position(|own| *own == lane_name(record));
    (place.unwrap_or(usize::MAX), record.queue)
}

/// What waited for what, where it did wait: of a wait that was met before its turn came there is nothing to see.
fn arrows(traces: &[DeviceTrace], origin: u64) -> Vec<Arrow> {
    let lanes: Vec<BTreeMap<(usize, QueueId), usize>> = traces.iter().map(lane_places).collect();
    let record = |place: Place| &traces[place.device].records[place.record];
    let lane = |place: Place| lanes[place.device].get(&lane_key(record(place))).copied();
    let arrow = |found: piton_trace::WaitArrow| {
        let (awaited, wait) = (record(found.awaited), record(found.wait));
        if awaited.end_ns < wait.start_ns {
            return None;
        }
        Some(Arrow {
            from: (found.awaited.device, lane(found.awaited)?),
            from_ns: awaited.end_ns.saturating_sub(origin),
            to: (found.wait.device, lane(found.wait)?),
            to_ns: wait.end_ns.saturating_sub(origin),
        })
    };
    let found = piton_trace::waits(traces);
    found.into_iter().filter_map(arrow).collect()
}

/// Each lane's number among those that [`lanes`] shows.
fn lane_places(trace: &DeviceTrace) -> BTreeMap<(usize, QueueId), usize> {
    let shown = trace
        .records
        .iter()
        .filter(|record| span(record, 0).is_some());
    let keys: BTreeSet<_> = shown.map(lane_key).collect();
    keys.into_iter().zip(0..).collect()
}

/// What a command looked like; nothing for commands that take no time.
fn span(record: &ExecutionRecord, origin: u64) -> Option<Span> {
    let (kind, name) = match record.operation {
        Operation::Launch => (
            SpanKind::Kernel,
            record.kernel.as_deref().unwrap_or("kernel").to_owned(),
        ),
        Operation::CopyToDevice => (SpanKind::CopyToDevice, "to device".to_owned()),
        Operation::CopyToHost => (SpanKind::CopyToHost, "to host".to_owned()),
        Operation::CopyOnDevice => (SpanKind::CopyPeer, "on device".to_owned()),
        Operation::CopyPeer => (
            SpanKind::CopyPeer,
            record.peer.map_or_else(|| "peer".to_owned(), device_name),
        ),
        Operation::Fill => (SpanKind::Fill, "fill".to_owned()),
        Operation::CallHost => (SpanKind::HostFunction, "host function".to_owned()),
        Operation::WaitQueue | Operation::WaitSemaphore => (SpanKind::Wait, "wait".to_owned()),
        _ => return None,
    };
    let (start_ns, end_ns) = (
        record.start_ns.saturating_sub(origin),
        record.end_ns.saturating_sub(origin),
    );
    Some(Span {
        start_ns,
        end_ns,
        kind,
        name,
        bytes: record.bytes,
    })
}

fn route_row(route: &RouteUse) -> RouteRow {
    RouteRow {
        from: device_name(route.from),
        to: device_name(route.to),
        route: route.kind.to_string(),
        copies: route.copies,
        bytes: route.bytes,
    }
}

fn topology(outcome: &Outcome) -> Topology {
    let device = |id: piton::DeviceId| u16::try_from(id.0).ok().map(DeviceId::new);
    let labels: Vec<String> = outcome
        .routes
        .iter()
        .map(|route| {
            format!(
                "{} copies, {}, {}",
                quantity::count(route.copies),
                quantity::bytes(route.bytes),
                route.kind
            )
        })
        .collect();
    let highlights: Vec<Highlight<'_>> = outcome
        .routes
        .iter()
        .zip(&labels)
        .filter_map(|(route, label)| {
            let (from, to) = (device(route.from)?, device(route.to)?);
            Some(Highlight {
                from,
                to,
                hops: &route.links,
                label,
                weight: route.bytes,
            })
        })
        .collect();
    Topology {
        svg: piton_topology::svg(&outcome.machine, &highlights),
        caption: "The machine, and the links that copies between devices took.".to_owned(),
    }
}

fn pools(pools: &[PoolStats]) -> Table {
    let names = [
        "pool",
        "hits",
        "misses",
        "waits",
        "driver calls",
        "live",
        "held",
        "peak live",
        "peak held",
        "peak held / live",
    ];
    let row = |(index, pool): (usize, &PoolStats)| {
        vec![
            format!("device {index}"),
            quantity::count(pool.hits),
            quantity::count(pool.misses),
            quantity::count(pool.waits),
            quantity::count(pool.source_calls()),
            quantity::bytes(pool.live),
            quantity::bytes(pool.held),
            quantity::bytes(pool.peak_live),
            quantity::bytes(pool.peak_held),
            format!("{:.2}", share(pool.peak_held, pool.peak_live)),
        ]
    };
    table(
        "Device memory pools",
        "Hits were served from what the pool held; waits were handed out behind another stream's work.",
        &names,
        pools.iter().enumerate().map(row).collect(),
    )
}

fn pinned(pools: &[PinnedStats]) -> Table {
    let names = [
        "pool",
        "hits",
        "cut from slabs",
        "misses",
        "driver calls",
        "live",
        "pending",
        "held",
        "locked",
    ];
    let row = |(index, pool): (usize, &PinnedStats)| {
        vec![
            format!("device {index}"),
            quantity::count(pool.hits),
            quantity::count(pool.cuts),
            quantity::count(pool.misses),
            quantity::count(pool.driver_allocations + pool.driver_frees),
            quantity::bytes(pool.live_bytes),
            quantity::bytes(pool.pending_bytes),
            quantity::bytes(pool.held_bytes),
            quantity::bytes(pool.locked_bytes),
        ]
    };
    table(
        "Page-locked host memory pools",
        "",
        &names,
        pools.iter().enumerate().map(row).collect(),
    )
}

/// Classes of which a block was handed out.
fn pinned_classes(pools: &[PinnedParts]) -> Table {
    let names = [
        "pool",
        "block",
        "handed out",
        "live",
        "asked for, live",
        "kept by threads",
        "free for all",
    ];
    let mut rows = Vec::new();
    for (index, pool) in pools.iter().enumerate() {
        for class in pool.classes.iter().filter(|class| class.handed_out > 0) {
            let block = match class.block_bytes {
                0 => "exact".to_owned(),
                bytes => quantity::bytes(bytes),
            };
            rows.push(vec![
                format!("device {index}"),
                block,
                quantity::count(class.handed_out),
                quantity::count(class.live_blocks),
                quantity::bytes(class.requested_bytes),
                quantity::count(class.thread_blocks),
                quantity::count(class.depot_blocks),
            ]);
        }
    }
    table("Page-locked host memory by size class", "", &names, rows)
}

fn pinned_threads(pools: &[PinnedParts]) -> Table {
    let names = ["pool", "thread", "took", "dropped", "keeps", "bytes kept"];
    let mut rows = Vec::new();
    for (index, pool) in pools.iter().enumerate() {
        for (number, thread) in (1_u64..).zip(&pool.threads) {
            rows.push(vec![
                format!("device {index}"),
                quantity::count(number),
                quantity::count(thread.handed_out),
                quantity::count(thread.taken_back),
                quantity::count(thread.kept_blocks),
                quantity::bytes(thread.kept_bytes),
            ]);
        }
    }
    table(
        "Page-locked host memory by thread",
        "Threads that made calls and had not ended, the first one first. Any thread may drop what another took.",
        &names,
        rows,
    )
}

fn table(title: &str, note: &str, names: &[&str], rows: Vec<Vec<String>>) -> Table {
    let column = |(index, name): (usize, &&str)| {
        if index == 0 {
            Column::text(name)
        } else {
            Column::number(name)
        }
    };
    Table {
        title: title.to_owned(),
        note: note.to_owned(),
        columns: names.iter().enumerate().map(column).collect(),
        rows,
    }
}
