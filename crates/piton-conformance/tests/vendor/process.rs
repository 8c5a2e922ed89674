//! What the suite on a vendor's library needs: a process of its own, as a library that crashes takes its process along and
//! not the other tests, and what it is told by the environment must be there before it is opened.

use piton_conformance::{Subject, TestKernels, run, table};
use piton_driver::{
    Device, Driver, DriverError, ErrorKind, Module, ModuleImage, Operation, Parameter, Signature,
};
use std::{env, ffi::OsStr, process::Command, sync::Arc};

/// The name that the test kernels' module is registered under.
pub(crate) const MODULE: &str = "conformance";

/// Set in the process that runs the suite.
const CHILD: &str = "PITON_CONFORMANCE_CHILD";

/// What the kernels that add take, and those that copy.
pub(crate) fn signatures() -> [Signature; 2] {
    [
        Signature::new([Parameter::write::<u32>(), Parameter::value::<u32>()]),
        Signature::new([Parameter::write::<u32>(), Parameter::read::<u32>()]),
    ]
}

fn load(device: &dyn Device) -> Result<Arc<dyn Module>, DriverError> {
    device.kernels().load(ModuleImage::Registered(MODULE))
}

/// The suite's subject: `open` opens the driver and registers the module, or says that there is none.
pub(crate) fn subject<D: Driver + 'static>(
    name: &str,
    open: impl Fn() -> Option<D> + 'static,
) -> Subject {
    let open = move || -> Result<Arc<dyn Driver>, DriverError> {
        let driver = open().ok_or(DriverError {
            kind: ErrorKind::Vendor,
            operation: Operation::Open,
            device: None,
            code: None,
        })?;
        Ok(Arc::new(driver))
    };
    Subject::new(name, TestKernels::new(false, load), open)
}

/// Runs the suite on each, prints the table, and fails if a property does not hold.
#[expect(clippy::print_stdout, reason = "the table is what one runs this for")]
pub(crate) fn assert_conform(said: &str, subjects: &[Subject]) {
    println!("{said}");
    let reports: Vec<_> = subjects.iter().map(run).collect();
    println!("{}", table(&reports));
    let failures: usize = reports.iter().map(|report| report.failures().count()).sum();
    assert_eq!(failures, 0, "the table above says which");
}

/// Runs the body of a test in a process of its own, with these variables, and prints what it prints.
#[expect(clippy::print_stdout, reason = "the table is what one runs this for")]
pub(crate) fn in_own_process(test: &str, variables: &[(&str, &OsStr)], body: impl FnOnce()) {
    if env::var_os(CHILD).is_some() {
        body();
        return;
    }
    let own = env::current_exe().unwrap();
    let output = Command::new(own)
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
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
