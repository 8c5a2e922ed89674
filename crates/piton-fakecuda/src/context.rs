//! A device's primary context: the simulated device, and what was made on it.

use crate::world::{Answer, Code, ILLEGAL_ADDRESS, INVALID_VALUE, LAUNCH_FAILED, OUT_OF_MEMORY};
use piton_driver::{
    Device, DeviceId, DevicePtr, Driver, DriverError, ErrorKind, Fault, PhysicalHandle, Position,
    Queue,
};
use piton_sim::SimDriver;
use piton_sync::{
    Mutex,
    atomic::{AtomicU32, Ordering},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// A mapping that was asked for. The simulated device is told when access to it is granted.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub(crate) bytes: u64,
    pub(crate) pages: PhysicalHandle,
    /// Who may use it, by the library's numbers.
    pub(crate) readers: BTreeSet<i32>,
}

/// A write of a counter that a stream was told to do.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) position: Position,
}

/// What a context holds.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) allocations: BTreeSet<u64>,
    pub(crate) pages: HashMap<u64, (PhysicalHandle, u64)>,
    pub(crate) mappings: BTreeMap<u64, Mapping>,
    pub(crate) peers: BTreeSet<DeviceId>,
}

#[derive(Debug)]
pub(crate) struct FakeContext {
    pub(crate) id: DeviceId,
    pub(crate) device: Arc<dyn Device>,
    /// The code that every call answers from the first failure on; zero before it.
    failure: AtomicU32,
    pub(crate) content: Mutex<Content>,
}

impl FakeContext {
    pub(crate) fn new(machine: &Arc<SimDriver>, id: DeviceId) -> Answer<Arc<Self>> {
        let device = Driver::open(&**machine, id).map_err(|error| code(&error))?;
        Ok(Arc::new(Self {
            id,
            device,
            failure: AtomicU32::new(0),
            content: Mutex::default(),
        }))
    }

    /// The number that stands for it.
    pub(crate) const fn handle(&self) -> usize {
        (self.id.0 as usize + 1) << 32
    }

    /// Whether it works. A failure stays for ever.
    pub(crate) fn alive(&self) -> Answer<()> {
        match self.failure.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(code),
        }
    }

    /// Notes the failure of a queue, if it has one.
    pub(crate) fn look_at(&self, queue: &dyn Queue) -> Answer<()> {
        if let Some(failure) = queue.failure() {
            let code = code(&failure.error);
            let _first =
                self.failure
                    .compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
        }
        self.alive()
    }
}

impl Drop for FakeContext {
    /// What the program left goes with the context.
    #[expect(
        unsafe_code,
        reason = "memory of a context that is gone is used by nobody"
    )]
    fn drop(&mut self) {
        for address in &self.content.get_mut().allocations {
            // SAFETY: whoever released the last count has ended all work, as the reference asks.
            let _freed = unsafe { self.device.memory().free(DevicePtr::new(*address)) };
        }
    }
}

/// The code that the library would answer.
pub(crate) const fn code(error: &DriverError) -> Code {
    match error.kind {
        ErrorKind::OutOfMemory { .. }
        | ErrorKind::OutOfAddressSpace { .. }
        | ErrorKind::LockRefused { .. }
        | ErrorKind::OutOfHostMemory { .. } => OUT_OF_MEMORY,
        ErrorKind::KernelFault(Fault::OutOfBounds { .. }) => ILLEGAL_ADDRESS,
        ErrorKind::KernelFault(_) | ErrorKind::DependencyFailed { .. } => LAUNCH_FAILED,
        _ => INVALID_VALUE,
    }
}
