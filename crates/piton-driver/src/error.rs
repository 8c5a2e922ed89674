//! What a driver call reports when it fails: kind with its numbers, operation, device, vendor code.
//!
//! The error is small and `Copy`: it is stored in queues, counters and error slots without allocation.
//! Vendor codes are an open set, so they are a newtype and not an enum; each backend decodes its own in one
//! file, `status.rs`.

use crate::{DeviceId, DevicePtr, Position, QueueId};
use std::fmt;
use thiserror::Error;

/// A failed driver call, or a command that failed on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{operation} failed{}: {kind}{}", OnDevice(*.device), WithCode(*.code))]
pub struct DriverError {
    /// What went wrong, with the numbers that explain it.
    #[source]
    pub kind: ErrorKind,
    /// The call that failed.
    pub operation: Operation,
    /// The device it was meant for, where there was one.
    pub device: Option<DeviceId>,
    /// The vendor's own number, where there was one.
    pub code: Option<VendorCode>,
}

impl DriverError {
    /// An error of `kind` from `operation` on `device`.
    pub const fn new(kind: ErrorKind, operation: Operation, device: DeviceId) -> Self {
        Self {
            kind,
            operation,
            device: Some(device),
            code: None,
        }
    }

    /// The same error with the vendor's number beside it.
    pub const fn with_code(mut self, code: VendorCode) -> Self {
        self.code = Some(code);
        self
    }

    /// Whether the device is gone for good: nothing but closing helps.
    pub const fn is_device_lost(&self) -> bool {
        matches!(self.kind, ErrorKind::DeviceLost)
    }

    /// Whether giving memory back may let the same call succeed.
    pub const fn is_out_of_memory(&self) -> bool {
        matches!(self.kind, ErrorKind::OutOfMemory { .. })
    }
}

struct OnDevice(Option<DeviceId>);

impl fmt::Display for OnDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |device| write!(f, " on {device}"))
    }
}

struct WithCode(Option<VendorCode>);

impl fmt::Display for WithCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .map_or(Ok(()), |code| write!(f, " (vendor code {})", code.0))
    }
}

/// A vendor's status number. Only the backend it came from knows what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VendorCode(pub i64);

