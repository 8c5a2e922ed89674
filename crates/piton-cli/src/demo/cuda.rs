//! The demonstration's devices and kernels on CUDA: compiled here where NVIDIA's compiler is, or as they were compiled before.

#![expect(
    unsafe_code,
    reason = "vouches for kernels of CUDA, which can write anywhere"
)]

use piton_cuda::{CudaBlock, CudaConfig, CudaDriver, CudaModule, OpenError};
use piton_training::{CUDA_C, CUDA_OPTIONS, MODULE, PTX, PTX_THREADS, signatures};

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
    let module = unsafe { CudaModule::from_source(MODULE, CUDA_C, CUDA_OPTIONS) };
    // SAFETY: as above: it was made of that text.
    let module = unsafe { module.or_ptx(PTX) };
    let block = CudaBlock::linear(PTX_THREADS);
    signatures()
        .into_iter()
        .fold(module, |module, (name, takes)| {
            module.with(name, takes, block)
        })
}
