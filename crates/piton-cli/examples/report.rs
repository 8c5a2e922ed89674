//! Writes a report of an invented run, to look at the page without running anything.
//!
//! `cargo run --example report -- report.html`

use piton_cli::report::{
    AddressUse, AddressView, Arrow, Check, Column, DeviceTimeline, Fact, LaneTimeline,
    MemorySample, MemoryView, ReportData, RouteRow, Span, SpanKind, StepMark, Table, TimeAxis,
    Topology, TrainingPoint, render,
};

const STEPS: u64 = 200;
const STEP_NS: u64 = 1_900_000;

fn main() -> std::io::Result<()> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "piton-report.html".to_owned());
    std::fs::write(path, render(&invented()))
}

fn invented() -> ReportData {
    let fact = |label: &str, value: &str, note: &str| Fact {
        label: label.to_owned(),
        value: value.to_owned(),
        note: note.to_owned(),
    };
    ReportData {
        title: "An invented run".to_owned(),
        subtitle:
            "Made-up numbers that show what a report of four devices and 200 steps looks like."
                .to_owned(),
        facts: vec![
            fact("accuracy", "96.7 %", "on 360 held-back images"),
            fact("time per step", "1.90 ms", "median of 200"),
            fact("launches", "36\u{202f}000", "45 a device and step"),
            fact("bytes moved", "312 MiB", "over 3 kinds of route"),
            fact("pool hits", "99.8 %", "118 misses"),
            fact("peak held / live", "1.04", "2.1 MiB held"),
        ],
        checks: vec![
            Check {
                name: "parameters match the reference training".to_owned(),
                has_passed: true,
                detail: "largest difference 3.1e-7, tolerance 8.4e-6".to_owned(),
            },
            Check {
                name: "an invented check that fails".to_owned(),
                has_passed: false,
                detail: "0.93 where at least 0.95 was expected, <b>and this is not bold</b>"
                    .to_owned(),
            },
        ],
        training: training(),
        devices: (0..4).map(device).collect(),
        arrows: (0..STEPS).flat_map(arrows).collect(),
        steps: (0..STEPS)
            .map(|step| StepMark {
                start_ns: step * STEP_NS,
                step,
            })
            .collect(),
        memory: (0..4).map(memory).collect(),
        addresses: vec![addresses()],
        topology: Some(Topology {
            svg: square(),
            caption: "Four devices in a ring.".to_owned(),
        }),
        routes: routes(),
        tables: vec![pools()],
    }
}

/// Weights at the bottom, above them what each step takes and gives back.
fn addresses() -> AddressView {
    let cell = |column: usize, row: usize| match (column % 32, row) {
        (_, 0..12) => AddressUse::Live,
        (at, row) if row < 12 + at => AddressUse::Live,
        (at, row) if row < 14 + at => AddressUse::Pending,
        _ if column > 32 => AddressUse::Hole,
        _ => AddressUse::Unbacked,
    };
    let column = |column| (0..48).map(|row| cell(column, row)).collect();
    AddressView {
        title: "device 0".to_owned(),
        events: (0, 9000),
        bytes: 48 << 21,
        columns: (0..128).map(column).collect(),
    }
}

fn training() -> Vec<TrainingPoint> {
    let at = |step: u64| f64::from(u32::try_from(step).unwrap_or(u32::MAX));
    let loss = |step| 2.3 * (-at(step) / 40.0).exp() + 0.08 + 0.05 * (at(step) * 1.7).sin().abs();
    let accuracy = |step: u64| {
        step.is_multiple_of(10)
            .then(|| 0.97 - 0.87 * (-at(step) / 25.0).exp())
    };
    (0..STEPS)
        .map(|step| TrainingPoint {
            step,
            loss: loss(step),
            accuracy: accuracy(step),
        })
        .collect()
}

