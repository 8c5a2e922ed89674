//! Host memory: page-locked, registered, admitted.

#![expect(
    unsafe_code,
    reason = "the contract's methods are driven here and nowhere else"
)]

use super::{DeviceBuffer, Users};
use crate::outcome::{Failure, ensure};
use piton_driver::{Device, DriverError, HostAllocation, HostMemory, HostMemoryOptions, Locking};
use std::{ptr, ptr::NonNull, sync::Arc};

/// Page-locked host memory that is given back when dropped.
#[derive(Debug)]
pub(crate) struct HostBuffer {
    device: Arc<dyn Device>,
    allocation: Option<HostAllocation>,
    words: usize,
    pub(super) users: Users,
}

fn host_memory(device: &dyn Device) -> Result<&dyn HostMemory, Failure> {
    device
        .host_memory()
        .ok_or_else(|| Failure::new("the case says it needs host memory", "it does not"))
}

impl HostBuffer {
    #[track_caller]
    pub(crate) fn new(device: &Arc<dyn Device>, words: &[u32]) -> Result<Self, Failure> {
        let options = HostMemoryOptions {
            locking: Locking::Preferred,
            numa_node: None,
        };
        let bytes = size_of_val(words);
        let allocation = host_memory(&**device)?.allocate(bytes, options)?;
        let (start, length) = (allocation.start, allocation.bytes);
        let buffer = Self {
            device: Arc::clone(device),
            allocation: Some(allocation),
            words: words.len(),
            users: Users::default(),
        };
        ensure(length >= bytes, "host memory is as long as asked")?;
        ensure(
            start.as_ptr().addr().is_multiple_of(4096),
            "host memory is page-aligned",
        )?;
        // SAFETY: the allocation is fresh and `length` bytes long.
        let fresh = unsafe { std::slice::from_raw_parts(start.as_ptr(), length) };
        ensure(
            fresh.iter().all(|byte| *byte == 0),
            "fresh host memory is zeroed",
        )?;
        // SAFETY: as above, aligned to 4096, and nothing else refers to it.
        unsafe { ptr::copy_nonoverlapping(words.as_ptr(), start.as_ptr().cast(), words.len()) };
        Ok(buffer)
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.allocation
            .as_ref()
            .map_or(NonNull::dangling(), |allocation| allocation.start)
    }

    /// The same memory as kernels reach it, where they do.
    pub(crate) fn on_device(&self) -> Option<DeviceBuffer> {
        let start = self.device.host_memory()?.device_address(self.start())?;
        let bytes = (self.words * size_of::<u32>()) as u64;
        Some(DeviceBuffer::at_mapping(&self.device, start, bytes))
    }

    /// Where it lies, as a number.
    pub(crate) fn extent(&self) -> (usize, usize) {
        let bytes = self
            .allocation
            .as_ref()
            .map_or(0, |allocation| allocation.bytes);
        (self.start().as_ptr().addr(), bytes)
    }

    /// The words, after every command that names them has ended.
    pub(crate) fn words(&self) -> Result<Vec<u32>, Failure> {
        ensure(self.users.have_ended(), "commands on host memory end")?;
        let start = self.start().as_ptr().cast_const().cast::<u32>();
        // SAFETY: `words` of them were initialised, and no command names them now.
        Ok(unsafe { std::slice::from_raw_parts(start, self.words) }.to_vec())
    }

    /// Gives the memory back and says what the device said.
    pub(crate) fn free(mut self) -> Result<(), Failure> {
        ensure(self.users.have_ended(), "commands on host memory end")?;
        let Some(allocation) = self.allocation.take() else {
            return Ok(());
        };
        // SAFETY: it came from this device, is freed once, and no command names it.
        Ok(unsafe { host_memory(&*self.device)?.free(allocation) }?)
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        if !self.users.have_ended() {
            return;
        }
        if let (Some(allocation), Some(host)) = (self.allocation.take(), self.device.host_memory())
        {
            // SAFETY: as in `free`.
            if let Err(error) = unsafe { host.free(allocation) } {
                self.device.record_error(error);
            }
        }
    }
}

/// Memory of the program's own, registered with the device for as long as `body` runs, which gets a buffer
/// over it. The device's answer to `unregister` is returned beside.
pub(crate) fn with_registered(
    device: &Arc<dyn Device>,
    memory: &mut [u32],
    body: impl FnOnce(&HostBuffer) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let host = host_memory(&**device)?;
    let start = NonNull::from(&mut *memory).cast::<u8>();
    // SAFETY: the slice is valid and borrowed until this function returns; nothing else has registered it.
    unsafe { host.register(start, size_of_val(memory)) }?;
    let result = with_known(device, memory, body)?;
    // SAFETY: registered above; no command names it any more.
    unsafe { host.unregister(start) }?;
    result
}

/// As [`with_registered`], with memory that copies may name though it is not locked; `false` where the device admits none.
pub(crate) fn with_admitted(
    device: &Arc<dyn Device>,
    memory: &mut [u32],
    body: impl FnOnce(&HostBuffer) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let host = host_memory(&**device)?;
    let start = NonNull::from(&mut *memory).cast::<u8>();
    // SAFETY: the slice is valid and borrowed until this function returns.
    if !unsafe { host.admit(start, size_of_val(memory)) } {
        return Ok(false);
    }
    let result = with_known(device, memory, body)?;
    // SAFETY: admitted above; no command names it any more.
    unsafe { host.dismiss(start) };
    result.map(|()| true)
}

/// What `body` says of memory that the device knows, and which is not the buffer's to give back. Fails where commands are left that
/// name it.
fn with_known(
    device: &Arc<dyn Device>,
    memory: &mut [u32],
    body: impl FnOnce(&HostBuffer) -> Result<(), Failure>,
) -> Result<Result<(), Failure>, Failure> {
    let mut buffer = HostBuffer {
        device: Arc::clone(device),
        allocation: Some(HostAllocation {
            start: NonNull::from(&mut *memory).cast(),
            bytes: size_of_val(memory),
            is_locked: true,
        }),
        words: memory.len(),
        users: Users::default(),
    };
    let result = body(&buffer);
    ensure(
        buffer.users.have_ended(),
        "commands on the program's own memory end",
    )?;
    buffer.allocation = None;
    Ok(result)
}

/// Whether the device admits memory that it allocated itself: it must not.
pub(crate) fn admits_again(memory: &HostBuffer) -> Result<bool, Failure> {
    let (start, (_, bytes)) = (memory.start(), memory.extent());
    // SAFETY: the buffer owns it, and gives it back after this.
    Ok(unsafe { host_memory(&*memory.device)?.admit(start, bytes) })
}

/// Unregisters memory that is not registered: must be refused.
pub(crate) fn unregister_stranger(
    device: &dyn Device,
    memory: &mut [u32],
) -> Result<(), DriverError> {
    let Some(host) = device.host_memory() else {
        return Ok(());
    };
    // SAFETY: no command names it; that it is not registered is what the case is about.
    unsafe { host.unregister(NonNull::from(memory).cast()) }
}
