//! Which part of a run the timeline shows in full, and the form in which the page's script reads it.
//!
//! A run of minutes has millions of spans; a page that stays small can show some ten thousand. They are taken from
//! one *window* that begins and ends with a step, in the middle of the run where everything is warm. For the whole run
//! each lane has its *overview*: the share of time it was busy, in equal parts of the run.

use std::collections::BTreeMap;

use serde::Serialize;

use super::data::{Arrow, LaneTimeline, ReportData, Span, SpanKind};

/// Most spans in a page: at some 20 bytes each half a megabyte.
const MAX_SPANS: usize = 24_000;
/// Most spans that are worth looking at by default: a handful of steps.
const PREFERRED_SPANS: usize = 12_000;
/// Parts of the overview.
const OVERVIEW_PARTS: usize = 400;
/// Most arrows in a page.
const MAX_ARROWS: usize = 6_000;

/// What the script reads. Times are nanoseconds from the start of the run.
#[derive(Debug, Serialize)]
pub(super) struct Timeline<'a> {
    /// Length of the run.
    total: u64,
    /// Start and end of the part shown in full.
    window: (u64, u64),
    kinds: Vec<&'static str>,
    names: Vec<&'a str>,
    steps: Vec<(u64, u64)>,
    devices: Vec<DeviceView<'a>>,
    arrows: Vec<ArrowView>,
}

/// An arrow between rows, counted over all lanes of all devices: row and time it starts from, row and time it leads
/// to.
type ArrowView = (usize, u64, usize, u64);

#[derive(Debug, Serialize)]
struct DeviceView<'a> {
    name: &'a str,
    lanes: Vec<LaneView<'a>>,
}

#[derive(Debug, Serialize)]
struct LaneView<'a> {
    name: &'a str,
    /// Per cent of each part of the run in which the lane worked.
    busy: Vec<u8>,
    /// Start (from the start of the span before), length, kind, name, bytes.
    spans: Vec<(u64, u64, usize, usize, u64)>,
}

impl<'a> Timeline<'a> {
    /// `None` if nothing was recorded.
    pub(super) fn of(data: &'a ReportData) -> Option<Self> {
        let spans = || {
            data.devices
                .iter()
                .flat_map(|device| &device.lanes)
                .flat_map(|lane| &lane.spans)
        };
        let start = spans().map(|span| span.start_ns).min()?;
        let end = spans()
            .map(|span| span.end_ns)
            .max()?
            .max(start.saturating_add(1));
        let mut starts: Vec<u64> = spans().map(|span| span.start_ns).collect();
        starts.sort_unstable();
        let marks: Vec<u64> = data.steps.iter().map(|mark| mark.start_ns).collect();
        let window = window(&starts, &marks, end);
        let mut names = Names::default();
        let run = Run { start, end, window };
        let devices = data.devices.iter().map(|device| DeviceView {
            name: &device.name,
            lanes: device
                .lanes
                .iter()
                .map(|lane| run.lane(lane, &mut names))
                .collect(),
        });
        Some(Self {
            total: end - start,
            window: (window.0 - start, window.1 - start),
            devices: devices.collect(),
            arrows: run.arrows(data),
            kinds: SpanKind::ALL.iter().map(|kind| kind.label()).collect(),
            names: names.list,
            steps: run.steps(data),
        })
    }

    /// Does the window leave anything out?
    pub(super) fn is_partial(&self) -> bool {
        self.window != (0, self.total)
    }
}

struct Run {
    start: u64,
    end: u64,
    window: (u64, u64),
}

impl Run {
    fn lane<'a>(&self, lane: &'a LaneTimeline, names: &mut Names<'a>) -> LaneView<'a> {
        let mut shown: Vec<&Span> = lane
            .spans
            .iter()
            .filter(|span| self.is_shown(span))
            .collect();
        shown.sort_by_key(|span| (span.start_ns, span.end_ns));
        let mut before = self.start;
        let spans = shown.into_iter().map(|span| {
            let delta = span.start_ns - before;
            before = span.start_ns;
            let length = span.end_ns.saturating_sub(span.start_ns);
            (
                delta,
                length,
                kind_index(span.kind),
                names.index(&span.name),
                span.bytes,
            )
        });
        LaneView {
            name: &lane.name,
            spans: spans.collect(),
            busy: self.busy(&lane.spans),
        }
    }

    fn is_shown(&self, span: &Span) -> bool {
        (self.window.0..self.window.1).contains(&span.start_ns)
    }

    fn busy(&self, spans: &[Span]) -> Vec<u8> {
        let mut parts = vec![0_u64; OVERVIEW_PARTS];
        let length = (self.end - self.start)
            .div_ceil(OVERVIEW_PARTS as u64)
            .max(1);
        for span in spans.iter().filter(|span| span.kind != SpanKind::Wait) {
            let (mut from, to) = (
                span.start_ns - self.start,
                span.end_ns.saturating_sub(self.start),
            );
            while from < to {
                let part = from / length;
                let until = to.min((part + 1) * length);
                if let Some(busy) = usize::try_from(part)
                    .ok()
                    .and_then(|part| parts.get_mut(part))
                {
                    *busy += until - from;
                }
                from = until;
            }
        }
        let percent = |busy: u64| {
            u8::try_from(busy.saturating_mul(100).div_ceil(length).min(100)).unwrap_or(100)
        };
        parts.into_iter().map(percent).collect()
    }

