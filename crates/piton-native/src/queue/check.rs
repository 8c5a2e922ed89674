//! Commands against the device's books, and this backend's objects behind the contract's.

use super::{
    Core, InOrderQueue,
    request::Request,
    state::{Awaited, Tag},
};
use crate::{
    backend::{CopyWay, NativeCopy, NativeDevice, NativeKernel, NativeSlots},
    semaphore::SemaphoreCore,
};
use piton_driver::{
    Command, DeviceId, DriverError, ErrorKind, FillPattern, Kernel, Launch, Operation, Origin,
    Parameter, PeerAddress, Position, Queue, TimestampPool,
};
use std::{any::Any, ptr::NonNull, sync::Arc};

/// Checks a command against the device's books, and finds this backend's objects behind the contract's.
pub(super) fn check<'a, D: NativeDevice>(
    core: &Core<D>,
    command: &Command<'a>,
    origin: Origin,
) -> Result<(Request<'a, D>, Tag), DriverError> {
    let device = &*core.device;
    device.standing().alive(command.operation())?;
    let mut tag = Tag {
        operation: command.operation(),
        origin,
        bytes: 0,
        kernel: None,
        peer: None,
    };
    let check = Check {
        device,
        operation: tag.operation,
    };
    let request = match *command {
        Command::Launch(launch) => {
            if device.standing().trace.is_on() {
                tag.kernel = Some(launch.kernel.name().into());
            }
            check.launch(launch)?
        }
        Command::CopyToDevice { dst, src, bytes } => {
            check.copy_host(dst.address(), src, bytes, true)?
        }
        Command::CopyToHost { dst, src, bytes } => {
            check.copy_host(src.address(), dst, bytes, false)?
        }
        Command::CopyOnDevice { dst, src, bytes } => {
            check.copy_on_device(dst.address(), src.address(), bytes)?
        }
        Command::CopyPeer { dst, src, bytes } => {
            let own = device.info().id;
            tag.peer = Some(if src.device == own {
                dst.device
            } else {
                src.device
            });
            check.copy_peer(dst, src, bytes)?
        }
        Command::Fill {
            dst,
            pattern,
            bytes,
        } => check.fill(dst.address(), pattern, bytes)?,
        Command::WaitQueue {
            queue,
            position,
            inherits,
        } => check.other_queue(queue, position, inherits)?,
        Command::WaitSemaphore { semaphore, value } => Request::WaitSemaphore {
            semaphore: check.semaphore(&**semaphore)?,
            value,
        },
        Command::SignalSemaphore { semaphore, value } => Request::Signal {
            semaphore: check.semaphore(&**semaphore)?,
            value,
        },
        Command::WriteTimestamp { pool, index } => check.timestamp(pool, index)?,
        _ => return Err(check.error(ErrorKind::Unsupported)),
    };
    tag.bytes = match request {
        Request::Copy(NativeCopy { bytes, .. }) | Request::Fill { bytes, .. } => bytes,
        _ => 0,
    };
    Ok((request, tag))
}

/// What a command is checked against.
struct Check<'d, D> {
    device: &'d D,
    operation: Operation,
}

