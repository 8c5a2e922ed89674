//! Addresses for memory that has none: without shared virtual memory OpenCL names buffers and not places.
//!
//! The contract names device memory by numbers, which programs add to. So each buffer gets a range of numbers, and a command
//! that names one finds the buffer whose range it is in, and how far into it ([`Shared::place`]). Ranges are given out once and
//! lie apart, so what is freed is never taken for what came later, nor the end of one for the start of the next; they lie above
//! all addresses of the host's, and are the driver's: a number means one thing on each of its devices.

use crate::{driver::Shared, ffi::BufferPlace, memory::DeviceMemory, status::Status};
use opencl_sys as cl;
use piton_sync::atomic::{AtomicU64, Ordering};

/// Where the first range starts: above what 64-bit processors give to programs today.
const FIRST: u64 = 1 << 60;

/// What is left free behind each range, at least.
const APART: u64 = 4096;

/// The numbers that have not been given out.
#[derive(Debug)]
pub(crate) struct Addresses(AtomicU64);

impl Default for Addresses {
    fn default() -> Self {
        Self(AtomicU64::new(FIRST))
    }
}

impl Addresses {
    /// The start of a range of so many bytes, a multiple of `alignment`, which is a power of two and at most [`FIRST`];
    /// nothing when there are no numbers left.
    pub(crate) fn take(&self, bytes: u64, alignment: u64) -> Option<u64> {
        let step = alignment.max(APART);
        let room = bytes.checked_add(APART)?.checked_next_multiple_of(step)?;
        // Each range is a multiple of its own step long, so another's step may have to be found first.
        let after = |next: u64| next.checked_next_multiple_of(step)?.checked_add(room);
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
        before.ok()?.checked_next_multiple_of(step)
    }
}

impl Shared {
    /// The buffer that holds these bytes, on whichever open device, and where it is in it.
    ///
    /// # Errors
    /// That there is none any more.
    pub(crate) fn place(&self, address: u64, bytes: u64) -> Result<BufferPlace, Status> {
        let in_books = |books: &piton_native::Books<DeviceMemory>| {
            books.find(address, bytes, |(start, _), memory| {
                let offset = usize::try_from(address - start).ok()?;
                memory.buffer().map(|buffer| BufferPlace { buffer, offset })
            })
        };
        let opened = self.all_opened();
        let found = opened.iter().find_map(|device| in_books(&device.memory));
        found.flatten().ok_or(Status(cl::CL_INVALID_MEM_OBJECT))
    }

    /// Bytes of the allocation that holds this address, from there to its end.
    pub(crate) fn rest(&self, address: u64) -> u64 {
        let opened = self.all_opened();
        let rest = opened.iter().find_map(|device| {
            let rest = |(start, bytes): (u64, u64), _: &DeviceMemory| start + bytes - address;
            device.memory.find(address, 1, rest)
        });
        rest.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_aligned_and_lie_apart() {
        let addresses = Addresses::default();
        let mut end = FIRST;
        for (bytes, alignment) in [(1, 512), (1 << 30, 512), (4096, 1 << 16), (512, 512)] {
            let start = addresses.take(bytes, alignment).unwrap();
            assert!(start.is_multiple_of(alignment));
            assert!(start >= end);
            end = start + bytes + APART;
        }
        assert_eq!(addresses.take(u64::MAX, 512), None);
        assert_eq!(addresses.take(u64::MAX - FIRST, 512), None);
        assert!(addresses.take(512, 512).is_some());
    }
}
