//! Intel's runtime for processors, a second driver of OpenCL, where its Python packages are installed.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

/// Where its libraries are: in the folder that `PITON_INTEL_OPENCL` names, or in that of Python's packages.
fn folder() -> Option<PathBuf> {
    let of_python = || {
        let prefix = Command::new("python3")
            .args(["-c", "import sys; print(sys.prefix, end='')"])
            .output()
            .ok()?;
        let prefix = String::from_utf8(prefix.stdout).ok()?;
        Some(Path::new(&prefix).join("lib"))
    };
    let named = env::var_os("PITON_INTEL_OPENCL").map(PathBuf::from);
    let folder = named.or_else(of_python)?;
    folder.join("libintelocl.so").exists().then_some(folder)
}

/// What a process finds in its environment that is to have this driver and no other; says `skipped:` where there is none.
#[expect(clippy::print_stdout, reason = "what was skipped is printed")]
pub(crate) fn variables() -> Option<Vec<(&'static str, OsString)>> {
    let found = folder();
    if found.is_none() {
        println!(
            "skipped: no Intel runtime for OpenCL: pip install intel-opencl-rt intel-cmplr-lib-rt, or PITON_INTEL_OPENCL=FOLDER"
        );
    }
    found.map(|folder| {
        vec![
            ("OCL_ICD_FILENAMES", folder.join("libintelocl.so").into()),
            ("LD_LIBRARY_PATH", folder.into()),
        ]
    })
}
