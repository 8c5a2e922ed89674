//! Memory that belongs to a graph: chunks that live within one replay, and the block they lie in.
//!
//! # The idea
//! While a graph is put together, a private chunk is a *placeholder*: an address that no device has. The graph knows
//! which nodes name it: copies and fills say so, and a kernel's signature says which of its arguments are buffers. So
//! when the graph is instantiated its chunks' lifetimes are known, they are laid out in one block where those whose
//! lifetimes are apart share bytes (`layout`), and the placeholders are replaced by addresses.
//!
//! A placeholder passed by value, inside a struct, is not seen and stays what it is.

#![expect(
    unsafe_code,
    reason = "gives memory of the device back when nothing uses it"
)]

use crate::GraphError;
use piton_driver::{Device, DevicePtr, DriverError};
use std::{any::Any, fmt, sync::Arc};

/// Placeholders start here: past what any device hands out.
const FIRST: u64 = 0xf000_0000_0000_0000;
/// Bytes between the end of one placeholder and the start of the next, at least.
const GAP: u64 = 4096;

/// A private chunk of a graph that is being put together. Its content is anything when a replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateChunk {
    start: u64,
    bytes: u64,
}

impl PrivateChunk {
    /// Its placeholder: to be named by nodes, itself or with an offset, and by nothing else.
    pub fn ptr(self) -> DevicePtr {
        DevicePtr::new(self.start)
    }

    /// Its size.
    pub fn bytes(self) -> u64 {
        self.bytes
    }
}

/// The private chunks of one graph.
#[derive(Clone, Debug, Default)]
pub struct PrivateMemory {
    chunks: Vec<PrivateChunk>,
}

impl PrivateMemory {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more, of `bytes` bytes.
    ///
    /// # Errors
    /// [`InvalidSize`](GraphError::InvalidSize) for none, or more than can be told apart.
    pub fn chunk(&mut self, bytes: u64) -> Result<PrivateChunk, GraphError> {
        let start = match self.chunks.last() {
            None => FIRST,
            Some(last) => (last.start + last.bytes).next_multiple_of(GAP) + GAP,
        };
        let maximum = (u64::MAX - 4 * GAP).saturating_sub(start);
        if bytes == 0 || bytes > maximum {
            return Err(GraphError::InvalidSize { bytes, maximum });
        }
        let chunk = PrivateChunk { start, bytes };
        self.chunks.push(chunk);
        Ok(chunk)
    }

    pub(crate) fn chunks(&self) -> &[PrivateChunk] {
        &self.chunks
    }

    /// Whether the address is a placeholder, of this memory or of another.
    pub(crate) fn is_placeholder(ptr: DevicePtr) -> bool {
        ptr.address() >= FIRST
    }

    /// The chunk that these bytes are within, and how far from its start.
    pub(crate) fn find(&self, ptr: DevicePtr, bytes: u64) -> Option<(usize, u64)> {
        let address = ptr.address();
        let behind = self.chunks.partition_point(|chunk| chunk.start <= address);
        let index = behind.checked_sub(1)?;
        let chunk = self.chunks.get(index)?;
        let offset = address - chunk.start;
        let fits = offset.checked_add(bytes)? <= chunk.bytes;
        fits.then_some((index, offset))
    }
}

/// The memory that an executable's private chunks lie in.
#[derive(Clone)]
pub struct PrivateBlock {
    start: DevicePtr,
    bytes: u64,
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for PrivateBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateBlock")
            .field("start", &self.start)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl PrivateBlock {
    /// No memory, for graphs without private chunks.
    pub fn none() -> Self {
        Self {
            start: DevicePtr::new(0),
            bytes: 0,
            keep: None,
        }
    }

    /// Memory straight from the device, given back when the executable and its last replay are gone.
    ///
    /// # Errors
    /// What [`Memory::allocate`](piton_driver::Memory::allocate) refuses.
    pub fn allocate(device: &Arc<dyn Device>, bytes: u64) -> Result<Self, DriverError> {
        if bytes == 0 {
            return Ok(Self::none());
        }
        let start = device.memory().allocate(bytes)?;
        let owned = Owned {
            device: Arc::clone(device),
            start,
        };
        Ok(Self {
            start,
            bytes,
            keep: Some(Arc::new(owned)),
        })
    }

    /// Memory from elsewhere, a pool say.
    ///
    /// # Safety
    /// The memory is live, `bytes` long, and nobody else's, for as long as a clone of `keep` is there.
    pub unsafe fn from_parts(
        start: DevicePtr,
        bytes: u64,
        keep: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            start,
            bytes,
            keep: Some(keep),
        }
    }

    /// First byte.
    pub fn start(&self) -> DevicePtr {
        self.start
    }

    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn keep(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.keep.clone()
    }
}

/// # Invariants
/// `start` is an allocation of the device that is nobody else's.
#[derive(Debug)]
struct Owned {
    device: Arc<dyn Device>,
    start: DevicePtr,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: this value's own (its invariant), and dropped by the last of executable and replays: the contract
        // keeps what a graph keeps until its last replay has ended.
        let freed = unsafe { self.device.memory().free(self.start) };
        if let Err(error) = freed {
            self.device.record_error(error);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_within_its_chunk_only() {
        let mut memory = PrivateMemory::new();
        let (a, b) = (memory.chunk(100).unwrap(), memory.chunk(1 << 40).unwrap());
        let at = |chunk: PrivateChunk, offset| DevicePtr::new(chunk.start + offset);
        assert_eq!(memory.find(a.ptr(), 100), Some((0, 0)));
        assert_eq!(memory.find(at(a, 99), 1), Some((0, 99)));
        assert_eq!(memory.find(at(a, 99), 2), None);
        assert_eq!(memory.find(at(b, 7), 1 << 39), Some((1, 7)));
        assert_eq!(memory.find(at(a, 100), 1), None);
        assert_eq!(memory.find(DevicePtr::new(16), 1), None);
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let mut memory = PrivateMemory::new();
        for bytes in [0, u64::MAX, 1 << 60] {
            assert!(matches!(
                memory.chunk(bytes),
                Err(GraphError::InvalidSize { .. })
            ));
        }
        assert!(memory.chunks().is_empty());
    }
}
