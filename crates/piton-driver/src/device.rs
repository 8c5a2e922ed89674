//! An open device: what it has for certain, and the facets it may have.

#![expect(
    unsafe_code,
    reason = "the contract declares what implementers promise"
)]

use crate::{
    ComputeUnits, DeviceInfo, DriverError, ExecutionTrace, Graphs, HostFunctions, HostMemory,
    Kernels, Memory, PageSharing, Peers, PriorityRange, Queues, SemaphoreSharing, Semaphores,
    Timestamps, VirtualMemory,
};
use std::{any::Any, fmt::Debug};

/// An open device.
///
/// Facets are asked for once, when something is built on the device; a device's answers do not change
/// while it is open. All methods may be called from any thread at any time.
///
/// # Safety
/// What one facet hands out is given to another: memory's addresses to queues, kernels and graphs, host memory to copies. So implementers
/// promise that all facets, and the queues, kernels and graphs made by them, are one device's, for which an address names the same
/// memory wherever it came from; and that no other device that is used together with it bears its [id](DeviceInfo::id).
pub unsafe trait Device: Any + Send + Sync + Debug {
    /// What the device is. Does not block.
    fn info(&self) -> &DeviceInfo;

    /// Whether the device still works. Does not block.
    ///
    /// # Errors
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost) from the moment it is lost, for ever.
    fn status(&self) -> Result<(), DriverError>;

    /// Keeps an error that a destructor met and could not return; the first stays until taken.
    fn record_error(&self, error: DriverError);

    /// The first error recorded since the last call.
    fn take_error(&self) -> Option<DriverError>;

    /// Device memory.
    fn memory(&self) -> &dyn Memory;

    /// Queues.
    fn queues(&self) -> &dyn Queues;

    /// Kernels.
    fn kernels(&self) -> &dyn Kernels;

    /// Physical pages mapped at addresses of the caller's choice.
    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        None
    }

    /// Physical pages that other processes map too. Only where there is [`virtual_memory`](Self::virtual_memory).
    fn page_sharing(&self) -> Option<&dyn PageSharing> {
        None
    }

    /// Host memory the device can copy from and to.
    fn host_memory(&self) -> Option<&dyn HostMemory> {
        None
    }

    /// Host functions in a queue's order.
    fn host_functions(&self) -> Option<&dyn HostFunctions> {
        None
    }

    /// Counters that the host signals and queues wait for.
    fn semaphores(&self) -> Option<&dyn Semaphores> {
        None
    }

    /// Semaphores that other processes raise and wait for too.
    fn semaphore_sharing(&self) -> Option<&dyn SemaphoreSharing> {
        None
    }

    /// Whether queues wait for values in device memory and write them
    /// ([`Command::WaitMemory`](crate::Command::WaitMemory), [`Command::WriteMemory`](crate::Command::WriteMemory)).
    fn memory_operations(&self) -> bool {
        false
    }

    /// Graphs that run as one command.
    fn graphs(&self) -> Option<&dyn Graphs> {
        None
    }

    /// Other devices' memory.
    fn peers(&self) -> Option<&dyn Peers> {
        None
    }

    /// The priorities queues may have. Without the facet every queue has [`crate::Priority::DEFAULT`].
    fn priorities(&self) -> Option<PriorityRange> {
        None
    }

    /// The device's clock.
    fn timestamps(&self) -> Option<&dyn Timestamps> {
        None
    }

    /// Its cores, and queues that use some of them only.
    fn compute_units(&self) -> Option<&dyn ComputeUnits> {
        None
    }

    /// What ran when.
    fn execution_trace(&self) -> Option<&dyn ExecutionTrace> {
        None
    }
}
