//! The suite on OpenCL drivers: the first that the loader knows, which is pocl on build machines, and Intel's runtime for
//! processors, where its Python packages (`intel-opencl-rt`, `intel-cmplr-lib-rt`) are installed.

#![expect(
    unsafe_code,
    reason = "vouches for kernels written here for the device itself"
)]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "../../piton-opencl/tests/child/intel.rs"]
mod intel;
#[path = "vendor/process.rs"]
mod process;

use piton_conformance::{Subject, TestKernels};
use piton_driver::Driver;
use piton_opencl::{OpenClConfig, OpenClDriver, OpenClModule};
use std::{ffi::OsStr, path::Path};

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
    let [adds, copies] = process::signatures();
    // SAFETY: each block of the kernels above stays within 256 elements from 256 x its index.
    let module = unsafe { OpenClModule::from_source(process::MODULE, SOURCE) };
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

fn subject(name: &str, config: OpenClConfig) -> Subject {
    process::subject(name, move || {
        let driver = OpenClDriver::open(config.clone()).ok()?;
        driver.register(module());
        Some(driver)
    })
}

#[expect(
    clippy::print_stdout,
    reason = "that there is no driver is what is told"
)]
fn assert_conforms() {
    let driver = match OpenClDriver::open(config(false)) {
        Ok(driver) => driver,
        Err(absence) => {
            println!("skipped: {absence}");
            return;
        }
    };
    let said = format!("{}: {} devices", driver.platform(), driver.device_count());
    let buffers = OpenClConfig {
        avoids_shared_memory: true,
        ..config(false)
    };
    let subjects = [
        subject("opencl", config(false)),
        subject("with times", config(true)),
        subject("buffers", buffers),
    ];
    process::assert_conform(&said, &subjects);
}

#[test]
fn opencl_conforms_where_there_is_a_driver() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pocl-cache");
    std::fs::create_dir_all(&cache).unwrap();
    let variables = [
        ("POCL_DEVICES", OsStr::new("pthread pthread")),
        ("POCL_CACHE_DIR", cache.as_os_str()),
    ];
    let test = "opencl_conforms_where_there_is_a_driver";
    process::in_own_process(test, &variables, assert_conforms);
}

#[test]
fn opencl_conforms_on_intels_runtime_where_it_is_installed() {
    let Some(variables) = intel::variables() else {
        return;
    };
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_os_str()))
        .collect();
    let test = "opencl_conforms_on_intels_runtime_where_it_is_installed";
    process::in_own_process(test, &variables, assert_conforms);
}
