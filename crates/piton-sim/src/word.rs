//! Words of device memory that commands themselves look at and write, in one access each, as hardware does. The memory
//! is no part of the program's: a kernel, a copy or another process may write it meanwhile, in whole words.
//!
//! A command that writes a word does so with Release, and who looks at it does so with Acquire: who finds the value sees
//! what the writer's queue did before, also where he has looked before anybody told him (`memory_wait`). A kernel's
//! stores are plain: what it wrote beside the word is there when it has ended.

#![expect(unsafe_code, reason = "reads and writes words of device memory")]

use crate::device::SimDevice;
use piton_driver::{DeviceRange, ErrorKind, MemoryWord};
use piton_sync::foreign;
use std::ptr::NonNull;

/// The word at `range`, which is four bytes at a multiple of four.
pub(crate) fn read_u32(device: &SimDevice, range: DeviceRange) -> Result<u32, ErrorKind> {
    let start = resolve(device, range)?;
    // SAFETY: resolved just now: four bytes, mapped; aligned, as was checked when the command was submitted.
    Ok(unsafe { foreign::load_u32(start.cast()) })
}

/// The word at `range`, which is eight bytes at a multiple of eight.
fn read_u64(device: &SimDevice, range: DeviceRange) -> Result<u64, ErrorKind> {
    let start = resolve(device, range)?;
    // SAFETY: as in `read_u32`, eight bytes.
    Ok(unsafe { foreign::load_u64(start.cast()) })
}

/// The word at `range`, as long as `like` is.
pub(crate) fn read(
    device: &SimDevice,
    range: DeviceRange,
    like: MemoryWord,
) -> Result<MemoryWord, ErrorKind> {
    match like {
        MemoryWord::U32(_) => read_u32(device, range).map(MemoryWord::U32),
        MemoryWord::U64(_) => read_u64(device, range).map(MemoryWord::U64),
    }
}

/// Writes a word. `at` is as long as the value, at a multiple of that.
pub(crate) fn write(
    device: &SimDevice,
    at: DeviceRange,
    value: MemoryWord,
) -> Result<(), ErrorKind> {
    let start = resolve(device, at)?;
    match value {
        // SAFETY: resolved just now: four bytes, mapped; aligned, as was checked when the write was submitted.
        MemoryWord::U32(value) => unsafe { foreign::store_u32(start.cast(), value) },
        // SAFETY: as above, eight bytes.
        MemoryWord::U64(value) => unsafe { foreign::store_u64(start.cast(), value) },
    }
    Ok(())
}

fn resolve(device: &SimDevice, range: DeviceRange) -> Result<NonNull<u8>, ErrorKind> {
    device.core().space.lock().resolve(range)
}
