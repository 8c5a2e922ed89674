//! A context: the simulated device, and what was made on it.

use crate::codes::{Answer, Codes};
use piton_driver::{Device, DeviceId, DevicePtr, Driver, PhysicalHandle, Queue};
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
pub struct Mapping {
    /// How long it is.
    pub bytes: u64,
    /// What is mapped.
    pub pages: PhysicalHandle,
    /// Who may use it, by the library's numbers.
    pub readers: BTreeSet<i32>,
}

/// What a context holds.
#[derive(Debug, Default)]
pub struct Content {
    /// Starts of device memory.
    pub allocations: BTreeSet<u64>,
    /// Physical memory and its bytes, by the library's handles.
    pub pages: HashMap<u64, (PhysicalHandle, u64)>,
    /// By where they start.
    pub mappings: BTreeMap<u64, Mapping>,
    /// Devices that this one was let reach.
    pub peers: BTreeSet<DeviceId>,
}

/// A context.
#[derive(Debug)]
pub struct Context {
    /// The device's number.
    pub id: DeviceId,
    /// What stands behind it.
    pub device: Arc<dyn Device>,
    /// The library's.
    pub codes: &'static Codes,
    /// The code that every call answers from the first failure on; zero before it.
    failure: AtomicU32,
    /// What it holds.
    pub content: Mutex<Content>,
}

impl Context {
    /// A context on a device of the machine.
    ///
    /// # Errors
    /// No such device.
    pub fn new(machine: &Arc<SimDriver>, id: DeviceId, codes: &'static Codes) -> Answer<Arc<Self>> {
        let device = Driver::open(&**machine, id).map_err(|error| codes.of(&error))?;
        Ok(Arc::new(Self {
            id,
            device,
            codes,
            failure: AtomicU32::new(0),
            content: Mutex::default(),
        }))
    }

    /// Whether it works. A failure stays for ever.
    ///
    /// # Errors
    /// The failure's code.
    pub fn alive(&self) -> Answer<()> {
        match self.failure.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(code),
        }
    }

    /// Notes the failure of a queue, if it has one and takes its context along.
    ///
    /// # Errors
    /// As [`alive`](Self::alive); or the queue's.
    pub fn look_at(&self, queue: &dyn Queue) -> Answer<()> {
        if let Some(failure) = queue.failure() {
            let code = self.codes.of(&failure.error);
            if !self.codes.takes_context {
                return Err(code);
            }
            let _first =
                self.failure
                    .compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
        }
        self.alive()
    }
}

impl Drop for Context {
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
