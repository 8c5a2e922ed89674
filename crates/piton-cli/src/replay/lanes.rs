//! The streams of a trace as lanes, whose work completes a fixed number of events later.

use std::collections::VecDeque;
use std::sync::Arc;

use piton_timeline::{Frontier, Lane, LaneId, Timeline, TimelineError, Timepoint};

/// A lane per stream, made when the stream first appears.
#[derive(Debug)]
pub(super) struct Lanes {
    timeline: Arc<Timeline>,
    streams: Vec<Option<Stream>>,
    /// Work under way, oldest first: stream and number.
    under_way: VecDeque<(u16, u64)>,
    lag: usize,
}

#[derive(Debug)]
struct Stream {
    lane: Lane,
    submitted: u64,
}

impl Lanes {
    pub(super) fn new(timeline: Arc<Timeline>, lag: usize) -> Self {
        Self {
            timeline,
            streams: Vec::new(),
            under_way: VecDeque::new(),
            lag,
        }
    }

    /// The lane of a stream.
    pub(super) fn lane(&mut self, stream: u16) -> Result<LaneId, TimelineError> {
        Ok(self.stream(stream)?.lane.id())
    }

    /// One more piece of work on the stream; the oldest work of all completes if it is its turn. Returns stream and
    /// number of what is now complete, with all before it on that stream.
    pub(super) fn work(&mut self, stream: u16) -> Result<Option<(u16, u64)>, TimelineError> {
        let entry = self.stream(stream)?;
        entry.submitted += 1;
        let number = entry.submitted;
        entry.lane.submit(number);
        self.under_way.push_back((stream, number));
        let is_due = self.under_way.len() > self.lag;
        let completed = if is_due {
            self.under_way.pop_front()
        } else {
            None
        };
        if let Some((stream, number)) = completed
            && let Some(Some(entry)) = self.streams.get(usize::from(stream))
        {
            entry.lane.complete(number);
        }
        Ok(completed)
    }

    /// The end of all work so far on the streams. Streams without work have none.
    pub(super) fn now(&self, streams: impl Iterator<Item = u16>) -> Frontier {
        let lanes = streams.filter_map(|stream| self.streams.get(usize::from(stream))?.as_ref());
        lanes.map(|stream| stream.lane.now()).collect()
    }

    /// Makes lanes for so many streams, in their order, so that a lane's slot is its stream's number.
    pub(super) fn prepare(&mut self, streams: u16) -> Result<(), TimelineError> {
        (0..streams).try_for_each(|stream| self.stream(stream).map(drop))
    }

    /// A point as stream and number of work.
    pub(super) fn stream_of(&self, point: Timepoint) -> Option<(u16, u64)> {
        let is_its = |stream: &Option<Stream>| {
            stream
                .as_ref()
                .is_some_and(|stream| stream.lane.id() == point.lane)
        };
        let index = self.streams.iter().position(is_its)?;
        let base = self.streams[index].as_ref()?.lane.base();
        Some((u16::try_from(index).ok()?, point.seq.saturating_sub(base)))
    }

    fn stream(&mut self, stream: u16) -> Result<&mut Stream, TimelineError> {
        let index = usize::from(stream);
        if index >= self.streams.len() {
            self.streams.resize_with(index + 1, || None);
        }
        match &mut self.streams[index] {
            Some(entry) => Ok(entry),
            vacant => Ok(vacant.insert(Stream {
                lane: self.timeline.register(None)?,
                submitted: 0,
            })),
        }
    }
}
