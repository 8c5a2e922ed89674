//! An open simulated device: the contract's handle on one of the machine's devices.

#![expect(
    unsafe_code,
    reason = "vouches for its facets to those who use them together"
)]

use crate::{
    config::Backing,
    machine::{DeviceCore, Machine},
    presence::Presence,
    queue::{PRIORITIES, QueueCore, SimQueue},
};
use piton_driver::{
    ComputeUnits, Device, DeviceId, DeviceInfo, DeviceRange, DriverError, ErrorKind,
    ExecutionTrace, Graphs, HostFunctions, HostMemory, Kernels, Memory, Operation, PageSharing,
    Peers, PriorityRange, Queue, Queues, SemaphoreSharing, Semaphores, Timestamps, VirtualMemory,
};
use piton_sync::{SharedNumber, atomic::Ordering};
use std::{any::Any, ptr::NonNull, sync::Arc};

/// What a device's memory holds, as the device counts it. In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounters {
    /// Backed now: allocated, or created and not destroyed.
    pub held: u64,
    /// The most that was backed at once.
    pub peak_held: u64,
    /// Mappings in place.
    pub mappings: u64,
}

/// One device of a simulated machine.
#[derive(Clone, Debug)]
pub struct SimDevice {
    machine: Arc<Machine>,
    index: usize,
    id: DeviceId,
    /// Handles outside have one; what the machine holds itself has none.
    _presence: Option<Presence>,
}

impl SimDevice {
    pub(crate) fn new(machine: Arc<Machine>, id: DeviceId) -> Option<Self> {
        machine.device(id)?;
        let _presence = Some(Presence::new(&machine));
        Some(Self {
            index: id.0 as usize,
            machine,
            id,
            _presence,
        })
    }

    /// The same device, for what the machine holds itself.
    pub(crate) fn inside(&self) -> Self {
        Self {
            machine: Arc::clone(&self.machine),
            _presence: None,
            ..*self
        }
    }

    /// A handle outside, for what is handed out beside the device.
    pub(crate) fn presence(&self) -> Presence {
        Presence::new(&self.machine)
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.id
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether both are devices of one machine.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.machine, &other.machine)
    }

    /// Whether both are handles to one device: ids are only unique within a machine.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.is_beside(other) && self.id == other.id
    }

    pub(crate) fn core(&self) -> &DeviceCore {
        // INVARIANT: `new` checked that the machine has this device, and machines do not lose entries.
        &self.machine.devices[self.index]
    }

    /// What the device's memory holds, counted by the device and not by whoever uses it.
    pub fn memory_counters(&self) -> MemoryCounters {
        let counters = self.core().space.lock().counters();
        MemoryCounters {
            held: counters.held,
            peak_held: counters.peak,
            mappings: counters.mappings,
        }
    }

    /// Whether the device's books agree with themselves: pages of handles and free pages are all pages, and
    /// every handle is counted as often as it is mapped.
    pub fn check(&self) -> bool {
        self.core().space.lock().check()
    }

    pub(crate) fn error(&self, kind: ErrorKind, operation: Operation) -> DriverError {
        DriverError::new(kind, operation, self.id)
    }

    /// What every call of the contract passes: is the device lost, does the fault plan strike?
    #[inline]
    pub(crate) fn gate(&self, operation: Operation) -> Result<(), DriverError> {
        self.gate_even_if_lost(operation)?;
        if self.core().is_lost() {
            return Err(self.error(ErrorKind::DeviceLost, operation));
        }
        Ok(())
    }

    /// As [`gate`](Self::gate), for calls that work after the loss too: commands of a lost device end, and
    /// may be waited for; its host memory can be given back.
    #[inline]
    pub(crate) fn gate_even_if_lost(&self, operation: Operation) -> Result<(), DriverError> {
        use crate::fault::CallFate;
        if self.machine.fork.is_fork() {
            return Err(self.error(ErrorKind::Forked, operation));
        }
        match self.machine.faults.call(operation) {
            CallFate::Proceeds => Ok(()),
            CallFate::Fails { call } => Err(self.error(ErrorKind::Injected { call }, operation)),
            CallFate::LosesDevice(id) => {
                if let Some(device) = self.machine.device(id) {
                    device.lose();
                }
                Ok(())
            }
        }
    }

    /// Whether a range is one that commands may name.
    pub(crate) fn check_range(&self, range: DeviceRange) -> Result<(), ErrorKind> {
        let space = self.core().space.lock();
        let maximum = self.core().info.limits.copy_bytes;
        if range.bytes == 0 || range.bytes > maximum {
            return Err(ErrorKind::InvalidSize {
                bytes: range.bytes,
                maximum,
            });
        }
        if !space.is_backed() && self.core().config.backing == Backing::Books {
            return Err(ErrorKind::NotBacked);
        }
        if !space.covers(range) {
            return Err(ErrorKind::UnknownAddress {
                address: range.start,
                bytes: range.bytes,
            });
        }
        Ok(())
    }

    /// Where a range that this device's kernels may reach lies: its own, an enabled peer's, or page-locked on the host.
    pub(crate) fn resolve_reachable(&self, range: DeviceRange) -> Result<NonNull<u8>, ErrorKind> {
        let unknown = ErrorKind::UnknownAddress {
            address: range.start,
            bytes: range.bytes,
        };
        let Some(owner) = self.machine.owner(range.start) else {
            let on_host = self.machine.host.lock().resolve(range);
            let reaches = self.core().config.reaches_host_memory;
            return on_host.filter(|_| reaches).ok_or(unknown);
        };
        let is_own = owner.info.id == self.id;
        if !is_own && !self.is_enabled(owner.info.id) {
            return Err(ErrorKind::NotPeers {
                from: self.id,
                to: owner.info.id,
            });
        }
        owner.space.lock().resolve(range)
    }

    pub(crate) fn is_enabled(&self, peer: DeviceId) -> bool {
        let enabled = self.core().peers_enabled.load(Ordering::Acquire);
        enabled
            .checked_shr(peer.0)
            .is_some_and(|bits| bits & 1 == 1)
    }

    /// The simulated queue behind `queue`, if it is one of this device's.
    pub(crate) fn own_queue(
        &self,
        queue: &dyn Queue,
        operation: Operation,
    ) -> Result<Arc<QueueCore>, DriverError> {
        let given = queue.device();
        let queue: &dyn Any = queue;
        let found = queue.downcast_ref::<SimQueue>().map(|queue| &queue.core);
        let own = found.filter(|core| core.device.is(self));
        own.map(Arc::clone)
            .ok_or_else(|| self.error(ErrorKind::ForeignObject { given }, operation))
    }
}

