//! The suite on CUDA: on NVIDIA's library where there is a device, and otherwise on the stand-in over the simulated device,
//! as it is and without one ability after the other.

#![expect(
    unsafe_code,
    reason = "vouches for kernels written here for the device itself"
)]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "vendor/process.rs"]
mod process;

use piton_conformance::{Subject, TestKernels};
use piton_cuda::{CudaBlock, CudaConfig, CudaDriver, CudaModule};
use piton_driver::Driver;
use piton_fakecuda::library;
use std::path::{Path, PathBuf};

const PTX: &str = include_str!("kernels/conformance.ptx");

fn module() -> CudaModule {
    let [adds, copies] = process::signatures();
    let block = CudaBlock::linear(64);
    // SAFETY: each block of the kernels there stays within 256 elements from 256 x its index.
    let module = unsafe { CudaModule::from_ptx(process::MODULE, PTX) };
    module
        .with(TestKernels::ADD, adds, block)
        .with(TestKernels::COPY, copies, block)
}

/// The suite's subject, on a library.
fn subject(name: &str, library: Option<PathBuf>) -> Subject {
    process::subject(name, move || {
        let config = CudaConfig {
            library: library.clone(),
            ..CudaConfig::default()
        };
        let driver = CudaDriver::open(config).ok()?;
        driver.register(module());
        Some(driver)
    })
}

/// The subjects there are, and what is said of them before the table.
fn subjects(folder: &Path) -> (String, Vec<Subject>) {
    match CudaDriver::open(CudaConfig::default()) {
        Ok(driver) => {
            let devices = driver.device_count();
            (
                format!("NVIDIA's library: {devices} devices"),
                vec![subject("cuda", None)],
            )
        }
        Err(absence) => {
            let said = format!(
                "skipped: NVIDIA's library: {absence}\nthe stand-in over simulated devices instead:"
            );
            let lacking = |symbol| library::without(symbol, folder).unwrap();
            let subjects = vec![
                subject("stand-in", Some(library::stand_in().unwrap())),
                subject("by events", Some(lacking("cuStreamWriteValue64_v2"))),
                subject("no pages", Some(lacking("cuMemMap"))),
            ];
            (said, subjects)
        }
    }
}

#[test]
fn cuda_conforms_on_a_device_or_on_its_stand_in() {
    let test = "cuda_conforms_on_a_device_or_on_its_stand_in";
    process::in_own_process(test, &[], || {
        let folder = tempfile::tempdir().unwrap();
        let (said, subjects) = subjects(folder.path());
        process::assert_conform(&said, &subjects);
    });
}