fn device(index: u64) -> DeviceTimeline {
    let mut compute = Vec::new();
    let mut copies = Vec::new();
    for step in 0..STEPS {
        let mut now = step * STEP_NS + index * 15_000;
        let mut push = |lane: &mut Vec<Span>, kind, name: &str, length, bytes| {
            lane.push(Span {
                start_ns: now,
                end_ns: now + length,
                kind,
                name: name.to_owned(),
                bytes,
            });
            now += length + 2_000;
        };
        push(&mut copies, SpanKind::CopyToDevice, "images", 40_000, 8192);
        push(&mut compute, SpanKind::Wait, "wait for images", 8_000, 0);
        for name in [
            "matmul 64x64",
            "bias tanh",
            "matmul 64x32",
            "bias tanh",
            "matmul 32x10",
            "softmax loss",
        ] {
            push(
                &mut compute,
                SpanKind::Kernel,
                name,
                60_000 + (step * 7919 + index * 131) % 30_000,
                0,
            );
        }
        for name in [
            "gradient of scores",
            "gradient of layer 2",
            "gradient of layer 1",
        ] {
            push(&mut compute, SpanKind::Kernel, name, 120_000, 0);
        }
        for round in 0..6 {
            push(
                &mut copies,
                SpanKind::CopyPeer,
                &format!("ring round {round}"),
                50_000,
                6570,
            );
            push(&mut compute, SpanKind::Kernel, "add", 15_000, 0);
        }
        push(&mut compute, SpanKind::Kernel, "update", 70_000, 0);
        push(&mut copies, SpanKind::CopyToHost, "loss", 4_000, 4);
    }
    let lane = |name: &str, spans| LaneTimeline {
        name: name.to_owned(),
        spans,
    };
    DeviceTimeline {
        name: format!("device {index}"),
        lanes: vec![lane("compute", compute), lane("copies", copies)],
    }
}

/// Each device's kernels wait for its images, and for its neighbour's.
fn arrows(step: u64) -> Vec<Arrow> {
    let sent = |index: u64| step * STEP_NS + index * 15_000 + 40_000;
    let place = |index: u64| usize::try_from(index).unwrap_or_default();
    let arrow = |index: u64, from: u64| Arrow {
        from: (place(from), 1),
        from_ns: sent(from),
        to: (place(index), 0),
        to_ns: sent(index) + 10_000,
    };
    let both = |index| [arrow(index, index), arrow(index, (index + 1) % 4)];
    (0..4).flat_map(both).collect()
}

fn memory(index: u64) -> MemoryView {
    let sample = |n: u64| {
        let live = 600_000 + (n * 37 % 11) * 90_000 + index * 10_000;
        let held = if n < 40 { 1 << 20 } else { 2 << 20 };
        MemorySample {
            at: n * STEP_NS / 5,
            live,
            held,
        }
    };
    MemoryView {
        title: format!("device {index}"),
        axis: TimeAxis::Nanoseconds,
        samples: (0..STEPS * 5).map(sample).collect(),
        others: Vec::new(),
    }
}

fn square() -> String {
    "<svg viewBox=\"0 0 300 120\" width=\"300\"><g fill=\"none\" stroke=\"currentColor\">\
     <rect x=\"10\" y=\"10\" width=\"80\" height=\"30\"/><rect x=\"200\" y=\"10\" width=\"80\" height=\"30\"/>\
     <path d=\"M90 25H200\"/></g></svg>"
        .to_owned()
}

fn routes() -> Vec<RouteRow> {
    let row = |from: u32, to: u32| RouteRow {
        from: format!("device {from}"),
        to: format!("device {to}"),
        route: "direct, 48 GB/s".to_owned(),
        copies: 1200,
        bytes: 7_884_000,
    };
    vec![row(0, 1), row(1, 2), row(2, 3), row(3, 0)]
}

fn pools() -> Table {
    let row = |n: u32| {
        vec![
            format!("device {n}"),
            "12 004".to_owned(),
            "28".to_owned(),
            "2.00 MiB".to_owned(),
        ]
    };
    Table {
        title: "Memory pools".to_owned(),
        note: "Hits were served without a call to the driver.".to_owned(),
        columns: vec![
            Column::text("pool"),
            Column::number("hits"),
            Column::number("misses"),
            Column::number("peak held"),
        ],
        rows: (0..4).map(row).collect(),
    }
}
