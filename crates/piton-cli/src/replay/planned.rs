//! What hindsight makes of a trace: planned as a whole from its recorded lifetimes, and step by step.
//!
//! No pool and no device take part: the figures are those of offsets. A step begins with what is live then, as if a fresh
//! program first asked for that, and goes on with its own events; it is recorded, planned, and played again through a
//! cursor, which has to serve all of it. The step after is played through the same plan as well, and what departs there is
//! counted.
//!
//! Where steps begin is said by the file beside the trace, `NAME.json`, under `steps`: numbers of events from 0. A trace
//! without one is one step.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, LineStyle, Table};
use piton_plan::{Answer, PlaceConfig, PlaceError, Plan, PlanCursor, RecordError, Recorder};
use serde::Serialize;

use crate::quantity;
use crate::trace::{CheckedEvent, TraceError, TraceEvent, TraceReader};

/// Why a trace was not planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlannedError {
    /// The trace is wrong or cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A step cannot be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A step cannot be planned.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A step met by its own plan departed from it: a defect of the plan or of the cursor.
    #[error("step {step}: {departed} requests departed from the step's own plan")]
    Departed {
        /// The step, from 0.
        step: usize,
        /// Requests that did.
        departed: u64,
    },
}

/// Hindsight on one trace. Sizes are bytes.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedTrace {
    /// The trace's file.
    pub trace: String,
    /// The trace as a whole.
    pub whole: PlannedStep,
    /// Its steps; none if nothing says where they begin.
    pub steps: Vec<PlannedStep>,
}

/// Hindsight on a trace or a step.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PlannedStep {
    /// Requests, those of what was live at its start included.
    pub requests: usize,
    /// Most bytes live at once, as requested.
    pub peak_live: u64,
    /// Bytes that the plan takes up.
    pub height: u64,
    /// Height over peak live.
    pub ratio: f64,
    /// Seconds that planning took.
    pub seconds: f64,
    /// Nanoseconds for a request or a free of the step served from its plan.
    pub ns_per_operation: f64,
    /// Share of the next step's requests that depart from this one's plan.
    pub next_departs: Option<f64>,
}

/// Plans a trace as a whole and step by step.
///
/// # Errors
/// [`PlannedError`].
pub fn plan_file(path: &Path) -> Result<PlannedTrace, PlannedError> {
    let events: Vec<CheckedEvent> = TraceReader::open(path)?.collect::<Result<_, _>>()?;
    let steps = windows(&events, &step_starts(path));
    let whole = Window {
        carried: Vec::new(),
        events: &events,
    };
    let name = path.file_name().unwrap_or(path.as_os_str());
    Ok(PlannedTrace {
        trace: name.to_string_lossy().into_owned(),
        whole: whole.plan(0, None)?,
        steps: (0..steps.len())
            .map(|step| steps[step].plan(step, steps.get(step + 1)))
            .collect::<Result<_, _>>()?,
    })
}

fn step_starts(path: &Path) -> Vec<usize> {
    let Some(name) = path.to_str() else {
        return Vec::new();
    };
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let name = name.strip_suffix(".csv").unwrap_or(name);
    let text = std::fs::read(format!("{name}.json")).unwrap_or_default();
    let description: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let starts = description.get("steps").and_then(|steps| steps.as_array());
    let starts = starts
        .into_iter()
        .flatten()
        .filter_map(serde_json::Value::as_u64);
    starts
        .filter_map(|start| usize::try_from(start).ok())
        .collect()
}

/// A part of a trace, and what is live when it begins.
struct Window<'a> {
    carried: Vec<CheckedEvent>,
    events: &'a [CheckedEvent],
}

/// The windows that begin at these events, each up to the next.
fn windows<'a>(events: &'a [CheckedEvent], starts: &[usize]) -> Vec<Window<'a>> {
    let mut windows = Vec::with_capacity(starts.len());
    let mut live: Vec<Option<CheckedEvent>> = Vec::new();
    let mut seen = 0;
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(events.len());
        let Some(part) = events.get(start..end).filter(|_| start >= seen) else {
            return windows;
        };
        events[seen..start]
            .iter()
            .for_each(|event| note(&mut live, *event));
        seen = start;
        windows.push(Window {
            carried: live.iter().flatten().copied().collect(),
            events: part,
        });
    }
    windows
}

fn note(live: &mut Vec<Option<CheckedEvent>>, event: CheckedEvent) {
    if live.len() <= event.slot {
        live.resize(event.slot + 1, None);
    }
    match event.event {
        TraceEvent::Allocate { .. } => live[event.slot] = Some(event),
        TraceEvent::Free { .. } => live[event.slot] = None,
        TraceEvent::Use { .. } => {}
    }
}

