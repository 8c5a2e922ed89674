//! The demonstration's devices and kernels on CUDA.

#![expect(
    unsafe_code,
    reason = "vouches for kernels in PTX, which can write anywhere"
)]

use piton_cuda::{CudaBlock, CudaConfig, CudaDriver, CudaModule, OpenError};
use piton_training::{MODULE, PTX, PTX_THREADS, signatures};

/// The devices that NVIDIA's driver shows this process, with the kernels of the training.
///
/// # Errors
/// [`OpenError`] says what was looked for and is not there.
pub fn driver() -> Result<CudaDriver, OpenError> {
    let driver = CudaDriver::open(CudaConfig::default())?;
    driver.register(module());
    Ok(driver)
}

fn module() -> CudaModule {
    // SAFETY: each block stays within the rows that its tiling gives it, of buffers whose sizes the tiling states; the
    // kernels write the buffers that their signatures call written, and no others.
    let module = unsafe { CudaModule::from_ptx(MODULE, PTX) };
    let block = CudaBlock::linear(PTX_THREADS);
    signatures()
        .into_iter()
        .fold(module, |module, (name, takes)| {
            module.with(name, takes, block)
        })
}
