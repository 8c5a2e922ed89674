//! Loaded binaries, the functions in them, and launches.

#![expect(
    unsafe_code,
    reason = "calls of the runtime, and handles that threads may share"
)]

use super::{
    Called, Context, RawStream,
    declarations::{self, BinaryHandle},
    succeeded,
    symbols::{BinariesInTwoSteps, ListArguments},
};
use crate::status::Status;
use std::{ffi::CString, ops::Range, ptr, sync::Arc};

/// A loaded binary, unloaded when dropped.
#[derive(Debug)]
pub(crate) struct Binary {
    context: Arc<Context>,
    raw: BinaryHandle,
}

/// A function of a binary, which whoever holds it keeps loaded.
#[derive(Debug)]
pub(crate) struct Function {
    binary: Arc<Binary>,
    raw: declarations::Function,
}

// SAFETY: binaries and functions may be used from every thread; nothing here changes one.
unsafe impl Send for Binary {}
// SAFETY: as for `Send`.
unsafe impl Sync for Binary {}
// SAFETY: as for binaries.
unsafe impl Send for Function {}
// SAFETY: as for binaries.
unsafe impl Sync for Function {}

/// Arguments that a launch may still read, in memory that is aligned for whatever is in it.
#[derive(Debug)]
pub(crate) struct Block {
    words: Box<[u64]>,
    bytes: usize,
}

impl Block {
    pub(crate) fn new(arguments: &[u8]) -> Self {
        let mut words = vec![0_u64; arguments.len().div_ceil(8)];
        for (word, chunk) in words.iter_mut().zip(arguments.chunks(8)) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(eight);
        }
        Self {
            words: words.into(),
            bytes: arguments.len(),
        }
    }

    /// Where a byte of it is.
    fn at(&self, offset: usize) -> *mut std::ffi::c_void {
        let start = self.words.as_ptr().cast::<u8>();
        start.wrapping_add(offset).cast_mut().cast()
    }
}

impl Binary {
    /// Loads a binary, in one call or in the library's older two.
    ///
    /// # Safety
    /// The image is a binary for devices of this kind, whole.
    ///
    /// # Errors
    /// The code, and what the runtime said.
    pub(crate) unsafe fn load(
        context: &Arc<Context>,
        image: &[u8],
    ) -> Result<Arc<Self>, (Status, String)> {
        let api = context.api;
        let mut raw = ptr::null_mut();
        let (start, bytes) = (image.as_ptr().cast(), image.len());
        let mut said = String::new();
        let loaded = context.call(|_| {
            let code = match (&api.binaries, &api.older_binaries) {
                (Some(api), _) => {
                    // SAFETY: the caller's promise; a place of the right type; no options.
                    unsafe { (api.load)(start, bytes, ptr::null(), &raw mut raw) }
                }
                // SAFETY: the caller's promise.
                (None, Some(api)) => unsafe { load_in_two_steps(api, image, &mut raw) },
                (None, None) => Status::UNSUPPORTED.0,
            };
            if code != 0 {
                said = api.recent_failure();
            }
            code
        });
        loaded.map_err(|status| (status, said))?;
        Ok(Arc::new(Self {
            context: Arc::clone(context),
            raw,
        }))
    }

    /// The function of this name.
    pub(crate) fn function(self: &Arc<Self>, name: &str) -> Called<Function> {
        let name = CString::new(name).map_err(|_| Status::INVALID_PARAM)?;
        let mut raw = ptr::null_mut();
        self.context.call(|core| {
            // SAFETY: a place of the right type, a name that ends in zero.
            unsafe { (core.binary_function)(self.raw, name.as_ptr(), &raw mut raw) }
        })?;
        Ok(Function {
            binary: Arc::clone(self),
            raw,
        })
    }
}

/// The older way: a binary is made of the image, and loaded.
///
/// # Safety
/// As [`Binary::load`].
unsafe fn load_in_two_steps(
    api: &BinariesInTwoSteps,
    image: &[u8],
    raw: &mut BinaryHandle,
) -> declarations::Code {
    // SAFETY: the caller's promise.
    let binary = unsafe { (api.create)(image.as_ptr().cast(), image.len()) };
    if binary.is_null() {
        return Status::INVALID_PARAM.0;
    }
    // SAFETY: just made; a place of the right type.
    let code = unsafe { (api.load)(binary, raw) };
    // SAFETY: ours, and needed no more once it is loaded.
    let _code = unsafe { (api.destroy)(binary) };
    code
}

impl Function {
    pub(crate) const fn binary(&self) -> &Arc<Binary> {
        &self.binary
    }

    /// Launches it in so many blocks. The arguments are read until it is over.
    ///
    /// # Safety
    /// They are what the kernel takes, at these places of the block; and what it touches is the caller's promise, as
    /// [`piton_driver::Queue::submit`] says.
    pub(crate) unsafe fn launch(
        &self,
        stream: &RawStream,
        blocks: u32,
        arguments: &Block,
        places: impl Iterator<Item = Range<usize>>,
    ) -> Called<()> {
        let api = stream.context.api;
        match (&api.block_arguments, &api.list_arguments) {
            (Some(api), _) => stream.call(|_, raw| {
                let (block, none) = (arguments.at(0), ptr::null());
                // SAFETY: the caller's promise.
                unsafe {
                    (api.launch)(self.raw, blocks, raw, none, block, arguments.bytes, none, 0)
                }
            }),
            (None, Some(api)) => {
                // SAFETY: the caller's promise.
                unsafe { self.launch_listed(api, stream, blocks, arguments, places) }
            }
            (None, None) => Err(Status::UNSUPPORTED),
        }
    }

    /// The older way: arguments are appended one by one.
    ///
    /// # Safety
    /// As [`launch`](Self::launch).
    unsafe fn launch_listed(
        &self,
        api: &ListArguments,
        stream: &RawStream,
        blocks: u32,
        arguments: &Block,
        places: impl Iterator<Item = Range<usize>>,
    ) -> Called<()> {
        let mut list = ptr::null_mut();
        // SAFETY: a place of the right type.
        stream.call(|_, _| unsafe { (api.init)(self.raw, &raw mut list) })?;
        for place in places {
            let (start, bytes) = (arguments.at(place.start), place.len());
            let mut parameter = ptr::null_mut();
            // SAFETY: the list is ours; the bytes are in the block.
            succeeded(unsafe { (api.append)(list, start, bytes, &raw mut parameter) })?;
        }
        // SAFETY: the list is ours.
        succeeded(unsafe { (api.finalize)(list) })?;
        stream.call(|_, raw| {
            let none = ptr::null_mut();
            // SAFETY: the caller's promise; the list is finished.
            unsafe { (api.launch)(self.raw, blocks, raw, ptr::null(), list, none) }
        })
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        // SAFETY: the binary is ours, and its functions and launches hold it.
        let _called = self
            .context
            .call(|core| unsafe { (core.binary_unload)(self.raw) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_holds_the_bytes_where_they_were() {
        let bytes: Vec<u8> = (1..=13).collect();
        let block = Block::new(&bytes);
        let held: Vec<u8> = block.words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        assert_eq!(held[..13], bytes[..]);
        assert_eq!(block.bytes, 13);
        assert_eq!(block.at(8).addr() - block.at(0).addr(), 8);
    }
}
