//! piton on NVIDIA's driver beside the driver alone, in one run, the two in turns; and what graphs of the driver's would save.
//!
//! `cargo bench -p piton-benches --bench cuda`. Prints medians and least times; where there is no device it says so and ends.
//! It runs on a stand-in for the library too (`LD_LIBRARY_PATH`), which shows that it runs and says nothing of speed.

#![expect(
    unsafe_code,
    reason = "a baseline calls CUDA itself, and launches are unsafe: the kernel keeps to 1 KiB"
)]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a table for people"
)]

#[path = "shared/turns.rs"]
mod turns;

use piton_alloc::{DeviceBlocks, DevicePool, MemoryPoolConfig, Request};
use piton_cuda::{CudaBlock, CudaConfig, CudaDriver, CudaModule};
use piton_driver::{
    Admission, Command, Device, DeviceId, DevicePtr, Driver, Grid, HostAllocation,
    HostMemoryOptions, Kernel, Launch, ModuleImage, Parameter, Queue, QueueOptions, Signature,
};
use piton_timeline::{Frontier, Timeline};
use std::{
    ffi::{c_int, c_uint, c_void},
    panic::Location,
    ptr,
    sync::Arc,
};
use turns::{compare, timed};

/// The suite's kernels: `conformance_add` adds a value to 256 words.
const PTX: &str = include_str!("../../crates/piton-conformance/tests/kernels/conformance.ptx");
const KERNEL: &str = "conformance_add";
const THREADS: u32 = 64;
/// Launches handed over before the queue is waited for. No more than a queue of piton's holds.
const BATCH: u32 = 100;
const ROUNDS: usize = 300;
/// Bytes of the largest copy; an eighth of the memory where there is little.
const LARGE: u64 = 64 << 20;

type Handle = *mut c_void;

macro_rules! functions {
    ($($field:ident $symbol:literal ($($argument:ty),*);)*) => {
        /// CUDA as a program without piton uses it.
        struct Functions {
            $($field: Option<unsafe extern "C" fn($($argument),*) -> c_uint>,)*
        }

        impl Functions {
            fn of(library: &libloading::Library) -> Self {
                Self {
                    $($field: {
                        // SAFETY: the type is the one that the reference gives this name.
                        let symbol = unsafe { library.get(concat!($symbol, "\0").as_bytes()) };
                        symbol.ok().map(|symbol| *symbol)
                    },)*
                }
            }
        }
    };
}

functions! {
    init "cuInit" (c_uint);
    retain "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    push "cuCtxPushCurrent_v2" (Handle);
    allocate "cuMemAlloc_v2" (*mut u64, usize);
    free "cuMemFree_v2" (u64);
    host "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    load "cuModuleLoadDataEx" (*mut Handle, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    function "cuModuleGetFunction" (*mut Handle, Handle, *const std::ffi::c_char);
    stream "cuStreamCreateWithPriority" (*mut Handle, c_uint, c_int);
    launch "cuLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    );
    synchronize "cuStreamSynchronize" (Handle);
    event "cuEventCreate" (*mut Handle, c_uint);
    record "cuEventRecord" (Handle, Handle);
    event_wait "cuEventSynchronize" (Handle);
    to_device "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, Handle);
    to_host "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, Handle);
    on_device "cuMemcpyDtoDAsync_v2" (u64, u64, usize, Handle);
    capture "cuStreamBeginCapture_v2" (Handle, c_uint);
    end_capture "cuStreamEndCapture" (Handle, *mut Handle);
    instantiate "cuGraphInstantiateWithFlags" (*mut Handle, Handle, u64);
    graph_launch "cuGraphLaunch" (Handle, Handle);
}

/// The library's function; whoever is here has looked that it is there.
macro_rules! call {
    ($raw:expr, $field:ident ($($argument:expr),* $(,)?)) => {{
        let function = $raw.functions.$field.unwrap();
        // SAFETY: a call as the reference says, on handles and memory of our own.
        let code = unsafe { function($($argument),*) };
        assert_eq!(code, 0, stringify!($field));
    }};
}

struct Raw {
    functions: Functions,
    stream: Handle,
    event: Handle,
    kernel: Handle,
    a: u64,
    b: u64,
    host: *mut c_void,
}

