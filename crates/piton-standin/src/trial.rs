//! What tests of backends do on a stand-in, whichever vendor's it stands for. Panics where a test would.

#![expect(
    unsafe_code,
    reason = "opens stand-ins, and submits commands on memory of its own"
)]
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "tests fail by panicking"
)]

use crate::{codes::Code, library::Asked};
use piton_driver::{
    Device, DeviceId, DevicePtr, Driver, DriverError, ErrorKind, Grid, Kernel, Launch, ModuleImage,
    Parameter, Position, Queue, QueueOptions, Signature, WaitOutcome,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The module that tests register: its kernels take memory and a number.
pub const MODULE: &str = "m";

/// A copy of a stand-in for one test alone: what one test has fail is no other's business.
#[derive(Debug)]
pub struct Own {
    _folder: tempfile::TempDir,
    path: PathBuf,
    prefix: &'static str,
}

impl Own {
    /// A copy of the stand-in at `stand_in`, under the name of the vendor's file. The stand-in's own functions have
    /// names that begin with `prefix`.
    pub fn copy_of(stand_in: &Path, name: &str, prefix: &'static str) -> Self {
        Self::made(prefix, |folder| {
            let path = folder.join(name);
            fs::copy(stand_in, &path).map(|_| path)
        })
    }

    /// The copy that `make` makes in the folder it is given.
    pub fn made(prefix: &'static str, make: impl FnOnce(&Path) -> io::Result<PathBuf>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = make(folder.path()).unwrap();
        Self {
            _folder: folder,
            path,
            prefix,
        }
    }

    /// Its file, which goes with the value.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stand-in once more, which is there until its last handle is gone.
    pub fn asked(&self) -> Asked {
        // SAFETY: a copy of a stand-in.
        unsafe { Asked::open(&self.path, self.prefix) }.unwrap()
    }

    /// The next call of this function answers this.
    pub fn fail(&self, name: &str, code: Code) {
        self.asked().fail(name, code).unwrap();
    }

    /// How often the backend did what no program may.
    pub fn mistakes(&self) -> u32 {
        self.asked().mistakes().unwrap()
    }
}

/// What the kernels of [`MODULE`] take.
pub fn takes() -> Signature {
    Signature::new([Parameter::write::<u32>(), Parameter::value::<u32>()])
}

/// An open device.
pub fn device(driver: &dyn Driver, id: u32) -> Arc<dyn Device> {
    driver.open(DeviceId(id)).unwrap()
}

/// A kernel of [`MODULE`].
///
/// # Errors
/// What the device says of the module or the kernel.
pub fn kernel(device: &dyn Device, name: &str) -> Result<Arc<dyn Kernel>, DriverError> {
    let module = device.kernels().load(ModuleImage::Registered(MODULE))?;
    module.kernel(name)
}

/// A queue like any other.
pub fn queue(device: &dyn Device) -> Arc<dyn Queue> {
    device.queues().create(&QueueOptions::default()).unwrap()
}

/// Waits for everything on a queue.
pub fn end(queue: &dyn Queue) {
    let outcome = queue.wait(queue.submitted(), None).unwrap();
    assert_eq!(outcome, WaitOutcome::Reached);
}

/// The arguments of a kernel that adds one.
pub fn adds_one(memory: DevicePtr) -> Vec<u8> {
    [&memory.address().to_ne_bytes()[..], &1_u32.to_ne_bytes()].concat()
}

/// Launches a kernel on fresh memory of the device.
pub fn launch(device: &dyn Device, queue: &Arc<dyn Queue>, name: &str) {
    let memory = device.memory().allocate(1024).unwrap();
    let kernel = kernel(device, name).unwrap();
    let arguments = adds_one(memory);
    let launch = Launch::new(&kernel, Grid::linear(1), &arguments);
    // SAFETY: the memory is live and as long as a block.
    let _admission = unsafe { queue.launch(&launch) }.unwrap();
}

/// A launch that the vendor's function refuses with a code for "no room" takes no position, and the next one is taken.
pub fn a_refused_launch_takes_no_position(
    own: &Own,
    driver: &dyn Driver,
    (function, code): (&str, Code),
) {
    let device = device(driver, 0);
    let queue = queue(&*device);
    let kernel = kernel(&*device, "conformance_add").unwrap();
    let arguments = adds_one(device.memory().allocate(1024).unwrap());
    let launch = Launch::new(&kernel, Grid::linear(1), &arguments);
    own.fail(function, code);
    // SAFETY: the memory is live and as long as a block.
    let error = unsafe { queue.launch(&launch) }.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::OutOfResources { .. }));
    assert_eq!(queue.submitted(), Position::START);
    // SAFETY: as above.
    let _admission = unsafe { queue.launch(&launch) }.unwrap();
    end(&*queue);
    assert_eq!(queue.failure(), None);
}

/// Who only looks how far a queue is learns that a kernel has failed.
pub fn a_failure_is_noticed_by_who_only_looks(driver: &dyn Driver) {
    let device = device(driver, 0);
    let queue = queue(&*device);
    launch(&*device, &queue, "conformance_trap");
    while queue.completed() < queue.submitted() {
        piton_sync::thread::yield_now();
    }
    assert!(queue.failure().unwrap().error.is_device_lost());
}

/// What kernels were loaded from stays loaded while they run.
pub fn a_module_stays_loaded_while_its_kernels_run(own: &Own, driver: &dyn Driver) {
    let device = device(driver, 0);
    let queue = queue(&*device);
    let arguments = adds_one(device.memory().allocate(4096 * 1024).unwrap());
    for _ in 0..16 {
        let kernel = kernel(&*device, "conformance_add").unwrap();
        let launch = Launch::new(&kernel, Grid::linear(4096), &arguments);
        // SAFETY: the memory is live and as long as the grid.
        let _admission = unsafe { queue.launch(&launch) }.unwrap();
    }
    end(&*queue);
    assert_eq!(queue.failure(), None);
    assert_eq!(own.mistakes(), 0, "unloaded while it ran");
}