// SAFETY: every facet is of one device of one machine, where its number is part of every address.
unsafe impl Device for SimDevice {
    fn info(&self) -> &DeviceInfo {
        &self.core().info
    }

    fn status(&self) -> Result<(), DriverError> {
        if self.machine.fork.is_fork() {
            return Err(self.error(ErrorKind::Forked, Operation::QueryStatus));
        }
        if self.core().is_lost() {
            return Err(self.error(ErrorKind::DeviceLost, Operation::QueryStatus));
        }
        Ok(())
    }

    fn record_error(&self, error: DriverError) {
        if self.machine.fork.is_fork() {
            return;
        }
        self.core().error.lock().get_or_insert(error);
    }

    fn take_error(&self) -> Option<DriverError> {
        if self.machine.fork.is_fork() {
            return None;
        }
        self.core().error.lock().take()
    }

    fn memory(&self) -> &dyn Memory {
        self
    }

    fn queues(&self) -> &dyn Queues {
        self
    }

    fn kernels(&self) -> &dyn Kernels {
        self
    }

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        self.core().config.has_virtual_memory.then_some(self)
    }

    /// Where bytes stand behind what is mapped.
    fn page_sharing(&self) -> Option<&dyn PageSharing> {
        let config = &self.core().config;
        (config.has_virtual_memory && config.backing == Backing::Pages).then_some(self)
    }

    fn host_memory(&self) -> Option<&dyn HostMemory> {
        Some(self)
    }

    fn host_functions(&self) -> Option<&dyn HostFunctions> {
        Some(self)
    }

    fn semaphores(&self) -> Option<&dyn Semaphores> {
        Some(self)
    }

    /// In real time: nothing outside has a place in virtual time, where what nobody here will signal is a deadlock.
    fn semaphore_sharing(&self) -> Option<&dyn SemaphoreSharing> {
        let is_virtual = self.machine.engine.is_virtual();
        (SharedNumber::IS_THERE && !is_virtual).then_some(self)
    }

    fn graphs(&self) -> Option<&dyn Graphs> {
        Some(self)
    }

    fn memory_operations(&self) -> bool {
        self.core().config.backing == Backing::Pages
    }

    fn peers(&self) -> Option<&dyn Peers> {
        let is_alone = self.machine.devices.len() < 2;
        let is_backed = self.core().config.backing != Backing::Books;
        (!is_alone && is_backed).then_some(self)
    }

    fn priorities(&self) -> Option<PriorityRange> {
        Some(PRIORITIES)
    }

    fn timestamps(&self) -> Option<&dyn Timestamps> {
        Some(self)
    }

    fn compute_units(&self) -> Option<&dyn ComputeUnits> {
        Some(self)
    }

    fn execution_trace(&self) -> Option<&dyn ExecutionTrace> {
        Some(&self.core().trace)
    }
}
