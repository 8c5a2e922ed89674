//! The page as a whole: it stays small, and no text can leave its place.

use piton_cli::report::{
    Arrow, Check, Column, DeviceTimeline, Fact, LaneTimeline, MAX_BYTES, MemorySample, MemoryView,
    ReportData, RouteRow, Span, SpanKind, StepMark, Table, TimeAxis, TrainingPoint, render,
};

#[test]
fn an_empty_report_is_a_page() {
    let page = render(&ReportData::default());
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(!page.contains("<section>"));
}

#[test]
fn nothing_is_fetched() {
    let page = render(&ReportData::default());
    for word in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn a_long_run_stays_small() {
    let span = |n: u64| Span {
        start_ns: n * 1000,
        end_ns: n * 1000 + 900,
        kind: SpanKind::Kernel,
        name: format!("kernel {}", n % 50),
        bytes: n,
    };
    let lane = || LaneTimeline {
        name: "compute".to_owned(),
        spans: (0..40_000).map(span).collect(),
    };
    let device = |n| DeviceTimeline {
        name: format!("device {n}"),
        lanes: (0..3).map(|_| lane()).collect(),
    };
    let view = |n| MemoryView {
        title: format!("device {n}"),
        axis: TimeAxis::Nanoseconds,
        samples: (0..100_000)
            .map(|at| MemorySample {
                at,
                live: at,
                held: 100_000,
            })
            .collect(),
        others: Vec::new(),
    };
    let data = ReportData {
        devices: (0..16).map(device).collect(),
        memory: (0..16).map(view).collect(),
        steps: (0..100)
            .map(|step| StepMark {
                start_ns: step * 400_000,
                step,
            })
            .collect(),
        training: (0..100_000)
            .map(|step| TrainingPoint {
                step,
                loss: 1.0,
                accuracy: Some(0.5),
            })
            .collect(),
        ..ReportData::default()
    };
    assert!(render(&data).len() < MAX_BYTES);
}

#[test]
fn hostile_names_stay_text() {
    let evil = "</script><script>alert(1)</script>\"'&".to_owned();
    let span = Span {
        start_ns: 0,
        end_ns: 5,
        kind: SpanKind::Fill,
        name: evil.clone(),
        bytes: 0,
    };
    let lane = LaneTimeline {
        name: evil.clone(),
        spans: vec![span],
    };
    let sample = |at| MemorySample {
        at,
        live: 1,
        held: 2,
    };
    let data = ReportData {
        title: evil.clone(),
        subtitle: evil.clone(),
        facts: vec![Fact {
            label: evil.clone(),
            value: evil.clone(),
            note: evil.clone(),
        }],
        checks: vec![Check {
            name: evil.clone(),
            has_passed: false,
            detail: evil.clone(),
        }],
        devices: vec![DeviceTimeline {
            name: evil.clone(),
            lanes: vec![lane],
        }],
        memory: vec![MemoryView {
            title: evil.clone(),
            samples: vec![sample(0), sample(9)],
            ..MemoryView::default()
        }],
        routes: vec![RouteRow {
            from: evil.clone(),
            to: evil.clone(),
            route: evil.clone(),
            copies: 1,
            bytes: 1,
        }],
        tables: vec![Table {
            title: evil.clone(),
            note: evil.clone(),
            columns: vec![Column::text(&evil)],
            rows: vec![vec![evil]],
        }],
        ..ReportData::default()
    };
    assert!(!render(&data).contains("alert(1)</script>"));
    assert!(!render(&data).contains("<script>alert"));
}

#[test]
fn spans_that_end_before_they_begin_do_no_harm() {
    let span = Span {
        start_ns: 9,
        end_ns: 5,
        kind: SpanKind::Wait,
        name: "odd".to_owned(),
        bytes: 0,
    };
    let far = Span {
        start_ns: u64::MAX - 1,
        end_ns: u64::MAX,
        ..span.clone()
    };
    let lane = LaneTimeline {
        name: "lane".to_owned(),
        spans: vec![far, span],
    };
    let device = DeviceTimeline {
        name: "device".to_owned(),
        lanes: vec![lane],
    };
    assert!(
        render(&ReportData {
            devices: vec![device],
            ..ReportData::default()
        })
        .contains("timeline-data")
    );
}

#[test]
fn arrows_name_rows_and_those_to_nowhere_are_left_out() {
    let lane = |start_ns| LaneTimeline {
        name: "lane".to_owned(),
        spans: vec![Span {
            start_ns,
            end_ns: start_ns + 100,
            kind: SpanKind::Wait,
            name: "wait".to_owned(),
            bytes: 0,
        }],
    };
    let device = |start_ns| DeviceTimeline {
        name: "device".to_owned(),
        lanes: vec![lane(start_ns), lane(start_ns + 50)],
    };
    let arrow = |from, from_ns, to, to_ns| Arrow {
        from,
        from_ns,
        to,
        to_ns,
    };
    let data = ReportData {
        devices: vec![device(1000), device(1100)],
        arrows: vec![
            arrow((0, 1), 1050, (1, 0), 1200),
            arrow((7, 0), 1050, (1, 0), 1200),
            arrow((0, 0), 3, (1, 0), 1200),
            arrow((0, 0), 1050, (1, 0), u64::MAX),
        ],
        ..ReportData::default()
    };
    assert!(render(&data).contains("\"arrows\":[[1,50,2,200]]"));
}
