//! What a backend brings: its device, and its vendor's queues, events, kernels.
//!
//! The queue of this crate is written once against these traits. A backend's device implements [`NativeDevice`], and hands
//! out [`InOrderQueue`](crate::InOrderQueue)s, semaphores and host functions of this crate as its own.

#![expect(
    unsafe_code,
    reason = "declares what backends promise the queue that is built on them"
)]

use crate::{Driven, Standing};
use piton_driver::{
    Device, DeviceId, DriverError, ErrorKind, FillPattern, Grid, Kernel, Operation, Parameter,
    Priority, QueueId, TimestampPool,
};
use std::{fmt::Debug, ops::Range, sync::Arc};

/// A status code of the vendor's.
pub trait VendorStatus: Copy + Debug + Send + Sync + 'static {
    /// Whose, as people call it.
    const VENDOR: &'static str;

    /// The error of `operation` on `device` that it stands for.
    fn error(self, operation: Operation, device: DeviceId) -> DriverError;
}

/// How a command that was handed over stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<S> {
    /// It has not ended.
    Pending,
    /// It has ended well.
    Done,
    /// It has ended with this code.
    Failed(S),
}

/// Who is told that an event is over, perhaps on a thread of the vendor's: does next to nothing.
pub trait Listener: Send + Sync + 'static {
    /// The event is over, well or not. Its effects need not be visible yet: ask the event.
    fn over(self: Arc<Self>);
}

/// What says when a command that was handed over has ended. A clone is another handle of the same.
pub trait NativeEvent: Clone + Debug + Send + Sync + 'static {
    /// The vendor's codes.
    type Status: VendorStatus;

    /// How the command stands. Cheap, does not block, and need make nothing visible: [`wait`](Self::wait) does.
    fn progress(&self) -> Progress<Self::Status>;

    /// Blocks until the command has ended; what it wrote is then visible to the host. Returns at once if it has. True
    /// where the wait itself tells that it ended well; else [`progress`](Self::progress) says how.
    fn wait(&self) -> bool;

    /// Tells `listener` once when the command has ended, perhaps before this returns.
    ///
    /// # Errors
    /// The vendor's code: then nobody will be told.
    fn tell<L: Listener>(&self, listener: Arc<L>) -> Result<(), Self::Status>;

    /// When the command started and ended, in nanoseconds of the device's clock, where its queue keeps times.
    fn times(&self) -> Option<(u64, u64)>;
}

/// Between what a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyWay {
    /// From the host to the queue's device.
    ToDevice,
    /// From the queue's device to the host.
    ToHost,
    /// Within the queue's device.
    OnDevice,
    /// Between two devices, one of which is the queue's.
    Peer {
        /// Whose memory is written.
        to: DeviceId,
        /// Whose memory is read.
        from: DeviceId,
    },
}

/// A copy that was checked: both ends are live, of the devices that its way says, and do not overlap. Host addresses are
/// those of pointers whose provenance is exposed.
#[derive(Clone, Copy, Debug)]
pub struct NativeCopy {
    /// First byte written.
    pub dst: u64,
    /// First byte read.
    pub src: u64,
    /// How many.
    pub bytes: u64,
    /// Between what.
    pub way: CopyWay,
}

/// A launch that was checked: the arguments have the signature's size, the grid some blocks, and each buffer is memory that
/// the device reaches, as far as is said.
#[derive(Clone, Copy, Debug)]
pub struct NativeLaunch<'a> {
    /// The queue of the contract's that it is for.
    pub of: QueueId,
    /// How many blocks.
    pub grid: Grid,
    /// The arguments, packed.
    pub arguments: &'a [u8],
    /// How far each buffer reaches, in their order; nothing at all where nobody says.
    pub extents: &'a [u64],
}