impl Window<'_> {
    fn all(&self) -> impl Iterator<Item = &CheckedEvent> {
        self.carried.iter().chain(self.events)
    }

    fn plan(&self, step: usize, next: Option<&Self>) -> Result<PlannedStep, PlannedError> {
        let (recorder, peak_live) = self.record()?;
        let started = Instant::now();
        let plan = Arc::new(recorder.plan(&PlaceConfig::default())?);
        let seconds = started.elapsed().as_secs_f64();
        let own = self.follow(&plan);
        if own.departed > 0 {
            return Err(PlannedError::Departed {
                step,
                departed: own.departed,
            });
        }
        let next_departs = next.map(|next| {
            let other = next.follow(&plan);
            share(other.departed, other.requests)
        });
        Ok(PlannedStep {
            requests: recorder.len(),
            peak_live,
            height: plan.height(),
            ratio: share(plan.height(), peak_live),
            seconds,
            ns_per_operation: own.nanoseconds,
            next_departs,
        })
    }

    /// The step as a recorder hears it, what it leaves freed at its end, and the peak of its live bytes.
    fn record(&self) -> Result<(Recorder, u64), RecordError> {
        let mut recorder = Recorder::default();
        let mut numbers: Vec<Option<u32>> = Vec::new();
        let (mut live, mut peak) = (0_u64, 0);
        for event in self.all() {
            if numbers.len() <= event.slot {
                numbers.resize(event.slot + 1, None);
            }
            match event.event {
                TraceEvent::Allocate { bytes, stream, .. } => {
                    numbers[event.slot] = recorder.request(bytes, stream.into())?;
                    live += bytes;
                    peak = peak.max(live);
                }
                TraceEvent::Free { .. } => {
                    live -= event.bytes;
                    if let Some(number) = numbers[event.slot].take() {
                        recorder.free(number)?;
                    }
                }
                TraceEvent::Use { .. } => {}
            }
        }
        recorder.end_step();
        for number in numbers.into_iter().flatten() {
            recorder.free(number)?;
        }
        Ok((recorder, peak))
    }

    /// Plays the step through a plan.
    #[expect(clippy::cast_precision_loss, reason = "a mean of three digits")]
    fn follow(&self, plan: &Arc<Plan>) -> Followed {
        let slots = self.all().map(|event| event.slot + 1).max().unwrap_or(0);
        let mut numbers: Vec<Option<u32>> = vec![None; slots];
        let mut cursor = PlanCursor::new(Arc::clone(plan));
        let mut operations = 0_u64;
        let started = Instant::now();
        for event in self.all() {
            match event.event {
                TraceEvent::Allocate { bytes, stream, .. } => {
                    operations += 1;
                    numbers[event.slot] = match cursor.next(bytes, stream.into()) {
                        Answer::Planned { request, .. } => Some(request),
                        Answer::Departed(_) => None,
                    };
                }
                TraceEvent::Free { .. } => {
                    operations += 1;
                    if let Some(number) = numbers[event.slot].take() {
                        let _was_live = cursor.free(number);
                    }
                }
                TraceEvent::Use { .. } => {}
            }
        }
        Followed {
            nanoseconds: started.elapsed().as_secs_f64() * 1e9 / operations.max(1) as f64,
            requests: cursor.served() + cursor.departed(),
            departed: cursor.departed(),
        }
    }
}

struct Followed {
    nanoseconds: f64,
    requests: u64,
    departed: u64,
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of a few digits")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// All traces as a table.
#[must_use]
pub fn table(traces: &[PlannedTrace]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    table.set_header([
        "trace",
        "requests",
        "peak live",
        "planned / live",
        "seconds",
        "ns per op",
        "steps",
        "step, worst",
        "next step departs",
    ]);
    for trace in traces {
        table.add_row(row(trace));
    }
    if traces.len() > 1 {
        let mean = geometric_mean(traces.iter().map(|trace| trace.whole.ratio));
        let steps = geometric_mean(traces.iter().filter_map(|trace| worst(&trace.steps)));
        let mut row = vec![String::new(); 9];
        row[0] = "geometric mean".to_owned();
        row[3] = format!("{mean:.5}");
        row[7] = format!("{steps:.5}");
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn row(trace: &PlannedTrace) -> Vec<String> {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let departs = trace.steps.iter().filter_map(|step| step.next_departs);
    let departs = departs.max_by(f64::total_cmp);
    vec![
        trace.trace.clone(),
        quantity::count(trace.whole.requests as u64),
        quantity::bytes(trace.whole.peak_live),
        format!("{:.5}", trace.whole.ratio),
        format!("{:.2}", trace.whole.seconds),
        format!("{:.0}", trace.whole.ns_per_operation),
        trace.steps.len().to_string(),
        or_dash(worst(&trace.steps).map(|ratio| format!("{ratio:.5}"))),
        or_dash(departs.map(|share| format!("{:.0} %", 100.0 * share))),
    ]
}

fn worst(steps: &[PlannedStep]) -> Option<f64> {
    steps.iter().map(|step| step.ratio).max_by(f64::total_cmp)
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| {
        (sum + value.ln(), count + 1)
    });
    (sum / f64::from(count.max(1))).exp()
}