impl Raw {
    fn open(bytes: u64) -> Self {
        // SAFETY: the library that piton has opened before.
        let library = unsafe { libloading::Library::new("libcuda.so.1") }.unwrap();
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        let null = ptr::null_mut();
        let mut raw = Self {
            functions: Functions::of(library),
            stream: null,
            event: null,
            kernel: null,
            a: 0,
            b: 0,
            host: null,
        };
        let (mut context, mut module) = (null, null);
        let bytes = usize::try_from(bytes).unwrap();
        let ptx = [PTX.as_bytes(), &[0]].concat();
        call!(raw, init(0));
        call!(raw, retain(&raw mut context, 0));
        call!(raw, push(context));
        call!(raw, allocate(&raw mut raw.a, bytes));
        call!(raw, allocate(&raw mut raw.b, bytes));
        // Portable and mapped, as piton's is.
        call!(raw, host(&raw mut raw.host, bytes, 3));
        call!(raw, stream(&raw mut raw.stream, 1, 0));
        // Who waits for it spins, as for a stream.
        call!(raw, event(&raw mut raw.event, 2));
        call!(
            raw,
            load(
                &raw mut module,
                ptx.as_ptr().cast(),
                0,
                ptr::null_mut(),
                ptr::null_mut()
            )
        );
        call!(
            raw,
            function(&raw mut raw.kernel, module, c"conformance_add".as_ptr())
        );
        raw
    }

    fn launch(&self) {
        let (mut at, mut value) = (self.a, 1_u32);
        let mut places: [*mut c_void; 2] = [(&raw mut at).cast(), (&raw mut value).cast()];
        let (places, none) = (places.as_mut_ptr(), ptr::null_mut());
        call!(
            self,
            launch(
                self.kernel,
                1,
                1,
                1,
                THREADS,
                1,
                1,
                0,
                self.stream,
                places,
                none
            )
        );
    }

    fn finish(&self) {
        if self.functions.synchronize.is_some() {
            call!(self, synchronize(self.stream));
        } else {
            call!(self, record(self.event, self.stream));
            call!(self, event_wait(self.event));
        }
    }

    fn copy(&self, way: Way, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap();
        match way {
            Way::ToDevice => call!(self, to_device(self.a, self.host, bytes, self.stream)),
            Way::ToHost => call!(self, to_host(self.host, self.a, bytes, self.stream)),
            Way::OnDevice => call!(self, on_device(self.b, self.a, bytes, self.stream)),
        }
        self.finish();
    }

    /// A graph of so many launches, one behind the other; nothing where the library has none.
    fn graph(&self, launches: u32) -> Option<Handle> {
        self.functions.graph_launch?;
        let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
        call!(self, capture(self.stream, 2));
        (0..launches).for_each(|_| self.launch());
        call!(self, end_capture(self.stream, &raw mut graph));
        call!(self, instantiate(&raw mut executable, graph, 0));
        Some(executable)
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    ToDevice,
    ToHost,
    OnDevice,
}

/// piton on the same driver.
struct Piton {
    queue: Arc<dyn Queue>,
    kernel: Arc<dyn Kernel>,
    arguments: Vec<u8>,
    a: DevicePtr,
    b: DevicePtr,
    host: HostAllocation,
}

impl Piton {
    fn open(device: &dyn Device, bytes: u64) -> Self {
        let module = device.kernels().load(ModuleImage::Registered("bench"));
        let length = usize::try_from(bytes).unwrap();
        let host = device.host_memory().unwrap();
        let (a, b) = (
            device.memory().allocate(bytes).unwrap(),
            device.memory().allocate(bytes).unwrap(),
        );
        let mut arguments = a.address().to_ne_bytes().to_vec();
        arguments.extend(1_u32.to_ne_bytes());
        Self {
            queue: device.queues().create(&QueueOptions::default()).unwrap(),
            kernel: module.unwrap().kernel(KERNEL).unwrap(),
            arguments,
            a,
            b,
            host: host.allocate(length, HostMemoryOptions::default()).unwrap(),
        }
    }

    fn submit(&self, command: &Command<'_>) {
        // SAFETY: memory of our own, used in order by this queue alone.
        let admission = unsafe { self.queue.submit(command, Location::caller()) };
        assert!(matches!(admission, Ok(Admission::Accepted(_))));
    }

    fn launch(&self) {
        let launch = Launch::new(&self.kernel, Grid::linear(1), &self.arguments);
        self.submit(&Command::Launch(launch));
    }

    fn finish(&self) {
        let _reached = self.queue.wait(self.queue.submitted(), None).unwrap();
    }

