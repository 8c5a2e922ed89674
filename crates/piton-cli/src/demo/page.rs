//! A demonstration as the data of a report.

mod tables;

use std::collections::{BTreeMap, BTreeSet};

use piton::{DeviceTrace, ExecutionRecord, Operation, PoolStats, RouteUse};
use piton_driver::QueueId;
use piton_topology::{DeviceId, Highlight};
use piton_trace::Place;

use crate::quantity;
use crate::report::{
    Arrow, DeviceTimeline, Fact, LaneTimeline, MemorySample, MemoryView, ReportData, RouteRow,
    Span, SpanKind, StepMark, TimeAxis, Topology,
};

use super::outcome::{Outcome, device_name};

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
        tables: tables::of(outcome),
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
