//! What hindsight makes of a trace: planned as a whole from its recorded lifetimes, and step by step.
//!
//! Figures of offsets, with no pool and no device; and then of the pool that serves the same from its plan ([`served`]),
//! counted by the device. A step begins with what is live then, as if a fresh
//! program first asked for that, and goes on with its own events; it is recorded, planned, and played again through a
//! cursor, which has to serve all of it. The step after is played through the same plan as well, and what departs there is
//! counted.
//!
//! Where steps begin is said by the file beside the trace, `NAME.json`, under `steps`: numbers of events from 0. A trace
//! without one is one step.

mod served;
mod table;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use piton_plan::{Answer, PlaceConfig, PlaceError, Plan, PlanCursor, RecordError, Recorder};
use serde::Serialize;

use super::ReplayError;
use super::description::Description;
use crate::trace::{CheckedEvent, TraceError, TraceEvent, TraceReader};

pub use table::table;

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
    /// The pool could not play it.
    #[error("the pool could not play it")]
    Replay(#[from] Box<ReplayError>),
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
    /// Where a step meets the plan of the one before in the pool, what is held over what the pool holds without a plan; the worst.
    pub other_step: Option<f64>,
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
    /// Most bytes that the device has given away when the pool serves it from its plan, on an empty device.
    pub held: u64,
    /// Held over peak live.
    pub held_ratio: f64,
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
    let events = TraceReader::read_all(path)?;
    let starts = Description::beside(path).steps;
    let steps = windows(&events, &starts);
    let whole = Window {
        carried: Vec::new(),
        events: &events,
    };
    let name = path.file_name().unwrap_or(path.as_os_str());
    let streams = 1 + events
        .iter()
        .map(|event| event.event.stream())
        .max()
        .unwrap_or(0);
    Ok(PlannedTrace {
        other_step: served::worst_other_step(&events, &starts, streams)?,
        trace: name.to_string_lossy().into_owned(),
        whole: whole.plan(0, None, streams)?,
        steps: (0..steps.len())
            .map(|step| steps[step].plan(step, steps.get(step + 1), streams))
            .collect::<Result<_, _>>()?,
    })
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

    fn plan(
        &self,
        step: usize,
        next: Option<&Self>,
        streams: u16,
    ) -> Result<PlannedStep, PlannedError> {
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
        let held = served::held(self.all(), &plan, streams)?;
        Ok(PlannedStep {
            held,
            held_ratio: share(held, peak_live),
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
