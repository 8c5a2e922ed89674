//! A library in front of the system's, which claims and fails what no driver does that runs everywhere.

#![expect(unsafe_code, reason = "asks the library in between")]

use super::apart::folder;
use libloading::Library;
use piton_opencl::{OpenClConfig, OpenClDriver, OpenError};
use std::{path::PathBuf, process::Command};

/// The library, made for this process alone.
#[derive(Debug)]
pub(crate) struct Between {
    path: PathBuf,
    library: Library,
}

impl Between {
    /// Makes it; says `skipped:` where it cannot be made.
    #[expect(clippy::print_stdout, reason = "what was skipped is printed")]
    pub(crate) fn made() -> Option<Self> {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/child/between.c");
        let path = folder("between").join(format!("lib{}.so", std::process::id()));
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"])
            .arg(&path)
            .args([source, "-l:libOpenCL.so.1", "-ldl"])
            .output();
        if !made.is_ok_and(|output| output.status.success()) {
            println!("skipped: no C compiler, or no libOpenCL.so.1 to put a library in front of");
            return None;
        }
        // SAFETY: the library was made above, and has nothing to initialise.
        let library = unsafe { Library::new(&path) }.unwrap();
        Some(Self { path, library })
    }

    /// The driver behind it; nothing where there is none.
    pub(crate) fn driver(&self) -> Option<OpenClDriver> {
        let config = OpenClConfig {
            library: Some(self.path.clone()),
            memory_bytes: Some(1 << 20),
            ..OpenClConfig::default()
        };
        match OpenClDriver::open(config) {
            Ok(driver) => Some(driver),
            Err(OpenError::NoPlatform | OpenError::NoDevice { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Which priorities queues were asked for with since the last call, as a set of the extension's bits.
    pub(crate) fn asked(&self) -> u32 {
        // SAFETY: the type is the one that the function has in its source.
        let asked = unsafe {
            self.library
                .get::<unsafe extern "C" fn() -> u32>(b"piton_asked\0")
        };
        // SAFETY: it takes nothing, and one thread of this process calls the library.
        unsafe { asked.unwrap()() }
    }

    /// The next fill, which is done, ends with this code.
    pub(crate) fn fail_next_fill(&self, code: i32) {
        let name = b"piton_fail_next_fill\0";
        // SAFETY: as in `asked`.
        let fail = unsafe { self.library.get::<unsafe extern "C" fn(i32)>(name) };
        // SAFETY: as in `asked`.
        unsafe { fail.unwrap()(code) };
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let _removed = std::fs::remove_file(&self.path);
    }
}
