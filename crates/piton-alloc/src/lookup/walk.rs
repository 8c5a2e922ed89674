//! Looking an allocation up without the tables: by a walk, under the lock.

use piton_driver::DevicePtr;
use piton_suballoc::ExtentState;

use crate::allocation::{AllocationId, AllocationInfo};
use crate::pool::DevicePool;

impl DevicePool {
    /// What is live at an address, as far as the index knows.
    pub(crate) fn walk_to(&self, address: DevicePtr) -> Option<AllocationInfo> {
        let mut fronts = self.enter_fronts();
        let books = self.books.lock();
        let block = books.blocks.containing(address)?;
        let offset = block.offset + address.checked_offset_from(block.range.start)?;
        let mut extents = books.index.extents_of(block.offset);
        let extent = extents.find(|extent| offset < extent.offset + extent.bytes)?;
        let ExtentState::Live { padding } = extent.state else {
            return None;
        };
        if books.deferred.contains(&extent) || fronts.have(extent.offset, &books) {
            return None;
        }
        let start = extent.offset - block.offset;
        Some(AllocationInfo {
            id: AllocationId::new(self.id, extent.id),
            ptr: block.range.start.checked_add(start)?,
            offset: offset - extent.offset,
            bytes: extent.bytes - padding,
            rounded_bytes: extent.bytes,
            lane: None,
            tag: None,
            block: block.range,
        })
    }
}
