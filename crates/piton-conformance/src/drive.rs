//! The one place of the suite that calls the contract's unsafe methods.
//!
//! # Why the functions here are safe
//! Memory is owned by [`DeviceBuffer`] and [`HostBuffer`]. Every accepted command is noted with the buffers it
//! names, and a buffer waits for those commands before it is read or given back; if it cannot, it leaks. So no
//! command outlives its memory, and no host access meets one. Ranges are given as offsets and lengths, and are
//! wrong in some cases on purpose: those commands must be refused, and a backend that takes them has failed.
//! Conflicting commands without order between them are left to cases that state what they expect.

#![expect(
    unsafe_code,
    reason = "the contract's methods are driven here and nowhere else"
)]

mod host;

pub(crate) use host::{
    HostBuffer, admits_again, unregister_stranger, with_admitted, with_registered,
};

use crate::outcome::{Failure, ensure, ensure_eq};
use piton_driver::{
    Admission, Command, Comparison, Device, DevicePtr, DeviceRange, DriverError, ErrorKind,
    ExecutableGraph, FillPattern, Grid, Kernel, Launch, MemoryWait, MemoryWord, Operation,
    Parameter, PeerAddress, PhysicalHandle, Position, Queue, QueueWait, QueueWriter, VirtualMemory,
    WaitOutcome,
};
use std::{cell::RefCell, panic::Location, ptr::NonNull, sync::Arc};

type Submitted = Result<Admission, DriverError>;

/// Commands that name a buffer.
#[derive(Debug, Default)]
struct Users(RefCell<Vec<(Arc<dyn Queue>, Position)>>);

impl Users {
    fn note(&self, queue: &Arc<dyn Queue>, submitted: &Submitted) {
        if let Ok(Admission::Accepted(position)) = submitted {
            let mut users = self.0.borrow_mut();
            users.retain(|(user, _)| user.id() != queue.id());
            users.push((Arc::clone(queue), *position));
        }
    }

    /// Whether all of them have ended.
    fn have_ended(&self) -> bool {
        let users = self.0.take();
        users
            .iter()
            .all(|(queue, position)| queue.wait(*position, None) == Ok(WaitOutcome::Reached))
    }
}

/// Device memory that is given back when dropped.
#[derive(Debug)]
pub(crate) struct DeviceBuffer {
    device: Arc<dyn Device>,
    start: DevicePtr,
    bytes: u64,
    users: Users,
    is_owner: bool,
}

impl DeviceBuffer {
    #[track_caller]
    pub(crate) fn new(device: &Arc<dyn Device>, bytes: u64) -> Result<Self, Failure> {
        let start = device.memory().allocate(bytes)?;
        let mut buffer = Self::at_mapping(device, start, bytes);
        buffer.is_owner = true;
        Ok(buffer)
    }

