//! The demonstration's devices and kernels in OpenCL.

#![expect(
    unsafe_code,
    reason = "vouches for kernels in OpenCL C, which can write anywhere"
)]

use piton_opencl::{OpenClConfig, OpenClDriver, OpenClModule, OpenError};
use piton_training::{MODULE, OPENCL_C, signatures};

/// Bytes of each device that the demonstration may use: as many as of a simulated one.
const MEMORY_BYTES: u64 = 256 << 20;

/// The devices of the first OpenCL platform that has some, with the kernels of the training. They keep times, for the
/// report.
///
/// # Errors
/// [`OpenError`] says what was looked for and is not there.
pub fn driver() -> Result<OpenClDriver, OpenError> {
    let driver = OpenClDriver::open(OpenClConfig {
        memory_bytes: Some(MEMORY_BYTES),
        keep_times: true,
        ..OpenClConfig::default()
    })?;
    driver.register(module());
    Ok(driver)
}

fn module() -> OpenClModule {
    // SAFETY: each block stays within the rows that its tiling gives it, of buffers whose sizes the tiling states; the
    // kernels write the buffers that their signatures call written, and no others.
    let module = unsafe { OpenClModule::from_source(MODULE, OPENCL_C) };
    signatures()
        .into_iter()
        .fold(module, |module, (name, takes)| module.with(name, takes))
}
