//! Taking apart a region that a plan was served from: its parts become the pool's one by one, and nothing is freed in
//! between.
//!
//! A part that a live block uses becomes an allocation of the pool, exactly as large as was asked for. No event is
//! recorded for it, because it was handed out before and still is. Unused parts go where freed memory goes.

use piton_driver::{DevicePtr, DeviceRange};
use piton_suballoc::Chunk;

use crate::allocation::{About, Allocation};
use crate::books::Books;
use crate::events::MemoryEventKind;
use crate::lookup::Record;
use crate::pool::DevicePool;
use crate::request::Request;
use crate::reuse::Disposal;

/// What a part is from then on.
#[derive(Debug)]
pub(crate) enum CutOff {
    /// Free memory.
    Free(Disposal),
    /// What was handed out for this request.
    Live(Request),
}

impl DevicePool {
    /// Cuts the first `bytes` bytes off an allocation of this pool, for no lane and without pending uses: a multiple of the
    /// alignment. Returns the part, if it is live, and what is behind it, if there is more. Given back unchanged if it is not live
    /// or too short. Takes the books' lock and nothing else.
    pub(crate) fn cut_off(
        &self,
        whole: Allocation,
        bytes: u64,
        part: CutOff,
    ) -> Result<(Option<Allocation>, Option<Allocation>), Allocation> {
        let is_plain = whole.lane().is_none() && whole.others.is_none();
        let fits = bytes > 0 && bytes.is_multiple_of(self.settings.unit);
        if whole.pool != self.id || !is_plain || !fits {
            return Err(whole);
        }
        let request = match &part {
            // What rounding added stays known as padding, as far as the index knows any.
            CutOff::Live(request) if bytes - request.bytes < self.settings.unit => *request,
            CutOff::Live(request) => Request { bytes, ..*request },
            CutOff::Free(_) => Request::new(bytes),
        };
        let mut books = self.books.lock();
        let Ok((chunk, behind)) = books.index.cut(whole.id, request.bytes) else {
            return Err(whole);
        };
        books.directory.withdraw(whole.id);
        books.allocations -= 1;
        let left = books.live - whole.bytes;
        books.set_live(left);
        let rest = behind.zip(whole.ptr.checked_add(chunk.bytes));
        let rest = rest.map(|(rest, ptr)| {
            let request = Request::new(rest.bytes);
            books.own_part(&whole, &rest, ptr, &request)
        });
        let part = match part {
            CutOff::Live(_) => Some(books.own_part(&whole, &chunk, whole.ptr, &request)),
            CutOff::Free(disposal) => {
                let is_live = books.dispose(chunk.id, chunk.bytes, whole.region(), disposal);
                debug_assert!(is_live, "it was just cut");
                None
            }
        };
        Ok((part, rest))
    }

    /// Says in the list of events that a plan is served from an allocation, which was no program's request.
    pub(crate) fn note_plan_begun(&self, region: &Allocation) {
        let mut books = self.books.lock();
        let range = region.range();
        books
            .events
            .retell_allocation(range, MemoryEventKind::PlanBegun);
    }

    /// Says in the list of events that it is not any more.
    pub(crate) fn note_plan_ended(&self, region: DeviceRange) {
        self.books
            .lock()
            .note(MemoryEventKind::PlanEnded, region, None);
    }
}

impl Books {
    /// A part of what was one allocation, as an allocation.
    fn own_part(
        &mut self,
        whole: &Allocation,
        chunk: &Chunk,
        ptr: DevicePtr,
        request: &Request,
    ) -> Allocation {
        let record = Record {
            ptr,
            bytes: request.bytes,
            lane: request.lane,
            tag: request.tag,
        };
        self.directory.publish(chunk.id, chunk.offset, &record);
        self.allocations += 1;
        self.set_live(self.live + request.bytes);
        let padding = chunk.bytes - request.bytes;
        Allocation {
            pool: whole.pool,
            id: chunk.id,
            ptr,
            bytes: request.bytes,
            about: About::new(whole.region(), padding, request.lane, request.tag),
            own: whole.own,
            others: None,
        }
    }
}