/// What went wrong. Sizes are bytes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ErrorKind {
    /// The device has too little memory left.
    #[error("out of memory: {requested} bytes requested, {free} of {capacity} free")]
    OutOfMemory {
        /// Bytes asked for, rounded to the granularity.
        requested: u64,
        /// Bytes the device had left.
        free: u64,
        /// Bytes the device has in all.
        capacity: u64,
    },
    /// No hole of that size is left in the device's address space.
    #[error("out of address space: {requested} bytes requested of {capacity}")]
    OutOfAddressSpace {
        /// Bytes asked for.
        requested: u64,
        /// Bytes of address space in all.
        capacity: u64,
    },
    /// A countable resource is used up.
    #[error("out of {resource}: the limit is {limit}")]
    OutOfResources {
        /// Which one.
        resource: ResourceKind,
        /// How many there are.
        limit: u64,
    },
    /// A size is zero or too large.
    #[error("size {bytes} is not between 1 and {maximum}")]
    InvalidSize {
        /// The size given.
        bytes: u64,
        /// The largest allowed.
        maximum: u64,
    },
    /// An address or size is not a multiple of what it must be.
    #[error("{value:#x} is not a multiple of {alignment}")]
    Misaligned {
        /// The address or size given.
        value: u64,
        /// What it must be a multiple of.
        alignment: u64,
    },
    /// No allocation or mapping of the device covers these bytes.
    #[error("{bytes} bytes at {address} are not memory of the device")]
    UnknownAddress {
        /// First byte.
        address: DevicePtr,
        /// How many.
        bytes: u64,
    },
    /// The range already holds a mapping or reservation.
    #[error("{bytes} bytes at {address} are mapped already")]
    AlreadyMapped {
        /// First byte.
        address: DevicePtr,
        /// How many.
        bytes: u64,
    },
    /// The physical handle names nothing.
    #[error("physical handle {handle} names no memory")]
    UnknownHandle {
        /// The handle's number.
        handle: u64,
    },
    /// Physical memory that was not created to be shared with other processes, or is another process's.
    #[error("physical handle {handle} was not created to be exported")]
    NotShareable {
        /// The handle's number.
        handle: u64,
    },
    /// What is to be imported is no physical memory of that size.
    #[error("what is imported is not {bytes} bytes of physical memory")]
    NotExported {
        /// How many bytes it should be.
        bytes: u64,
    },
    /// A semaphore that was not created to be shared with other processes.
    #[error("the semaphore was not created to be exported")]
    PrivateSemaphore,
    /// What is to be imported is no semaphore.
    #[error("what is imported is no semaphore")]
    NotASemaphore,
    /// Host memory in an asynchronous copy is not page-locked or registered.
    #[error("{bytes} host bytes at {address:#x} are not page-locked for the device")]
    NotPageLocked {
        /// First host byte.
        address: u64,
        /// How many.
        bytes: u64,
    },
    /// The system refused to lock host pages.
    #[error("locking {requested} bytes of host memory was refused; RLIMIT_MEMLOCK is {limit}")]
    LockRefused {
        /// Bytes to be locked.
        requested: u64,
        /// The limit in force; `u64::MAX` means none.
        limit: u64,
    },
    /// The system has no more host memory to map.
    #[error("the host could not map {requested} bytes")]
    OutOfHostMemory {
        /// Bytes to be mapped.
        requested: u64,
    },
    /// No module of that name, or its format is not read.
    #[error("no such module")]
    UnknownModule,
    /// The module has no kernel of that name.
    #[error("no such kernel in the module")]
    UnknownKernel,
    /// The packed arguments do not have the size of the kernel's signature.
    #[error("{given} bytes of arguments where the kernel takes {expected}")]
    InvalidArguments {
        /// Bytes the signature packs to.
        expected: u64,
        /// Bytes given.
        given: u64,
    },
    /// A grid has no blocks or too many.
    #[error("a grid of {blocks} blocks is not between 1 and {maximum}")]
    InvalidGrid {
        /// Blocks asked for; `u64::MAX` where the product overflows.
        blocks: u64,
        /// Most allowed.
        maximum: u64,
    },
    /// A priority outside the device's range. Smaller is higher.
    #[error("priority {given} is not between {highest} (highest) and {lowest} (lowest)")]
    InvalidPriority {
        /// The priority given.
        given: i32,
        /// The highest: the smallest number.
        highest: i32,
        /// The lowest: the largest number.
        lowest: i32,
    },
    /// An index past the end of what it indexes.
    #[error("index {index} is not below {limit}")]
    InvalidIndex {
        /// The index given.
        index: u64,
        /// One past the last.
        limit: u64,
    },
    /// A queue, kernel or pool of another device or driver.
    #[error("the object belongs to another device or driver: it is of {given}")]
    ForeignObject {
        /// Its device, as the driver it belongs to numbers them.
        given: DeviceId,
    },
    /// The position was never given out by the queue.
    #[error("position {} was never submitted; the last is {}", .position.get(), .submitted.get())]
    UnknownPosition {
        /// The position named.
        position: Position,
        /// The queue's last.
        submitted: Position,
    },
    /// A counter may only grow.
    #[error("{given} is not above the semaphore's {current}")]
    NotMonotonic {
        /// The value now.
        current: u64,
        /// The value given.
        given: u64,
    },
    /// The two devices cannot reach each other's memory, or peer access is not enabled.
    #[error("no peer access from {from} to {to}")]
    NotPeers {
        /// The device that would access.
        from: DeviceId,
        /// The device whose memory it is.
        to: DeviceId,
    },
    /// A kernel failed while it ran.
    #[error("the kernel failed: {0}")]
    KernelFault(Fault),
    /// A host function panicked.
    #[error("the host function panicked")]
    HostFunctionPanicked,
    /// A command was skipped because what it waited for had failed.
    #[error("a wait on position {} of {queue} met a failure", .position.get())]
    DependencyFailed {
        /// The queue that failed.
        queue: QueueId,
        /// The position waited for.
        position: Position,
    },
    /// Nothing can run and nothing can arrive that would change it.
    #[error("deadlock: nothing is ready to run and {waiting} queues wait")]
    Deadlock {
        /// How many queues wait.
        waiting: u64,
    },
    /// Queues wait for each other in a circle that nothing outside it can break.
    #[error("deadlock: a circle of {length} queues, in which this one waits for {awaited}")]
    DeadlockCycle {
        /// The next queue of the circle.
        awaited: QueueId,
        /// How many queues there are in it.
        length: u32,
    },
    /// Nobody is left who could raise the semaphore.
    #[error("nobody is left to raise a semaphore from {current} to {wanted}")]
    NeverSignalled {
        /// Its value.
        current: u64,
        /// The value waited for.
        wanted: u64,
    },
    /// The command was aborted before it ran.
    #[error("aborted before it ran")]
    Aborted,
    /// What must have drained has not.
    #[error("{submitted} commands were submitted and {completed} have ended")]
    NotDrained {
        /// The last position given out.
        submitted: u64,
        /// The last that has ended.
        completed: u64,
    },
    /// A node of a graph is another kind of work than the one given for it, or takes another signature.
    #[error("node {node} of the graph is another kind of work")]
    OtherNode {
        /// Which node.
        node: u32,
    },
    /// Only queues may raise this semaphore.
    #[error("only queues may signal this semaphore")]
    NotForHost,
    /// This process is a fork of the one that opened the device, whose threads and device did not come along.
    #[error("the device was opened by another process, of which this one is a fork")]
    Forked,
    /// The device cannot do this at all.
    #[error("the device cannot do this")]
    Unsupported,
    /// The device is gone; every later call says so too.
    #[error("the device is lost")]
    DeviceLost,
    /// The device keeps the books of memory and backs none, so nothing can read or write it.
    #[error("the device backs no memory with pages")]
    NotBacked,
    /// A failure injected by a test's fault plan.
    #[error("a fault plan made call {call} of this kind fail")]
    Injected {
        /// Which call it was, from 1.
        call: u64,
    },
    /// The operating system said no.
    #[error("the operating system answered error {errno}")]
    System {
        /// Its error number.
        errno: i32,
    },
    /// The vendor's driver failed in a way this contract has no word for; see the vendor code.
    #[error("the vendor's driver failed")]
    Vendor,
}