/// An in-order queue of the vendor's. Several queues of the contract may be on one. Handing a command over never waits for
/// the device.
pub trait NativeQueue<D: NativeDevice>: Debug + Send + Sync + 'static {
    /// Launches a kernel.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`], for a launch.
    ///
    /// # Errors
    /// The vendor's code: nothing was handed over.
    unsafe fn launch(
        &self,
        kernel: &D::Kernel,
        launch: NativeLaunch<'_>,
    ) -> Result<D::Event, D::Status>;

    /// Copies.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`], for a copy.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    unsafe fn copy(&self, copy: NativeCopy) -> Result<D::Event, D::Status>;

    /// Fills memory with a pattern, to whose size both numbers are aligned.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`], for a fill.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    unsafe fn fill(
        &self,
        dst: u64,
        pattern: FillPattern,
        bytes: u64,
    ) -> Result<D::Event, D::Status>;

    /// Later commands start when `awaited`, an event of any device of the driver, has ended.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    fn barrier(&self, awaited: &D::Event) -> Result<D::Event, D::Status>;

    /// Has the time written into a slot when all earlier commands have ended.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    fn stamp(&self, slots: &D::Slots, index: u32) -> Result<D::Event, D::Status>;

    /// Gives the device what was handed over.
    ///
    /// # Errors
    /// The vendor's code.
    fn flush(&self) -> Result<(), D::Status>;
}

/// A kernel of the backend's.
pub trait NativeKernel<D>: Kernel {
    /// Whether it is loaded on this device.
    fn is_of(&self, device: &D) -> bool;

    /// Each parameter, and where it lies in the packed arguments.
    fn layout(&self) -> &[(Parameter, Range<usize>)];
}

/// Slots of the backend's that times are written into.
pub trait NativeSlots<D>: TimestampPool {
    /// Whether they are this device's.
    fn is_of(&self, device: &D) -> bool;

    /// Whose they are.
    fn device(&self) -> DeviceId;
}

/// A backend's device.
///
/// # Safety
/// Implementers promise that an event of a queue says [`Done`](Progress::Done) or [`Failed`](Progress::Failed) only when
/// the device has done with the command and all before it on that queue, and that commands of one queue run in order. The
/// queues built on them are believed by unsafe code.
pub unsafe trait NativeDevice: Device + Sized {
    /// The backend's name, for its threads.
    const NAME: &'static str;

    /// The vendor's codes.
    type Status: VendorStatus;
    /// What says when a command has ended.
    type Event: NativeEvent<Status = Self::Status>;
    /// The vendor's queues.
    type Queue: NativeQueue<Self>;
    /// Its kernels.
    type Kernel: NativeKernel<Self>;
    /// Its slots for times.
    type Slots: NativeSlots<Self>;

    /// What all devices of the driver share.
    fn driven(&self) -> &Arc<Driven<Self>>;

    /// How the device stands.
    fn standing(&self) -> &Standing<Self>;

    /// A counted handle of this device; whoever calls holds one, so there is one.
    fn counted(&self) -> Option<Arc<Self>>;

    /// Makes a queue of the vendor's with a priority that the device knows.
    ///
    /// # Errors
    /// The vendor's code.
    fn make_queue(&self, priority: Priority) -> Result<Self::Queue, Self::Status>;

    /// Whether one live allocation or mapping of the device holds these bytes.
    fn holds(&self, address: u64, bytes: u64) -> bool;

    /// Whether one live run of page-locked host memory holds these bytes.
    fn holds_host(&self, address: u64, bytes: u64) -> bool;

    /// Whether kernels of the device reach these bytes.
    fn reaches(&self, address: u64, bytes: u64) -> bool;

    /// What addresses of kernels' buffers must be multiples of: a power of two.
    fn buffer_alignment(&self) -> u64 {
        1
    }

    /// Another device of the driver, if it is open.
    fn opened(&self, device: DeviceId) -> Option<Arc<Self>>;

    /// The error for a refusal of the contract's.
    fn refusal(&self, kind: ErrorKind, operation: Operation) -> DriverError {
        DriverError::new(kind, operation, self.info().id)
    }
}
