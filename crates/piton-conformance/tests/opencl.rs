//! The suite on an OpenCL driver, where there is one: pocl on build machines.
//!
//! It runs in a process of its own: what a driver is told by the environment must be there before it is opened, and a
//! driver that crashes takes its process along and not the other tests.

#![expect(
    unsafe_code,
    reason = "vouches for kernels written here for the device itself"
)]

use piton_conformance::{Subject, TestKernels, run, table};
use piton_driver::{
    Device, Driver, DriverError, ErrorKind, Module, ModuleImage, Operation, Parameter, Signature,
};
use piton_opencl::{OpenClConfig, OpenClDriver, OpenClModule};
use std::{env, path::Path, process::Command, sync::Arc};

const MODULE: &str = "conformance";
/// Set in the process that runs the suite.
const CHILD: &str = "PITON_CONFORMANCE_CHILD";

const SOURCE: &str = "
__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void conformance_add(__global uint *values, uint value) {
    for (uint i = get_local_id(0); i < 256; i += 64) values[get_group_id(0) * 256 + i] += value;
}
__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void conformance_copy(__global uint *to, __global const uint *from) {
    for (uint i = get_local_id(0); i < 256; i += 64) {
        size_t at = get_group_id(0) * 256 + i;
        to[at] = from[at];
    }
}
";

fn module() -> OpenClModule {
    let adds = Signature::new([Parameter::write::<u32>(), Parameter::value::<u32>()]);
    let copies = Signature::new([Parameter::write::<u32>(), Parameter::read::<u32>()]);
    // SAFETY: each block of the kernels above stays within 256 elements from 256 x its index.
    let module = unsafe { OpenClModule::from_source(MODULE, SOURCE) };
    module
        .with(TestKernels::ADD, adds)
        .with(TestKernels::COPY, copies)
}

fn config(keep_times: bool) -> OpenClConfig {
    OpenClConfig {
        memory_bytes: Some(64 << 20),
        keep_times,
        binaries: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("opencl-binaries")),
        ..OpenClConfig::default()
    }
}

fn load(device: &dyn Device) -> Result<Arc<dyn Module>, DriverError> {
    device.kernels().load(ModuleImage::Registered(MODULE))
}

fn subject(name: &str, keep_times: bool) -> Subject {
    let open = move || -> Result<Arc<dyn Driver>, DriverError> {
        let driver = OpenClDriver::open(config(keep_times)).map_err(|_| DriverError {
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

#[expect(clippy::print_stdout, reason = "the table is what one runs this for")]
fn assert_conforms() {
    let driver = match OpenClDriver::open(config(false)) {
        Ok(driver) => driver,
        Err(absence) => {
            println!("skipped: {absence}");
            return;
        }
    };
    println!("{}: {} devices", driver.platform(), driver.device_count());
    let reports = [subject("opencl", false), subject("with times", true)].map(|s| run(&s));
    println!("{}", table(&reports));
    let failures: usize = reports.iter().map(|report| report.failures().count()).sum();
    assert_eq!(failures, 0, "the table above says which");
}

#[test]
fn opencl_conforms_where_there_is_a_driver() {
    if env::var_os(CHILD).is_some() {
        assert_conforms();
        return;
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pocl-cache");
    std::fs::create_dir_all(&cache).unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args([
            "opencl_conforms_where_there_is_a_driver",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .env("POCL_DEVICES", "pthread pthread")
        .env("POCL_CACHE_DIR", cache)
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
