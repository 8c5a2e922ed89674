//! The suite on Ascend, on the stand-in over the simulated device: as it is, and with the older functions alone that take
//! the place of newer ones. Where there is a device, only the suite's own kernels are wanting: no compiler for them is here,
//! so it is said that the library was found, and the stand-in is what is held to the suite.

#![expect(
    unsafe_code,
    reason = "vouches for kernels written here for the device itself"
)]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "vendor/process.rs"]
mod process;

use piton_ascend::{AscendConfig, AscendDriver, AscendModule};
use piton_conformance::{Subject, TestKernels};
use piton_driver::Driver;
use piton_fakeascend::{image, library};
use std::path::{Path, PathBuf};

fn module() -> AscendModule {
    let [adds, copies] = process::signatures();
    let image = image::IMAGE.as_bytes();
    // SAFETY: each block of the stand-in's kernels stays within 256 elements from 256 x its index.
    let module = unsafe { AscendModule::from_binary(process::MODULE, image) };
    module
        .with(TestKernels::ADD, adds)
        .with(TestKernels::COPY, copies)
}

/// The suite's subject, on a library.
fn subject(name: &str, library: PathBuf) -> Subject {
    process::subject(name, move || {
        let config = AscendConfig {
            library: Some(library.clone()),
            ..AscendConfig::default()
        };
        let driver = AscendDriver::open(config).ok()?;
        driver.register(module());
        Some(driver)
    })
}

fn subjects(folder: &Path) -> Vec<Subject> {
    let lacking = |symbol| library::without(symbol, folder).unwrap();
    vec![
        subject("stand-in", library::stand_in().unwrap()),
        subject("by events", lacking("aclrtCreateNotify")),
        subject("no pages", lacking("aclrtMapMem")),
    ]
}

#[test]
fn ascend_conforms_on_its_stand_in() {
    process::in_own_process("ascend_conforms_on_its_stand_in", &[], || {
        let said = match AscendDriver::open(AscendConfig::default()) {
            Ok(driver) => format!(
                "Ascend's library: {} devices, for which no test kernel is at hand",
                driver.device_count()
            ),
            Err(absence) => format!("skipped: Ascend's library: {absence}"),
        };
        let said = format!("{said}\nthe stand-in over simulated devices instead:");
        let folder = tempfile::tempdir().unwrap();
        process::assert_conform(&said, &subjects(folder.path()));
    });
}