/// What a kernel did that the device refused.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// It reached for memory that is not there.
    #[error("{bytes} bytes at {address} are not memory it may reach")]
    OutOfBounds {
        /// First byte.
        address: DevicePtr,
        /// How many.
        bytes: u64,
    },
    /// It reached for a value at an address that is not a multiple of the value's alignment.
    #[error("address {address} is not a multiple of {alignment}")]
    Misaligned {
        /// The address.
        address: DevicePtr,
        /// What it must be a multiple of.
        alignment: u64,
    },
    /// Two of its blocks, or two borrows in one block, used the same bytes and one of them writes.
    #[error("two uses of {bytes} bytes at {address} conflict, and one writes")]
    Race {
        /// First byte of the later use.
        address: DevicePtr,
        /// Its length.
        bytes: u64,
    },
    /// It asked for an argument that its signature has not, or as another type.
    #[error("argument {index} is not of the type asked for")]
    WrongArgument {
        /// Which argument, from 0.
        index: u32,
    },
    /// It panicked.
    #[error("a block panicked")]
    Panicked,
    /// It stopped itself with a code of its own.
    #[error("it trapped with code {code}")]
    Trapped {
        /// Its code.
        code: u32,
    },
    /// It ran past the time allowed, and was stopped.
    #[error("it did not end in the time allowed")]
    TimedOut,
}

/// A countable thing a device has a fixed number of.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// Queues.
    Queues,
    /// Hardware queues to be held exclusively.
    HardwareQueues,
    /// Mappings the operating system allows.
    Mappings,
    /// Bytes of argument space.
    ArgumentBytes,
    /// Slots of timestamp pools.
    Timestamps,
    /// Threads of the host.
    Threads,
    /// Something of the device's that its driver does not name.
    Device,
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queues => "queues",
            Self::HardwareQueues => "hardware queues to hold exclusively",
            Self::Mappings => "mappings",
            Self::ArgumentBytes => "argument bytes",
            Self::Timestamps => "timestamp slots",
            Self::Threads => "host threads",
            Self::Device => "resources of the device",
        })
    }
}

