//! Modules and the functions in them.

#![expect(
    unsafe_code,
    reason = "calls of CUDA, and handles that threads may share"
)]

use super::{Called, Context, declarations, succeeded};
use crate::status::Status;
use std::{
    ffi::{CString, c_int, c_void},
    ptr,
    sync::Arc,
};

/// `CU_JIT_ERROR_LOG_BUFFER`, and the number of its bytes.
const ERROR_LOG: [c_int; 2] = [5, 6];
/// Bytes of what the compiler writes that are kept.
const LOG_BYTES: usize = 8192;

/// A loaded module, unloaded when dropped.
#[derive(Debug)]
pub(crate) struct RawModule {
    context: Arc<Context>,
    raw: declarations::Module,
}

/// A function of a module, which whoever holds it keeps loaded.
#[derive(Debug)]
pub(crate) struct Function {
    module: Arc<RawModule>,
    raw: declarations::Function,
}

// SAFETY: modules and functions may be used from every thread; nothing here changes one.
unsafe impl Send for RawModule {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawModule {}
// SAFETY: as for modules.
unsafe impl Send for Function {}
// SAFETY: as for modules.
unsafe impl Sync for Function {}

impl RawModule {
    /// Loads an image: PTX that ends in a zero byte, which is compiled now, or a binary.
    ///
    /// # Safety
    /// The image is one or the other, whole: the driver finds its end by itself.
    ///
    /// # Errors
    /// The code, and what the compiler wrote.
    pub(crate) unsafe fn load(
        context: &Arc<Context>,
        image: &[u8],
    ) -> Result<Arc<Self>, (Status, String)> {
        let mut raw = ptr::null_mut();
        let mut log = vec![0_u8; LOG_BYTES];
        let mut options = ERROR_LOG;
        // A number that is passed as a pointer, as the reference says.
        let bytes: *mut c_void = ptr::without_provenance_mut(LOG_BYTES);
        let mut values = [log.as_mut_ptr().cast::<c_void>(), bytes];
        let called = context.call(|core| {
            // SAFETY: an image as the caller promised; two options with their values, the buffer as long as is said.
            unsafe {
                (core.module_load)(
                    &raw mut raw,
                    image.as_ptr().cast(),
                    2,
                    options.as_mut_ptr(),
                    values.as_mut_ptr(),
                )
            }
        });
        let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
        called.map_err(|status| (status, String::from_utf8_lossy(text).trim().to_owned()))?;
        Ok(Arc::new(Self {
            context: Arc::clone(context),
            raw,
        }))
    }

    /// The function of this name; nothing where the module has none.
    pub(crate) fn function(self: &Arc<Self>, name: &str) -> Called<Option<Function>> {
        let Ok(name) = CString::new(name) else {
            return Ok(None);
        };
        let mut raw = ptr::null_mut();
        let called = self.context.call(|core| {
            // SAFETY: a place of the right type, a name that ends in zero.
            unsafe { (core.module_function)(&raw mut raw, self.raw, name.as_ptr()) }
        });
        match called {
            Ok(()) => Ok(Some(Function {
                module: Arc::clone(self),
                raw,
            })),
            Err(Status::NOT_FOUND) => Ok(None),
            Err(status) => Err(status),
        }
    }
}

impl Function {
    pub(crate) const fn raw(&self) -> declarations::Function {
        self.raw
    }

    pub(crate) const fn module(&self) -> &Arc<RawModule> {
        &self.module
    }

    /// Bytes of the parameter at this place, and nothing past the last; `Err` where the library does not tell.
    pub(crate) fn parameter(&self, index: usize) -> Called<Option<usize>> {
        let context = &self.module.context;
        let api = context.api.parameters.as_ref();
        let api = api.ok_or(Status::NOT_SUPPORTED)?;
        let (mut offset, mut bytes) = (0_usize, 0_usize);
        let _entered = context.enter()?;
        // SAFETY: two places of the right type.
        let code = unsafe { (api.info)(self.raw, index, &raw mut offset, &raw mut bytes) };
        match succeeded(code) {
            Ok(()) => Ok(Some(bytes)),
            Err(Status::INVALID_VALUE) => Ok(None),
            Err(status) => Err(status),
        }
    }
}

impl Drop for RawModule {
    fn drop(&mut self) {
        // SAFETY: the module is ours, and its functions hold it.
        let _called = self
            .context
            .call(|core| unsafe { (core.module_unload)(self.raw) });
    }
}
