//! What is tested: how to open it, the kernels it brings, the gaps it declares.

use piton_driver::{Device, Driver, DriverError, Module, QueueOptions};
use std::{fmt, sync::Arc};

type Open = dyn Fn() -> Result<Arc<dyn Driver>, DriverError>;
type Load = dyn Fn(&dyn Device) -> Result<Arc<dyn Module>, DriverError>;

/// The kernels that cases launch, in whatever form the backend loads them.
///
/// | name | takes | a block does |
/// |---|---|---|
/// | [`ADD`](Self::ADD) | written buffer of `u32`, value `u32` | adds the value, wrapping, to 256 elements from 256 x its index |
/// | [`COPY`](Self::COPY) | written buffer of `u32`, read buffer of `u32` | copies 256 elements from 256 x its index |
/// | [`TRAP`](Self::TRAP) | as `ADD` | fails, without harm to the process |
pub struct TestKernels {
    load: Box<Load>,
    can_trap: bool,
}

impl TestKernels {
    /// Adds a value.
    pub const ADD: &'static str = "conformance_add";
    /// Copies.
    pub const COPY: &'static str = "conformance_copy";
    /// Fails.
    pub const TRAP: &'static str = "conformance_trap";
    /// Elements a block works on.
    pub const BLOCK: u32 = 256;

    /// Kernels that `load` loads on a device: `ADD` and `COPY` for certain, `TRAP` if `can_trap`.
    pub fn new(
        can_trap: bool,
        load: impl Fn(&dyn Device) -> Result<Arc<dyn Module>, DriverError> + 'static,
    ) -> Self {
        let load = Box::new(load);
        Self { load, can_trap }
    }
}

/// An ability that not every device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Facet {
    /// [`piton_driver::Device::virtual_memory`].
    VirtualMemory,
    /// [`piton_driver::Device::page_sharing`].
    PageSharing,
    /// [`piton_driver::Device::host_memory`].
    HostMemory,
    /// [`piton_driver::Device::host_functions`].
    HostFunctions,
    /// [`piton_driver::Device::semaphores`].
    Semaphores,
    /// [`piton_driver::Device::semaphore_sharing`].
    SemaphoreSharing,
    /// [`piton_driver::Device::memory_operations`].
    MemoryOperations,
    /// [`piton_driver::Queue::writer`].
    Writers,
    /// [`piton_driver::Device::graphs`].
    Graphs,
    /// [`piton_driver::Device::peers`], and a second device that the first can access.
    Peers,
    /// [`piton_driver::Device::priorities`].
    Priorities,
    /// [`piton_driver::Device::timestamps`].
    Timestamps,
    /// [`piton_driver::Device::compute_units`].
    ComputeUnits,
    /// [`piton_driver::Device::execution_trace`].
    ExecutionTrace,
    /// A kernel that fails without taking the process along.
    TrapKernel,
}

/// A case that a subject does not pass, and why.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// The case's name.
    pub case: &'static str,
    /// Why, for the table.
    pub reason: &'static str,
}

/// A backend in one configuration.
pub struct Subject {
    name: String,
    open: Box<Open>,
    kernels: TestKernels,
    gaps: Vec<Gap>,
}

impl Subject {
    /// The backend that `open` opens afresh for each case, with the kernels that cases launch.
    pub fn new(
        name: impl Into<String>,
        kernels: TestKernels,
        open: impl Fn() -> Result<Arc<dyn Driver>, DriverError> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            open: Box::new(open),
            kernels,
            gaps: Vec::new(),
        }
    }

    /// The same subject, which does not pass `case`, for this reason.
    #[must_use]
    pub fn with_gap(mut self, case: &'static str, reason: &'static str) -> Self {
        self.gaps.push(Gap { case, reason });
        self
    }

    /// The column's heading.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it declares not to pass.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    pub(crate) fn open(&self) -> Result<Arc<dyn Driver>, DriverError> {
        (self.open)()
    }

    pub(crate) fn load(&self, device: &dyn Device) -> Result<Arc<dyn Module>, DriverError> {
        (self.kernels.load)(device)
    }

    /// Whether the subject's first device has the ability.
    pub(crate) fn offers(&self, facet: Facet, driver: &dyn Driver, device: &dyn Device) -> bool {
        match facet {
            Facet::VirtualMemory => device.virtual_memory().is_some(),
            Facet::PageSharing => device.page_sharing().is_some(),
            Facet::HostMemory => device.host_memory().is_some(),
            Facet::HostFunctions => device.host_functions().is_some(),
            Facet::Semaphores => device.semaphores().is_some(),
            Facet::SemaphoreSharing => device.semaphore_sharing().is_some(),
            Facet::MemoryOperations => device.memory_operations(),
            Facet::Writers => {
                let queue = device.queues().create(&QueueOptions::default());
                queue.is_ok_and(|queue| queue.writer().is_some())
            }
            Facet::Graphs => device.graphs().is_some(),
            Facet::Peers => {
                let second = piton_driver::DeviceId(1);
                let peers = device.peers().filter(|_| driver.device_count() > 1);
                peers.is_some_and(|peers| peers.can_access(second))
            }
            Facet::Priorities => device.priorities().is_some(),
            Facet::Timestamps => device.timestamps().is_some(),
            Facet::ComputeUnits => device.compute_units().is_some(),
            Facet::ExecutionTrace => device.execution_trace().is_some(),
            Facet::TrapKernel => self.kernels.can_trap,
        }
    }
}

impl fmt::Debug for TestKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestKernels")
            .field("can_trap", &self.can_trap)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("name", &self.name)
            .field("gaps", &self.gaps)
            .finish_non_exhaustive()
    }
}