    /// Memory that somebody else gives back, after this value is gone.
    pub(crate) fn at_mapping(device: &Arc<dyn Device>, start: DevicePtr, bytes: u64) -> Self {
        Self {
            device: Arc::clone(device),
            start,
            bytes,
            users: Users::default(),
            is_owner: false,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn start(&self) -> DevicePtr {
        self.start
    }

    pub(crate) fn range(&self) -> DeviceRange {
        DeviceRange {
            start: self.start,
            bytes: self.bytes,
        }
    }

    fn at(&self, offset: u64) -> DevicePtr {
        DevicePtr::new(self.start.address().wrapping_add(offset))
    }

    /// Gives the memory back and says what the device said.
    pub(crate) fn free(mut self) -> Result<(), DriverError> {
        self.is_owner = false;
        if !self.users.have_ended() {
            return Ok(());
        }
        free(&*self.device, self.start)
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        let has_ended = self.users.have_ended();
        if self.is_owner
            && has_ended
            && let Err(error) = free(&*self.device, self.start)
        {
            self.device.record_error(error);
        }
    }
}

/// Gives an address back that no command names any more, or that never was an allocation.
pub(crate) fn free(device: &dyn Device, start: DevicePtr) -> Result<(), DriverError> {
    // SAFETY: a `DeviceBuffer` calls this once, after its commands have ended; cases call it with addresses
    // that are no live allocation, which must be refused.
    unsafe { device.memory().free(start) }
}

/// A copy from memory that is not page-locked: must be refused.
pub(crate) fn send_pageable(
    queue: &Arc<dyn Queue>,
    dst: &DeviceBuffer,
    words: &[u32],
) -> Submitted {
    let bytes = size_of_val(words) as u64;
    // SAFETY: it must be refused; a backend that takes it reads memory that outlives the wait of `dst`.
    let submitted = unsafe { queue.copy_to_device(dst.start, NonNull::from(words).cast(), bytes) };
    dst.users.note(queue, &submitted);
    submitted
}

pub(crate) fn send(
    queue: &Arc<dyn Queue>,
    src: &HostBuffer,
    dst: &DeviceBuffer,
    offset: u64,
    bytes: u64,
) -> Submitted {
    // SAFETY: see the top of the module.
    let submitted = unsafe { queue.copy_to_device(dst.at(offset), src.start(), bytes) };
    src.users.note(queue, &submitted);
    dst.users.note(queue, &submitted);
    submitted
}

pub(crate) fn fetch(
    queue: &Arc<dyn Queue>,
    src: &DeviceBuffer,
    offset: u64,
    dst: &HostBuffer,
    bytes: u64,
) -> Submitted {
    // SAFETY: see the top of the module.
    let submitted = unsafe { queue.copy_to_host(dst.start(), src.at(offset), bytes) };
    src.users.note(queue, &submitted);
    dst.users.note(queue, &submitted);
    submitted
}

/// Copies between offsets of two buffers of one device, or of one and the same.
pub(crate) fn copy(
    queue: &Arc<dyn Queue>,
    (dst, to): (&DeviceBuffer, u64),
    (src, from): (&DeviceBuffer, u64),
    bytes: u64,
) -> Submitted {
    // SAFETY: see the top of the module.
    let submitted = unsafe { queue.copy_on_device(dst.at(to), src.at(from), bytes) };
    src.users.note(queue, &submitted);
    dst.users.note(queue, &submitted);
    submitted
}

/// As [`copy`], behind places of other queues.
#[track_caller]
pub(crate) fn copy_behind(
    (queue, waits): (&Arc<dyn Queue>, &[QueueWait<'_>]),
    (dst, to): (&DeviceBuffer, u64),
    (src, from): (&DeviceBuffer, u64),
    bytes: u64,
) -> Submitted {
    let command = Command::CopyOnDevice {
        dst: dst.at(to),
        src: src.at(from),
        bytes,
    };
    // SAFETY: see the top of the module.
    let submitted = unsafe { queue.submit_behind(waits, &command, Location::caller()) };
    src.users.note(queue, &submitted);
    dst.users.note(queue, &submitted);
    submitted
}

pub(crate) fn copy_peer(
    device: &dyn Device,
    queue: &Arc<dyn Queue>,
    dst: &DeviceBuffer,
    src: &DeviceBuffer,
    bytes: u64,
) -> Submitted {
    let end = |buffer: &DeviceBuffer| PeerAddress {
        device: buffer.device.info().id,
        ptr: buffer.start,
    };
    let missing = ErrorKind::NotPeers {
        from: end(src).device,
        to: end(dst).device,
    };
    let error = DriverError::new(missing, Operation::CopyPeer, device.info().id);
    device.peers().ok_or(error)?;
    // SAFETY: see the top of the module.
    let submitted = unsafe { queue.copy_peer(end(dst), end(src), bytes) };
    src.users.note(queue, &submitted);
    dst.users.note(queue, &submitted);
    submitted
}

pub(crate) fn fill(
    queue: &Arc<dyn Queue>,
    dst: &DeviceBuffer,
    offset: u64,
    pattern: FillPattern,
    bytes: u64,
) -> Submitted {
    // SAFETY: see the top of the module.
    let submitted = unsafe { queue.fill(dst.at(offset), pattern, bytes) };
    dst.users.note(queue, &submitted);
    submitted
}

/// Fills the whole buffer with a word.
pub(crate) fn fill_word(queue: &Arc<dyn Queue>, dst: &DeviceBuffer, word: u32) -> Submitted {
    fill(queue, dst, 0, FillPattern::Word(word), dst.bytes)
}

/// As [`fill_word`], by the queue's writer.
pub(crate) fn fill_by(
    writer: &mut dyn QueueWriter,
    queue: &Arc<dyn Queue>,
    dst: &DeviceBuffer,
    word: u32,
) -> Submitted {
    let command = Command::Fill {
        dst: dst.start,
        pattern: FillPattern::Word(word),
        bytes: dst.bytes,
    };
    // SAFETY: see the top of the module.
    let submitted = unsafe { writer.submit(&command, Location::caller()) };
    dst.users.note(queue, &submitted);
    submitted
}

/// Has the queue wait for a value at an offset.
pub(crate) fn wait_memory(
    queue: &Arc<dyn Queue>,
    buffer: &DeviceBuffer,
    offset: u64,
    comparison: Comparison,
    value: MemoryWord,
) -> Submitted {
    let at = buffer.at(offset);
    let command = Command::WaitMemory(MemoryWait {
        at,
        comparison,
        value,
    });
    // SAFETY: see the top of the module; a wait for a value is what orders it with whoever writes it.
    let submitted = unsafe { queue.submit(&command, Location::caller()) };
    buffer.users.note(queue, &submitted);
    submitted
}

/// Has the queue write a value at an offset.
pub(crate) fn write_memory(
    queue: &Arc<dyn Queue>,
    buffer: &DeviceBuffer,
    offset: u64,
    value: MemoryWord,
) -> Submitted {
    let at = buffer.at(offset);
    let command = Command::WriteMemory { at, value };
    // SAFETY: as for `wait_memory`.
    let submitted = unsafe { queue.submit(&command, Location::caller()) };
    buffer.users.note(queue, &submitted);
    submitted
}

/// As [`fill_word`], without keeping the queue's handle: the case itself makes sure that the command has ended
/// before the memory goes, by a queue that waits for it.
pub(crate) fn fill_detached(queue: &Arc<dyn Queue>, dst: &DeviceBuffer, word: u32) -> Submitted {
    // SAFETY: see above.
    unsafe { queue.fill(dst.start, FillPattern::Word(word), dst.bytes) }
}

/// Launches a kernel on whole buffers, and one value if it takes one.
pub(crate) fn launch(
    queue: &Arc<dyn Queue>,
    kernel: &Arc<dyn Kernel>,
    grid: Grid,
    buffers: &[&DeviceBuffer],
    value: u32,
) -> Submitted {
    let arguments = pack(&**kernel, buffers, value);
    let extents: Vec<u64> = buffers.iter().map(|buffer| buffer.bytes).collect();
    launch_packed(queue, kernel, grid, &arguments, &extents, buffers)
}

/// As [`launch`], on host memory where it is; none where kernels of the device do not reach it.
pub(crate) fn launch_in_place(
    queue: &Arc<dyn Queue>,
    kernel: &Arc<dyn Kernel>,
    grid: Grid,
    memory: &HostBuffer,
    value: u32,
) -> Option<Submitted> {
    let submitted = launch(queue, kernel, grid, &[&memory.on_device()?], value);
    memory.users.note(queue, &submitted);
    Some(submitted)
}

/// As [`launch`], with arguments and extents as they are given, right or wrong.
pub(crate) fn launch_packed(
    queue: &Arc<dyn Queue>,
    kernel: &Arc<dyn Kernel>,
    grid: Grid,
    arguments: &[u8],
    extents: &[u64],
    buffers: &[&DeviceBuffer],
) -> Submitted {
    let launch = Launch {
        extents,
        ..Launch::new(kernel, grid, arguments)
    };
    // SAFETY: see the top of the module; the test kernels stay inside 256 elements a block.
    let submitted = unsafe { queue.launch(&launch) };
    for buffer in buffers {
        buffer.users.note(queue, &submitted);
    }
    submitted
}

/// Replays a graph whose nodes name these buffers and no other.
pub(crate) fn run_graph(
    queue: &Arc<dyn Queue>,
    graph: &Arc<dyn ExecutableGraph>,
    buffers: &[&DeviceBuffer],
) -> Submitted {
    let command = Command::RunGraph { graph };
    // SAFETY: see the top of the module; cases order nodes that conflict.
    let submitted = unsafe { queue.submit(&command, Location::caller()) };
    for buffer in buffers {
        buffer.users.note(queue, &submitted);
    }
    submitted
}

/// Packs buffers' addresses and the value as the kernel's signature says.
pub(crate) fn pack(kernel: &dyn Kernel, buffers: &[&DeviceBuffer], value: u32) -> Vec<u8> {
    let signature = kernel.signature();
    let mut packed = vec![0; usize::try_from(signature.packed_bytes()).unwrap_or(0)];
    for (index, parameter) in signature.parameters().iter().enumerate() {
        let at = usize::try_from(signature.offset(index).unwrap_or(0)).unwrap_or(0);
        let bytes = match parameter {
            Parameter::Buffer { .. } => {
                let buffer = buffers.get(signature.buffers_before(index));
                buffer
                    .map_or(0, |buffer| buffer.start.address())
                    .to_ne_bytes()
                    .to_vec()
            }
            Parameter::Value { .. } => value.to_ne_bytes().to_vec(),
        };
        if let Some(place) = packed.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(&bytes);
        }
    }
    packed
}

/// Virtual memory, driven by cases that wait before they unmap.
#[derive(Clone, Copy)]
pub(crate) struct Pages<'a>(pub(crate) &'a dyn VirtualMemory);

impl<'a> Pages<'a> {
    #[track_caller]
    pub(crate) fn of(device: &'a dyn Device) -> Result<Self, Failure> {
        device
            .virtual_memory()
            .map(Self)
            .ok_or_else(|| Failure::new("the case says it needs virtual memory", "it does not"))
    }

    pub(crate) fn map(self, at: DevicePtr, handle: PhysicalHandle) -> Result<(), DriverError> {
        // SAFETY: cases submit commands on the range only after this call.
        unsafe { self.0.map(at, handle) }
    }

    pub(crate) fn unmap(self, range: DeviceRange) -> Result<(), DriverError> {
        // SAFETY: cases wait for their commands on the range before this call.
        unsafe { self.0.unmap(range) }
    }

    pub(crate) fn release(self, range: DeviceRange) -> Result<(), DriverError> {
        // SAFETY: as for `unmap`.
        unsafe { self.0.release(range) }
    }
}

/// What a device says is free.
pub(crate) fn free_bytes(device: &dyn Device) -> Result<u64, Failure> {
    let usage = device.memory().usage()?;
    ensure(
        usage.free <= usage.capacity,
        "no more is free than there is",
    )?;
    ensure_eq(
        usage.capacity,
        device.info().memory_bytes,
        "capacity is what the device says",
    )?;
    Ok(usage.free)
}
