//! Listens to one step of a program and makes a plan of it.
//!
//! Time is the number of requests made. A block freed within the step has both its times then. One that outlives the step
//! is *carried over*: recording goes on into the next step, in which only deaths count, so that its death there is known too.
//! What is still live when recording ends, or dies later in the next step than it was born, has no place that would be
//! free again a step later; it stays in the plan without an offset.

use crate::block::Block;
use crate::error::{PlaceError, RecordError};
use crate::pieces::Pieces;
use crate::place::{MAX_BLOCKS, PlaceConfig, place};
use crate::plan::{Expected, Plan};

/// Records one step of a program.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    requests: Vec<Request>,
    /// Requests of the step after the one recorded; nothing while that goes on.
    next_step: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    bytes: u64,
    stream: u32,
    death: Death,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    /// Live as far as is known.
    Unknown,
    /// Before so many requests, of its own step or, if that is not more than came before it, of the next.
    At(u64),
    /// In the next step, when its own request was made again already.
    TooLate,
}

impl Recorder {
    /// Notes a request of `bytes` bytes for a stream. Returns its number in the step, by which it is freed. Returns
    /// `None` in the step after, whose requests are counted but not recorded.
    ///
    /// # Errors
    /// [`RecordError::NoBytes`], [`RecordError::TooManyRequests`]; nothing is noted then.
    pub fn request(&mut self, bytes: u64, stream: u32) -> Result<Option<u32>, RecordError> {
        if bytes == 0 {
            return Err(RecordError::NoBytes);
        }
        if let Some(count) = &mut self.next_step {
            *count = count.saturating_add(1);
            return Ok(None);
        }
        let number = u32::try_from(self.requests.len()).ok();
        let number = number.filter(|_| self.requests.len() < MAX_BLOCKS);
        let number = number.ok_or(RecordError::TooManyRequests { limit: MAX_BLOCKS })?;
        self.requests.push(Request {
            bytes,
            stream,
            death: Death::Unknown,
        });
        Ok(Some(number))
    }

    /// Notes that a request's block was freed, in the step or in the one after.
    ///
    /// # Errors
    /// [`RecordError::UnknownRequest`] if there is none of this number, or it was freed before.
    pub fn free(&mut self, request: u32) -> Result<(), RecordError> {
        let now = self.next_step.unwrap_or(self.requests.len() as u64);
        let freed = self.requests.get_mut(request as usize);
        let freed = freed.filter(|freed| freed.death == Death::Unknown);
        let freed = freed.ok_or(RecordError::UnknownRequest { request })?;
        // In the next step a death that is not before its own birth would be one round late.
        let is_in_time = self.next_step.is_none() || now <= u64::from(request);
        freed.death = if is_in_time {
            Death::At(now)
        } else {
            Death::TooLate
        };
        Ok(())
    }

    /// Ends the step; the next one begins. Further calls change nothing.
    pub fn end_step(&mut self) {
        self.next_step.get_or_insert(0);
    }

    /// The number of requests recorded.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether nothing is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Places what was recorded.
    ///
    /// # Errors
    /// [`PlaceError`] if the configuration or the sizes are impossible.
    pub fn plan(&self, config: &PlaceConfig) -> Result<Plan, PlaceError> {
        let mut requests = self.expected(config.alignment)?;
        let (planned, blocks) = self.blocks();
        let placement = place(&blocks, config)?;
        for (request, offset) in planned.into_iter().zip(placement.offsets()) {
            if let Some(request) = requests.get_mut(request) {
                request.offset = Some(*offset);
            }
        }
        Ok(Plan {
            pieces: Pieces::of(&requests),
            requests,
            alignment: config.alignment,
            height: placement.height(),
            peak_live: placement.peak_live(),
        })
    }

    /// All requests, none of them placed yet.
    fn expected(&self, alignment: u64) -> Result<Vec<Expected>, PlaceError> {
        if !alignment.is_power_of_two() {
            return Err(PlaceError::Alignment { alignment });
        }
        let requests = self.requests.iter().enumerate();
        let expected = requests.map(|(index, request)| {
            let bytes = request.bytes.checked_next_multiple_of(alignment);
            Ok(Expected {
                bytes: bytes.ok_or(PlaceError::BytesOverflow { index })?,
                stream: request.stream,
                offset: None,
            })
        });
        expected.collect()
    }

    /// The requests that have both their times, as numbers and as blocks.
    fn blocks(&self) -> (Vec<usize>, Vec<Block>) {
        let requests = self.requests.iter().enumerate();
        let timed = requests.filter_map(|(index, request)| match request.death {
            Death::At(death) => Some((
                index,
                Block {
                    bytes: request.bytes,
                    birth: index as u64,
                    death,
                },
            )),
            Death::Unknown | Death::TooLate => None,
        });
        timed.unzip()
    }
}
