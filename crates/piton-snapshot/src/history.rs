//! The ring of a snapshot as requests that can be replayed.
//!
//! The ring says addresses, which are used again; a history says ids, which are not. Blocks that were live before the ring
//! begins are allocated first: those whose free is in it without their allocation, and those that are still live and whose
//! allocation is not in it.
//!
//! A snapshot says that a block was used on another stream, but not on which: its free is then requested and not at once
//! complete. Such a block is given a use on the lowest stream that is not its own.

use hashbrown::HashMap;

use crate::error::HistoryError;
use crate::snapshot::{Action, BlockState, Event, Segment, Snapshot};

/// What a program asked of its allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Allocate.
    Allocate {
        /// Name of the block: counted from 0, never used again.
        id: u64,
        /// Bytes as requested, at least 1.
        bytes: u64,
        /// The stream it is for.
        stream: u32,
    },
    /// Give a block back.
    Free {
        /// Name of the block.
        id: u64,
        /// The stream it was allocated for.
        stream: u32,
    },
    /// A block is used on another stream, which may not have got there when it is freed.
    Use {
        /// Name of the block.
        id: u64,
        /// The other stream.
        stream: u32,
    },
}

/// The requests of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// In the order they were made.
    pub requests: Vec<Request>,
    /// How many of the first are allocations of blocks that were live before the ring begins.
    pub live_at_start: usize,
    /// Number of streams. They are counted from 0, the default stream, in the order in which they appear.
    pub streams: u32,
}

impl Snapshot {
    /// What was asked of one device.
    ///
    /// # Errors
    /// [`HistoryError::NoDevice`].
    pub fn history(&self, device: usize) -> Result<History, HistoryError> {
        let devices = self.device_events.len();
        let events = self
            .device_events
            .get(device)
            .ok_or(HistoryError::NoDevice { device, devices })?;
        let mut teller = Teller::default();
        teller.stream(0);
        let here = |segment: &&Segment| usize::try_from(segment.device) == Ok(device);
        for block in live_before(events, self.segments.iter().filter(here)) {
            teller.allocate(&block);
        }
        teller.history.live_at_start = teller.history.requests.len();
        for (index, event) in events.iter().enumerate() {
            teller.tell(event, events.get(index + 1));
        }
        teller.history.streams = u32::try_from(teller.streams.len()).unwrap_or(u32::MAX);
        Ok(teller.history)
    }
}

/// Blocks that were live before the first event, each as the event that would have allocated it.
fn live_before<'a>(events: &[Event], segments: impl Iterator<Item = &'a Segment>) -> Vec<Event> {
    let mut seen = HashMap::new();
    let mut live = Vec::new();
    for event in events {
        let is_first = match event.action {
            Action::Allocate | Action::FreeRequested | Action::FreeCompleted => {
                seen.insert(event.address, ()).is_none()
            }
            _ => false,
        };
        if is_first && event.action == Action::FreeRequested {
            live.push(*event);
        }
    }
    for segment in segments {
        let mut address = segment.address;
        for block in &segment.blocks {
            if block.state == BlockState::Allocated && !seen.contains_key(&address) {
                live.push(Event {
                    action: Action::Allocate,
                    address,
                    bytes: block.requested_bytes,
                    stream: segment.stream,
                    time_us: 0,
                });
            }
            address = address.saturating_add(block.bytes);
        }
    }
    live.sort_by_key(|block| block.address);
    live
}

/// Turns addresses into ids, and streams into small numbers.
#[derive(Debug, Default)]
struct Teller {
    history: History,
    live: HashMap<u64, (u64, u32)>,
    streams: HashMap<u64, u32>,
    next_id: u64,
}

impl Teller {
    fn tell(&mut self, event: &Event, next: Option<&Event>) {
        match event.action {
            Action::Allocate => self.allocate(event),
            Action::FreeRequested => {
                let is_done = |next: &&Event| {
                    next.action == Action::FreeCompleted && next.address == event.address
                };
                self.free(event.address, next.filter(is_done).is_none());
            }
            // Only of a block whose free was requested, unless the ring is of another maker.
            Action::FreeCompleted => self.free(event.address, false),
            _ => {}
        }
    }

    fn allocate(&mut self, event: &Event) {
        if event.bytes == 0 {
            return;
        }
        // Its free is missing from the ring.
        self.free(event.address, false);
        let (id, stream) = (self.next_id, self.stream(event.stream));
        self.next_id += 1;
        self.live.insert(event.address, (id, stream));
        let bytes = event.bytes;
        self.history
            .requests
            .push(Request::Allocate { id, bytes, stream });
    }

    fn free(&mut self, address: u64, is_used_elsewhere: bool) {
        let Some((id, stream)) = self.live.remove(&address) else {
            return;
        };
        if is_used_elsewhere {
            let other = u32::from(stream == 0);
            self.history
                .requests
                .push(Request::Use { id, stream: other });
        }
        self.history.requests.push(Request::Free { id, stream });
    }

    fn stream(&mut self, stream: u64) -> u32 {
        let next = u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        *self.streams.entry(stream).or_insert(next)
    }
}
