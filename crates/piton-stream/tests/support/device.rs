//! The fake device and its facets, each of which can be left out.

use super::{
    machine::{Book, Machine, Work},
    queue::FakeQueue,
};
use piton_driver::{
    Admission, Device, DeviceId, DeviceInfo, DriverError, ErrorKind, HardwareQueue, HostFunction,
    HostFunctions, Kernels, Limits, Memory, Operation, Origin, Placement, Priority, PriorityRange,
    Queue, QueueOptions, Queues, ResourceKind, Semaphore, Semaphores, SignalledBy, TimestampPool,
    Timestamps,
};
use piton_sync::{Mutex, atomic::AtomicU64};
use std::{any::Any, sync::Arc};

#[derive(Debug)]
pub(crate) struct FakeDevice {
    info: DeviceInfo,
    machine: Arc<Machine>,
    has_facets: bool,
    most_queues: usize,
    moves_on_refusal: bool,
    /// One clone a live queue.
    alive: Arc<()>,
}

impl FakeDevice {
    pub(crate) fn new(machine: &Arc<Machine>, id: u32) -> Self {
        Self {
            info: DeviceInfo {
                id: DeviceId(id),
                name: "fake".to_owned(),
                memory_bytes: 0,
                pci: None,
                numa_node: None,
                limits: Limits {
                    queues: 1000,
                    hardware_queues: 2,
                    queue_commands: 64,
                    argument_bytes: 64,
                    grid_blocks: 1,
                    copy_bytes: 1,
                },
            },
            machine: Arc::clone(machine),
            has_facets: true,
            most_queues: 1000,
            moves_on_refusal: false,
            alive: Arc::default(),
        }
    }

    /// A device with no facet at all.
    pub(crate) fn bare(self) -> Self {
        Self {
            has_facets: false,
            ..self
        }
    }

    pub(crate) fn with_capacity(mut self, commands: u32) -> Self {
        self.info.limits.queue_commands = commands;
        self
    }

    /// A device that ends a command between saying "full" for the second time and whatever comes next.
    pub(crate) fn moving_on_refusal(self) -> Self {
        Self {
            moves_on_refusal: true,
            ..self
        }
    }

    /// How many queues have a handle.
    pub(crate) fn live_queues(&self) -> usize {
        Arc::strong_count(&self.alive) - 1
    }

    pub(crate) fn with_queues(self, most_queues: usize) -> Self {
        Self {
            most_queues,
            ..self
        }
    }
}

impl Queues for FakeDevice {
    fn create(&self, options: &QueueOptions) -> Result<Arc<dyn Queue>, DriverError> {
        if Arc::strong_count(&self.alive) > self.most_queues {
            let kind = ErrorKind::OutOfResources {
                resource: ResourceKind::Queues,
                limit: self.most_queues as u64,
            };
            return Err(DriverError::new(kind, Operation::CreateQueue, self.info.id));
        }
        let mut inner = self.machine.inner.lock();
        let index = inner.books.len();
        inner.books.push(Book {
            device: self.info.id.0,
            on_failure: options.on_failure,
            ..Book::default()
        });
        let hardware = match options.placement {
            Placement::Explicit(hardware) => hardware,
            _ => HardwareQueue(0),
        };
        Ok(Arc::new(FakeQueue {
            machine: Arc::clone(&self.machine),
            index,
            device: self.info.id,
            priority: options.priority,
            hardware,
            capacity: u64::from(self.info.limits.queue_commands),
            moves_on_refusal: self.moves_on_refusal,
            refusals: AtomicU64::new(0),
            _alive: Arc::clone(&self.alive),
        }))
    }
}

#[expect(unsafe_code, reason = "being a device is an unsafe promise")]
// SAFETY: it has no memory.
unsafe impl Device for FakeDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn status(&self) -> Result<(), DriverError> {
        Ok(())
    }
    fn record_error(&self, _: DriverError) {}
    fn take_error(&self) -> Option<DriverError> {
        None
    }
    fn memory(&self) -> &dyn Memory {
        unreachable!("streams take no memory")
    }
    fn queues(&self) -> &dyn Queues {
        self
    }
    fn kernels(&self) -> &dyn Kernels {
        unreachable!("streams load no kernels")
    }
    fn host_functions(&self) -> Option<&dyn HostFunctions> {
        self.has_facets.then_some(self)
    }
    fn semaphores(&self) -> Option<&dyn Semaphores> {
        self.has_facets.then_some(self)
    }
    fn timestamps(&self) -> Option<&dyn Timestamps> {
        self.has_facets.then_some(self)
    }
    fn priorities(&self) -> Option<PriorityRange> {
        self.has_facets.then_some(PriorityRange {
            highest: Priority(-2),
            lowest: Priority(0),
        })
    }
}

fn fake(queue: &dyn Queue) -> &FakeQueue {
    let queue: &dyn Any = queue;
    queue.downcast_ref().unwrap()
}

impl HostFunctions for FakeDevice {
    fn call(
        &self,
        queue: &dyn Queue,
        function: &mut Option<HostFunction>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        Ok(fake(queue).push_from(function, Work::Host, origin))
    }
}

#[derive(Debug)]
struct Pool(Arc<Mutex<Vec<Option<u64>>>>);

impl TimestampPool for Pool {
    fn len(&self) -> u32 {
        u32::try_from(self.0.lock().len()).unwrap()
    }
    fn read(&self, index: u32) -> Result<Option<u64>, DriverError> {
        Ok(self.0.lock()[index as usize])
    }
}

impl Timestamps for FakeDevice {
    fn now(&self) -> u64 {
        0
    }
    fn resolution(&self) -> u64 {
        10
    }
    fn create(&self, slots: u32) -> Result<Arc<dyn TimestampPool>, DriverError> {
        let slots = vec![None; slots as usize];
        Ok(Arc::new(Pool(Arc::new(Mutex::new(slots)))))
    }
}

pub(crate) fn slots(pool: &Arc<dyn TimestampPool>) -> Arc<Mutex<Vec<Option<u64>>>> {
    let pool: &dyn Any = &**pool;
    Arc::clone(&pool.downcast_ref::<Pool>().unwrap().0)
}

#[derive(Debug)]
struct Counter(Arc<Mutex<u64>>);

pub(crate) fn cell(semaphore: &Arc<dyn Semaphore>) -> Arc<Mutex<u64>> {
    let semaphore: &dyn Any = &**semaphore;
    Arc::clone(&semaphore.downcast_ref::<Counter>().unwrap().0)
}

#[expect(unsafe_code, reason = "implements the contract's semaphore")]
// SAFETY: the value only grows, and is read and written under one lock.
unsafe impl Semaphore for Counter {
    fn value(&self) -> u64 {
        *self.0.lock()
    }
    fn signal(&self, value: u64) -> Result<(), DriverError> {
        let mut current = self.0.lock();
        if value <= *current {
            let kind = ErrorKind::NotMonotonic {
                current: *current,
                given: value,
            };
            let id = DeviceId(0);
            return Err(DriverError::new(kind, Operation::SignalSemaphore, id));
        }
        *current = value;
        Ok(())
    }
}

impl Semaphores for FakeDevice {
    fn create(&self, initial: u64, _: SignalledBy) -> Result<Arc<dyn Semaphore>, DriverError> {
        Ok(Arc::new(Counter(Arc::new(Mutex::new(initial)))))
    }
}