impl<D: NativeDevice> Check<'_, D> {
    fn error(&self, kind: ErrorKind) -> DriverError {
        self.device.refusal(kind, self.operation)
    }

    fn foreign(&self, given: DeviceId) -> DriverError {
        self.error(ErrorKind::ForeignObject { given })
    }

    fn other_queue<'a>(
        &self,
        queue: &(dyn Queue + 'static),
        position: Position,
        inherits: bool,
    ) -> Result<Request<'a, D>, DriverError> {
        let other = (queue as &dyn Any).downcast_ref::<InOrderQueue<D>>();
        let other =
            other.filter(|other| Arc::ptr_eq(self.device.driven(), other.core().device.driven()));
        let other = other.ok_or_else(|| self.foreign(queue.device()))?.core();
        other.known(position, self.operation)?;
        Ok(Request::Wait(Awaited {
            queue: Arc::clone(other),
            position: position.get(),
            inherits,
        }))
    }

    fn size(&self, bytes: u64) -> Result<(), DriverError> {
        let maximum = self.device.info().limits.copy_bytes;
        if bytes == 0 || bytes > maximum {
            return Err(self.error(ErrorKind::InvalidSize { bytes, maximum }));
        }
        Ok(())
    }

    /// The bytes lie in one allocation of the device.
    fn own(&self, address: u64, bytes: u64) -> Result<(), DriverError> {
        if self.device.holds(address, bytes) {
            return Ok(());
        }
        Err(self.unknown(address, bytes))
    }

    fn unknown(&self, address: u64, bytes: u64) -> DriverError {
        let address = piton_driver::DevicePtr::new(address);
        self.error(ErrorKind::UnknownAddress { address, bytes })
    }

    /// A copy between the device and page-locked host memory.
    fn copy_host<'a>(
        &self,
        own: u64,
        host: NonNull<u8>,
        bytes: u64,
        is_to_device: bool,
    ) -> Result<Request<'a, D>, DriverError> {
        self.size(bytes)?;
        self.own(own, bytes)?;
        if !self.device.holds_host(host.as_ptr().addr() as u64, bytes) {
            let address = host.as_ptr().addr() as u64;
            return Err(self.error(ErrorKind::NotPageLocked { address, bytes }));
        }
        let host = host.as_ptr().expose_provenance() as u64;
        let (dst, src, way) = if is_to_device {
            (own, host, CopyWay::ToDevice)
        } else {
            (host, own, CopyWay::ToHost)
        };
        Ok(Request::Copy(NativeCopy {
            dst,
            src,
            bytes,
            way,
        }))
    }

    fn copy<'a>(
        &self,
        dst: u64,
        src: u64,
        bytes: u64,
        way: CopyWay,
        ends: impl FnOnce(&Self) -> Result<(), DriverError>,
    ) -> Result<Request<'a, D>, DriverError> {
        self.size(bytes)?;
        ends(self)?;
        Ok(Request::Copy(NativeCopy {
            dst,
            src,
            bytes,
            way,
        }))
    }

    fn copy_on_device<'a>(
        &self,
        dst: u64,
        src: u64,
        bytes: u64,
    ) -> Result<Request<'a, D>, DriverError> {
        let request = self.copy(dst, src, bytes, CopyWay::OnDevice, |check| {
            check.own(dst, bytes)?;
            check.own(src, bytes)
        })?;
        if dst.abs_diff(src) < bytes {
            let address = piton_driver::DevicePtr::new(src);
            return Err(self.error(ErrorKind::AlreadyMapped { address, bytes }));
        }
        Ok(request)
    }

    fn copy_peer<'a>(
        &self,
        dst: PeerAddress,
        src: PeerAddress,
        bytes: u64,
    ) -> Result<Request<'a, D>, DriverError> {
        let own = self.device.info().id;
        let other = if src.device == own { dst } else { src };
        let is_pair = dst.device != src.device && (dst.device == own || src.device == own);
        if !is_pair || !self.device.standing().has_enabled(other.device) {
            return Err(self.error(ErrorKind::NotPeers {
                from: own,
                to: other.device,
            }));
        }
        let near = if src.device == own { src } else { dst };
        let way = CopyWay::Peer {
            to: dst.device,
            from: src.device,
        };
        self.copy(dst.ptr.address(), src.ptr.address(), bytes, way, |check| {
            check.own(near.ptr.address(), bytes)?;
            let holds = |device: Arc<D>| device.holds(other.ptr.address(), bytes);
            let is_there = check.device.opened(other.device).is_some_and(holds);
            if is_there {
                Ok(())
            } else {
                Err(check.unknown(other.ptr.address(), bytes))
            }
        })
    }

    fn fill<'a>(
        &self,
        dst: u64,
        pattern: FillPattern,
        bytes: u64,
    ) -> Result<Request<'a, D>, DriverError> {
        self.size(bytes)?;
        let alignment = pattern.bytes();
        for value in [dst, bytes] {
            if !value.is_multiple_of(alignment) {
                return Err(self.error(ErrorKind::Misaligned { value, alignment }));
            }
        }
        self.own(dst, bytes)?;
        Ok(Request::Fill {
            dst,
            pattern,
            bytes,
        })
    }

    fn semaphore(
        &self,
        semaphore: &dyn piton_driver::Semaphore,
    ) -> Result<Arc<SemaphoreCore<D>>, DriverError> {
        let own = crate::semaphore::core_of(semaphore);
        let own = own.filter(|core| core.is_of(self.device.driven()));
        own.cloned()
            .ok_or_else(|| self.foreign(self.device.info().id))
    }

    fn timestamp<'a>(
        &self,
        pool: &'a Arc<dyn TimestampPool>,
        index: u32,
    ) -> Result<Request<'a, D>, DriverError> {
        let slots = (&**pool as &dyn Any).downcast_ref::<D::Slots>();
        let slots = slots.ok_or_else(|| self.foreign(self.device.info().id))?;
        if !slots.is_of(self.device) {
            return Err(self.foreign(slots.device()));
        }
        let limit = pool.len();
        if index >= limit {
            let (index, limit) = (index.into(), limit.into());
            return Err(self.error(ErrorKind::InvalidIndex { index, limit }));
        }
        Ok(Request::Timestamp { pool, slots, index })
    }

    fn launch<'a>(&self, launch: Launch<'a>) -> Result<Request<'a, D>, DriverError> {
        let loaded = (&**launch.kernel as &dyn Any).downcast_ref::<D::Kernel>();
        let loaded = loaded.filter(|kernel| kernel.is_of(self.device));
        let loaded = loaded.ok_or_else(|| self.foreign(launch.kernel.device()))?;
        let (blocks, maximum) = (launch.grid.blocks(), self.device.info().limits.grid_blocks);
        if !blocks.is_some_and(|blocks| (1..=maximum).contains(&blocks)) {
            let blocks = blocks.unwrap_or(u64::MAX);
            return Err(self.error(ErrorKind::InvalidGrid { blocks, maximum }));
        }
        let signature = loaded.signature();
        let (expected, given) = (signature.packed_bytes(), launch.arguments.len() as u64);
        if expected != given {
            return Err(self.error(ErrorKind::InvalidArguments { expected, given }));
        }
        if !launch.extents.is_empty() && launch.extents.len() != signature.buffers() {
            let (expected, given) = (signature.buffers() as u64, launch.extents.len() as u64);
            return Err(self.error(ErrorKind::InvalidArguments { expected, given }));
        }
        self.buffers(&launch, loaded)?;
        Ok(Request::Launch {
            kernel: launch.kernel,
            loaded,
            grid: launch.grid,
            arguments: launch.arguments,
            extents: launch.extents,
        })
    }

    /// Each buffer is memory that the device reaches, as far as the caller says that it goes.
    fn buffers(&self, launch: &Launch<'_>, loaded: &D::Kernel) -> Result<(), DriverError> {
        let mut extents = launch.extents.iter();
        let alignment = self.device.buffer_alignment();
        for (parameter, place) in loaded.layout() {
            if !matches!(parameter, Parameter::Buffer { .. }) {
                continue;
            }
            let address = launch.arguments[place.clone()].first_chunk();
            let address = address.map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            let bytes = extents.next().copied().unwrap_or(1);
            if !self.device.reaches(address, bytes) {
                return Err(self.unknown(address, bytes));
            }
            // A power of two: no division on the way of every launch.
            if address & (alignment - 1) != 0 {
                let value = address;
                return Err(self.error(ErrorKind::Misaligned { value, alignment }));
            }
        }
        Ok(())
    }
}
