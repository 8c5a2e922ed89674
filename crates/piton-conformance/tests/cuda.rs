//! The suite on CUDA: on NVIDIA's library where there is a device, and otherwise on the stand-in over the simulated device,
//! as it is and without one ability after the other.
//!
//! It runs in a process of its own, so that a driver that crashes takes its process along and not the other tests.

#![expect(
    unsafe_code,
    reason = "vouches for kernels written here for the device itself"
)]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_conformance::{Subject, TestKernels, run, table};
use piton_cuda::{CudaBlock, CudaConfig, CudaDriver, CudaModule};
use piton_driver::{
    Device, Driver, DriverError, ErrorKind, Module, ModuleImage, Operation, Parameter, Signature,
};
use piton_fakecuda::library;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

const MODULE: &str = "conformance";
/// Set in the process that runs the suite.
const CHILD: &str = "PITON_CONFORMANCE_CHILD";

const PTX: &str = include_str!("kernels/conformance.ptx");

fn module() -> CudaModule {
    let adds = Signature::new([Parameter::write::<u32>(), Parameter::value::<u32>()]);
    let copies = Signature::new([Parameter::write::<u32>(), Parameter::read::<u32>()]);
    let block = CudaBlock::linear(64);
    // SAFETY: each block of the kernels there stays within 256 elements from 256 x its index.
    let module = unsafe { CudaModule::from_ptx(MODULE, PTX) };
    module
        .with(TestKernels::ADD, adds, block)
        .with(TestKernels::COPY, copies, block)
}

fn load(device: &dyn Device) -> Result<Arc<dyn Module>, DriverError> {
    device.kernels().load(ModuleImage::Registered(MODULE))
}

/// The suite's subject, on a library.
fn subject(name: &str, library: Option<PathBuf>) -> Subject {
    let open = move || -> Result<Arc<dyn Driver>, DriverError> {
        let config = CudaConfig {
            library: library.clone(),
            ..CudaConfig::default()
        };
        let driver = CudaDriver::open(config).map_err(|_| DriverError {
            kind: ErrorKind::Vendor,
            operation: Operation::Open,
            device: None,
            code: None,
        })?;
        driver.register(module());
        Ok(Arc::new(driver))
    };
    Subject::new(name, TestKernels::new(false, load), open)
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

#[expect(clippy::print_stdout, reason = "the table is what one runs this for")]
fn assert_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let (said, subjects) = subjects(folder.path());
    println!("{said}");
    let reports: Vec<_> = subjects.iter().map(run).collect();
    println!("{}", table(&reports));
    let failures: usize = reports.iter().map(|report| report.failures().count()).sum();
    assert_eq!(failures, 0, "the table above says which");
}

#[test]
fn cuda_conforms_on_a_device_or_on_its_stand_in() {
    if env::var_os(CHILD).is_some() {
        assert_conforms();
        return;
    }
    let output = Command::new(env::current_exe().unwrap())
        .args([
            "cuda_conforms_on_a_device_or_on_its_stand_in",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .output()
        .unwrap();
    // Without what the other process's test runner says of itself: it would be counted twice.
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_ours = |line: &&str| !line.starts_with("test ") && !line.starts_with("running ");
    printed
        .lines()
        .filter(is_ours)
        .for_each(|line| println!("{line}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
}
