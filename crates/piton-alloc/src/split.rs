//! Cutting what is allocated: one allocation becomes two, without anything being freed in between.

use piton_driver::DeviceRange;

use crate::allocation::Allocation;
use crate::books::Books;
use crate::events::MemoryEventKind;
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
        let is_plain = allocation.lane.is_none() && allocation.others.is_none();
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
        self.live -= whole.bytes;
        self.allocations -= 1;
        self.events
            .push(MemoryEventKind::Freed, whole.range(), whole.lane);
        let rest = rest.and_then(|rest| {
            let ptr = whole.ptr.checked_add(head.bytes)?;
            Some(Allocation {
                id: rest.id,
                ptr,
                bytes: rest.bytes,
                rounded: rest.bytes,
                others: None,
                ..whole
            })
        });
        let head = Allocation {
            id: head.id,
            bytes,
            rounded: head.bytes,
            ..whole
        };
        for part in std::iter::once(&head).chain(&rest) {
            self.live += part.bytes;
            self.allocations += 1;
            let range: DeviceRange = part.range();
            self.events
                .push(MemoryEventKind::Allocated, range, part.lane);
        }
        Ok((head, rest))
    }
}
