//! Cutting what is allocated: one allocation becomes two, without anything being freed in between.

use piton_driver::DevicePtr;
use piton_suballoc::Chunk;

use crate::allocation::{About, Allocation};
use crate::books::Books;
use crate::lookup::Record;
use crate::pool::DevicePool;

impl DevicePool {
    /// Cuts an allocation of this pool, for no lane, behind its first `bytes` bytes; there is no second part if it has no more.
    /// Given back unchanged if it is not live, too short, or `bytes` is no multiple of the pool's alignment. Takes the books'
    /// lock and nothing else.
    pub(crate) fn split(
        &self,
        allocation: Allocation,
        bytes: u64,
    ) -> Result<(Allocation, Option<Allocation>), Allocation> {
        let is_plain = allocation.lane().is_none() && allocation.others.is_none();
        let fits = bytes > 0 && bytes.is_multiple_of(self.settings.unit);
        if allocation.pool != self.id || !is_plain || !fits {
            return Err(allocation);
        }
        self.books.lock().split(allocation, bytes)
    }
}

impl Books {
    fn split(
        &mut self,
        whole: Allocation,
        bytes: u64,
    ) -> Result<(Allocation, Option<Allocation>), Allocation> {
        let Ok((head, rest)) = self.index.cut(whole.id, bytes) else {
            return Err(whole);
        };
        self.note_taken_back(&whole);
        let behind = whole.ptr.checked_add(head.bytes);
        let head = self.part_of(&whole, &head, whole.ptr);
        let rest = rest.zip(behind);
        let rest = rest.map(|(rest, ptr)| self.part_of(&whole, &rest, ptr));
        Ok((head, rest))
    }

    /// A part of what was one allocation, as an allocation.
    fn part_of(&mut self, whole: &Allocation, chunk: &Chunk, ptr: DevicePtr) -> Allocation {
        let record = Record {
            ptr,
            bytes: chunk.bytes,
            lane: whole.lane(),
            tag: whole.tag(),
        };
        self.note_handed_out(chunk, &record);
        Allocation {
            pool: whole.pool,
            id: chunk.id,
            ptr,
            bytes: chunk.bytes,
            about: About::new(whole.region(), 0, whole.lane(), whole.tag()),
            own: whole.own,
            others: None,
        }
    }
}
