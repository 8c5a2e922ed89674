//! A source of Blocks that keeps books and fails on demand. Addresses are reused lowest first, so that a stale address
//! meets a new tenant quickly.

#![allow(
    dead_code,
    unsafe_code,
    reason = "each test file uses a part; implementing the trait is unsafe"
)]

mod pages;

use std::collections::BTreeMap;

use pages::Pages;
use piton_alloc::BlockSource;
use piton_driver::{DeviceId, DevicePtr, DriverError, ErrorKind, Operation, VirtualMemory};
use piton_sync::Mutex;

pub(crate) const GRANULE: u64 = 4096;

#[derive(Debug, Default)]
struct State {
    /// Start and length of what is allocated.
    live: BTreeMap<u64, u64>,
    pages: Pages,
    calls: u64,
    /// The call that fails, counted as `calls` is.
    fail_at: Option<u64>,
    fired: bool,
    lost: bool,
    errors: Vec<DriverError>,
}

#[derive(Debug)]
pub(crate) struct Books {
    capacity: u64,
    has_virtual_memory: bool,
    alignment: u64,
    state: Mutex<State>,
}

impl Books {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            has_virtual_memory: false,
            alignment: GRANULE,
            state: Mutex::default(),
        }
    }

    /// A device that maps pages too.
    pub(crate) fn with_pages(capacity: u64) -> Self {
        Self {
            has_virtual_memory: true,
            ..Self::new(capacity)
        }
    }

    /// A device that says it aligns its Blocks so.
    pub(crate) fn aligned(capacity: u64, alignment: u64) -> Self {
        Self {
            alignment,
            ..Self::new(capacity)
        }
    }

    /// Makes the `n`-th call from now fail, counting from 1.
    pub(crate) fn fail_call(&self, n: u64) {
        let mut state = self.state.lock();
        state.fail_at = Some(state.calls + n);
        state.fired = false;
    }

    /// Takes back what [`fail_call`](Self::fail_call) planned.
    pub(crate) fn fail_no_call(&self) {
        self.state.lock().fail_at = None;
    }

    pub(crate) fn has_fired(&self) -> bool {
        self.state.lock().fired
    }

    pub(crate) fn lose(&self) {
        self.state.lock().lost = true;
    }

    pub(crate) fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    pub(crate) fn held(&self) -> u64 {
        self.state.lock().held()
    }

    /// Whether all of a stretch of addresses has memory.
    pub(crate) fn backs(&self, start: u64, end: u64) -> bool {
        let state = self.state.lock();
        let inside = |(&block, &bytes): (&u64, &u64)| block <= start && end <= block + bytes;
        state.live.iter().any(inside) || state.pages.backs(start, end)
    }

    /// Address ranges that are reserved.
    pub(crate) fn reservations(&self) -> usize {
        self.state.lock().pages.reservations()
    }

    pub(crate) fn blocks(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        state
            .live
            .iter()
            .map(|(start, bytes)| (*start, *bytes))
            .collect()
    }

    pub(crate) fn errors(&self) -> Vec<DriverError> {
        self.state.lock().errors.clone()
    }
}

impl State {
    fn held(&self) -> u64 {
        self.live.values().sum::<u64>() + self.pages.held()
    }

    fn count(&mut self, operation: Operation) -> Result<(), DriverError> {
        self.calls += 1;
        if self.fail_at == Some(self.calls) {
            self.fired = true;
            let kind = ErrorKind::Injected { call: self.calls };
            return Err(error(kind, operation));
        }
        Ok(())
    }

    /// The lowest gap above the null page.
    fn place(&self, bytes: u64) -> u64 {
        let mut start = GRANULE;
        for (&other, &length) in &self.live {
            if start + bytes <= other {
                break;
            }
            start = other + length;
        }
        start
    }
}

fn error(kind: ErrorKind, operation: Operation) -> DriverError {
    DriverError::new(kind, operation, DeviceId(0))
}

// SAFETY: Blocks are placed in gaps between those live, at multiples of the granule since all sizes are; no command
// ever names them.
unsafe impl BlockSource for Books {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn granularity(&self) -> u64 {
        GRANULE
    }

    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn status(&self) -> Result<(), DriverError> {
        if self.state.lock().lost {
            return Err(error(ErrorKind::DeviceLost, Operation::QueryMemory));
        }
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr, DriverError> {
        assert!(bytes > 0 && bytes.is_multiple_of(GRANULE));
        let mut state = self.state.lock();
        state.count(Operation::AllocateMemory)?;
        let free = self.capacity - state.held();
        if bytes > free {
            let kind = ErrorKind::OutOfMemory {
                requested: bytes,
                free,
                capacity: self.capacity,
            };
            return Err(error(kind, Operation::AllocateMemory));
        }
        let start = state.place(bytes);
        state.live.insert(start, bytes);
        Ok(DevicePtr::new(start))
    }

    unsafe fn free(&self, block: DevicePtr) -> Result<(), DriverError> {
        let mut state = self.state.lock();
        state.count(Operation::FreeMemory)?;
        let freed = state.live.remove(&block.address());
        assert!(freed.is_some(), "only Blocks that are allocated are freed");
        Ok(())
    }

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        self.has_virtual_memory.then_some(self)
    }

    fn record_error(&self, error: DriverError) {
        self.state.lock().errors.push(error);
    }
}