macro_rules! operations {
    ($($name:ident $text:literal $doc:literal,)*) => {
        /// A call of the contract, as errors, fault plans and traces name it.
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Operation { $(#[doc = $doc] $name,)* }

        impl Operation {
            /// Every operation, in the order of the contract.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The operation in words.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

operations! {
    Open "opening the device" "[`crate::Driver::open`].",
    QueryStatus "asking whether the device works" "[`crate::Device::status`].",
    AllocateMemory "allocating device memory" "[`crate::Memory::allocate`].",
    FreeMemory "freeing device memory" "[`crate::Memory::free`].",
    QueryMemory "asking for memory usage" "[`crate::Memory::usage`].",
    ReserveAddresses "reserving addresses" "[`crate::VirtualMemory::reserve`].",
    ReleaseAddresses "releasing addresses" "[`crate::VirtualMemory::release`].",
    CreatePhysical "creating physical memory" "[`crate::VirtualMemory::create`].",
    DestroyPhysical "destroying physical memory" "[`crate::VirtualMemory::destroy`].",
    ExportPhysical "exporting physical memory" "[`crate::PageSharing::export`].",
    ImportPhysical "importing physical memory" "[`crate::PageSharing::import`].",
    Map "mapping memory" "[`crate::VirtualMemory::map`].",
    Unmap "unmapping memory" "[`crate::VirtualMemory::unmap`].",
    AllocateHost "allocating host memory" "[`crate::HostMemory::allocate`].",
    FreeHost "freeing host memory" "[`crate::HostMemory::free`].",
    RegisterHost "registering host memory" "[`crate::HostMemory::register`].",
    UnregisterHost "unregistering host memory" "[`crate::HostMemory::unregister`].",
    CreateQueue "creating a queue" "[`crate::Queues::create`].",
    LoadModule "loading a module" "[`crate::Kernels::load`].",
    GetKernel "looking a kernel up" "[`crate::Module::kernel`].",
    Launch "launching a kernel" "[`crate::Command::Launch`].",
    CopyToDevice "copying to the device" "[`crate::Command::CopyToDevice`].",
    CopyToHost "copying to the host" "[`crate::Command::CopyToHost`].",
    CopyOnDevice "copying on the device" "[`crate::Command::CopyOnDevice`].",
    CopyPeer "copying between devices" "[`crate::Command::CopyPeer`].",
    Fill "filling memory" "[`crate::Command::Fill`].",
    WaitQueue "waiting for another queue" "[`crate::Command::WaitQueue`].",
    CallHost "calling a host function" "[`crate::HostFunctions::call`].",
    CreateSemaphore "creating a semaphore" "[`crate::Semaphores::create`].",
    ExportSemaphore "exporting a semaphore" "[`crate::SemaphoreSharing::export`].",
    ImportSemaphore "importing a semaphore" "[`crate::SemaphoreSharing::import`].",
    WaitSemaphore "waiting for a semaphore" "[`crate::Command::WaitSemaphore`].",
    SignalSemaphore "signalling a semaphore" "[`crate::Command::SignalSemaphore`].",
    CreateTimestamps "creating timestamps" "[`crate::Timestamps::create`].",
    WriteTimestamp "writing a timestamp" "[`crate::Command::WriteTimestamp`].",
    WaitMemory "waiting for a value in memory" "[`crate::Command::WaitMemory`].",
    WriteMemory "writing a value into memory" "[`crate::Command::WriteMemory`].",
    InstantiateGraph "instantiating a graph" "[`crate::Graphs::instantiate`].",
    UpdateGraph "updating a graph" "[`crate::ExecutableGraph::update`].",
    RunGraph "running a graph" "[`crate::Command::RunGraph`].",
    Abort "aborting a queue" "[`crate::Queue::abort`].",
    ClearFailure "clearing a queue's failure" "[`crate::Queue::clear_failure`].",
    EnablePeer "enabling peer access" "[`crate::Peers::enable`].",
    Flush "flushing a queue" "[`crate::Queue::flush`].",
    Wait "waiting on the host" "[`crate::Queue::wait`].",
    Notify "asking to be woken" "[`crate::Queue::notify`].",
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_call_device_numbers_and_code() {
        let kind = ErrorKind::OutOfMemory {
            requested: 4096,
            free: 512,
            capacity: 8192,
        };
        let error =
            DriverError::new(kind, Operation::AllocateMemory, DeviceId(3)).with_code(VendorCode(2));
        assert_eq!(
            error.to_string(),
            "allocating device memory failed on device 3: out of memory: 4096 bytes requested, \
             512 of 8192 free (vendor code 2)"
        );
        assert!(error.is_out_of_memory() && !error.is_device_lost());
    }
}