    fn copy(&self, way: Way, bytes: u64) {
        let (a, b, host) = (self.a, self.b, self.host.start);
        self.submit(&match way {
            Way::ToDevice => Command::CopyToDevice {
                dst: a,
                src: host,
                bytes,
            },
            Way::ToHost => Command::CopyToHost {
                dst: host,
                src: a,
                bytes,
            },
            Way::OnDevice => Command::CopyOnDevice {
                dst: b,
                src: a,
                bytes,
            },
        });
        self.finish();
    }
}

fn main() {
    let driver = match CudaDriver::open(CudaConfig::default()) {
        Ok(driver) => driver,
        Err(absence) => return println!("skipped: {absence}"),
    };
    let takes = Signature::new([Parameter::write::<u32>(), Parameter::value::<u32>()]);
    // SAFETY: the kernel keeps to 256 words.
    let module = unsafe { CudaModule::from_ptx("bench", PTX) };
    driver.register(module.with(KERNEL, takes, CudaBlock::linear(THREADS)));
    let device = Driver::open(&driver, DeviceId(0)).unwrap();
    println!("{}, CUDA {:?}", device.info().name, driver.version());
    println!("ns, medians and [least], the two in turns");
    let large = LARGE.min(device.info().memory_bytes / 8);
    let (raw, piton) = (Raw::open(large), Piton::open(&*device, large));
    raw.launch();
    raw.finish();
    piton.launch();
    piton.finish();
    launches(&raw, &piton);
    for way in [Way::ToDevice, Way::ToHost, Way::OnDevice] {
        for (name, bytes, rounds) in [
            ("4 KiB", 4096, ROUNDS),
            ("1 MiB", 1 << 20, ROUNDS),
            ("the largest", large, 15),
        ] {
            let name = format!("{way:?} {name} and wait");
            let (of_raw, ours) = (|| raw.copy(way, bytes), || piton.copy(way, bytes));
            compare(&name, rounds, 1, || timed(of_raw), || timed(ours));
        }
    }
    allocations(&raw, &device);
    graphs(&raw, &piton);
}

fn launches(raw: &Raw, piton: &Piton) {
    let many = |launch: &dyn Fn(), finish: &dyn Fn()| {
        let spent = timed(|| (0..BATCH).for_each(|_| launch()));
        finish();
        spent
    };
    compare(
        "launch, of 100",
        ROUNDS,
        BATCH,
        || many(&|| raw.launch(), &|| raw.finish()),
        || many(&|| piton.launch(), &|| piton.finish()),
    );
    let one = |launch: &dyn Fn(), finish: &dyn Fn()| {
        timed(|| {
            launch();
            finish();
        })
    };
    compare(
        "launch and wait",
        5 * ROUNDS,
        1,
        || one(&|| raw.launch(), &|| raw.finish()),
        || one(&|| piton.launch(), &|| piton.finish()),
    );
}

/// An allocation that is given back, of the driver's and of a pool that has what it needs.
fn allocations(raw: &Raw, device: &Arc<dyn Device>) {
    let timeline = Timeline::new();
    let lane = timeline.register(None).unwrap();
    let blocks = Arc::new(DeviceBlocks::new(Arc::clone(device)));
    let pool = DevicePool::new(blocks, timeline, &MemoryPoolConfig::default());
    let pool = pool.unwrap();
    let pooled = || {
        let allocation = pool.allocate(Request::new(1 << 20).on(lane.id())).unwrap();
        pool.free(allocation, Frontier::new()).unwrap();
    };
    pooled();
    let of_raw = || {
        let mut address = 0;
        call!(raw, allocate(&raw mut address, 1 << 20));
        call!(raw, free(address));
    };
    compare(
        "allocate and free 1 MiB",
        ROUNDS,
        10,
        || timed(|| (0..10).for_each(|_| of_raw())),
        || timed(|| (0..10).for_each(|_| pooled())),
    );
}

/// The driver's graphs beside piton's loop: what a facet over them could save.
fn graphs(raw: &Raw, piton: &Piton) {
    for launches in [10, BATCH] {
        let Some(graph) = raw.graph(launches) else {
            return println!("no graphs: the library has no cuGraphLaunch");
        };
        compare(
            &format!("{launches} launches: a graph, a loop"),
            ROUNDS,
            1,
            || {
                timed(|| {
                    call!(raw, graph_launch(graph, raw.stream));
                    raw.finish();
                })
            },
            || {
                timed(|| {
                    (0..launches).for_each(|_| piton.launch());
                    piton.finish();
                })
            },
        );
    }
}