    /// Arrows whose waits were over within the window, while there are not too many.
    fn arrows(&self, data: &ReportData) -> Vec<ArrowView> {
        let mut first_rows = Vec::with_capacity(data.devices.len());
        let mut row = 0;
        for device in &data.devices {
            first_rows.push(row);
            row += device.lanes.len();
        }
        let row = |(device, lane): (usize, usize)| Some(first_rows.get(device)? + lane);
        let view = |arrow: &Arrow| {
            let (from_ns, to_ns) = (arrow.from_ns - self.start, arrow.to_ns - self.start);
            Some((row(arrow.from)?, from_ns, row(arrow.to)?, to_ns))
        };
        let is_shown = |arrow: &&Arrow| {
            (self.window.0..self.window.1).contains(&arrow.to_ns) && arrow.from_ns >= self.start
        };
        let shown = data.arrows.iter().filter(is_shown).filter_map(view);
        shown.take(MAX_ARROWS).collect()
    }

    fn steps(&self, data: &ReportData) -> Vec<(u64, u64)> {
        let shown = data
            .steps
            .iter()
            .filter(|mark| (self.window.0..self.window.1).contains(&mark.start_ns));
        shown
            .map(|mark| (mark.start_ns - self.start, mark.step))
            .collect()
    }
}

fn kind_index(kind: SpanKind) -> usize {
    SpanKind::ALL
        .iter()
        .position(|other| *other == kind)
        .unwrap_or_default()
}

/// Names by number, each once.
#[derive(Default)]
struct Names<'a> {
    list: Vec<&'a str>,
    places: BTreeMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    fn index(&mut self, name: &'a str) -> usize {
        *self.places.entry(name).or_insert_with(|| {
            self.list.push(name);
            self.list.len() - 1
        })
    }
}

/// The part to show in full, of a run whose spans begin at `starts` (sorted, not empty) and which is over at `end`.
///
/// All of it if it is small enough; otherwise as many steps, from the middle on, as make up a good number of spans;
/// without steps, or if one step is too much already, as many spans as can be shown.
fn window(starts: &[u64], marks: &[u64], end: u64) -> (u64, u64) {
    let first = starts[0];
    if starts.len() <= PREFERRED_SPANS {
        return (first, end);
    }
    let middle = marks
        .get(marks.len() / 2)
        .copied()
        .unwrap_or(starts[starts.len() / 2])
        .max(first);
    let from = starts.partition_point(|start| *start < middle);
    let count_until = |until: u64| {
        starts
            .partition_point(|start| *start < until)
            .saturating_sub(from)
    };
    let later_marks = marks
        .iter()
        .copied()
        .filter(|mark| *mark > middle)
        .chain([end]);
    let (mut last, mut most) = (None, MAX_SPANS);
    for mark in later_marks {
        if count_until(mark) > most {
            break;
        }
        last = Some(mark);
        most = PREFERRED_SPANS;
    }
    let cut = starts.get(from + MAX_SPANS).copied().unwrap_or(end);
    (middle, last.unwrap_or(cut).max(middle + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of steps, each with so many spans one nanosecond apart.
    fn steps(count: u64, spans_each: u64) -> (Vec<u64>, Vec<u64>, u64) {
        let end = count * spans_each;
        (
            (0..end).collect(),
            (0..count).map(|step| step * spans_each).collect(),
            end,
        )
    }

    #[test]
    fn short_runs_are_shown_whole() {
        let (starts, marks, end) = steps(10, 100);
        assert_eq!(window(&starts, &marks, end), (0, end));
    }

    #[test]
    fn long_runs_show_whole_steps_from_the_middle() {
        let (starts, marks, end) = steps(100, 1000);
        assert_eq!(window(&starts, &marks, end), (50_000, 62_000));
    }

    #[test]
    fn one_huge_step_is_cut() {
        let (starts, marks, end) = steps(2, 100_000);
        assert_eq!(
            window(&starts, &marks, end),
            (100_000, 100_000 + MAX_SPANS as u64)
        );
        assert_eq!(
            window(&starts, &[], end),
            (100_000, 100_000 + MAX_SPANS as u64)
        );
    }

    #[test]
    fn busy_time_is_spread_over_the_parts_it_covers() {
        let end = OVERVIEW_PARTS as u64 * 10;
        let run = Run {
            start: 0,
            end,
            window: (0, end),
        };
        let span = |start_ns, end_ns, kind| Span {
            start_ns,
            end_ns,
            kind,
            name: String::new(),
            bytes: 0,
        };
        let busy = run.busy(&[
            span(5, 25, SpanKind::Kernel),
            span(30, 40, SpanKind::Wait),
            span(end - 1, end, SpanKind::Fill),
        ]);
        assert_eq!(busy[..5], [50, 100, 50, 0, 0]);
        assert_eq!(busy.last(), Some(&10));
    }
}
