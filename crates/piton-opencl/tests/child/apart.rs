//! Bodies of tests in processes of their own: what pocl is to do stands in the environment, and a kernel may end a process.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Set in the process that runs a test's body.
const CHILD: &str = "PITON_OPENCL_CHILD";

/// Runs `body` in a process of its own, where pocl has two devices; what it skips is said here too.
pub(crate) fn apart(test: &str, body: impl FnOnce()) {
    apart_with(test, &[], body);
}

/// The same, with more in its environment.
#[expect(clippy::print_stdout, reason = "what was skipped is printed")]
pub(crate) fn apart_with(test: &str, variables: &[(&str, OsString)], body: impl FnOnce()) {
    if env::var_os(CHILD).is_some() {
        body();
        return;
    }
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("POCL_DEVICES", "pthread pthread")
        .env("POCL_CACHE_DIR", folder("pocl-cache"))
        .envs(variables.iter().map(|(name, value)| (*name, value)))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let skips = printed.lines().filter(|line| line.starts_with("skipped:"));
    skips.for_each(|line| println!("{line}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
}

pub(crate) fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&path).unwrap();
    path
}
