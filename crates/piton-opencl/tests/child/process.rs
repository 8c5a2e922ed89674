//! Tests in processes of their own, and the driver they get.

#[path = "apart.rs"]
pub(crate) mod apart;

use piton_opencl::{OpenClConfig, OpenClDriver};

/// Runs `body` on a driver in a process of its own; says `skipped:` where there is no driver.
#[expect(clippy::print_stdout, reason = "what was skipped is printed")]
pub(crate) fn in_child(test: &str, body: impl FnOnce(OpenClDriver)) {
    apart::apart(test, || match OpenClDriver::open(config()) {
        Ok(driver) => body(driver),
        Err(absence) => println!("skipped: {absence}"),
    });
}

pub(crate) fn config() -> OpenClConfig {
    OpenClConfig {
        memory_bytes: Some(64 << 20),
        ..OpenClConfig::default()
    }
}
