//! piton on an OpenCL driver beside the driver alone, in one run, the two in turns.
//!
//! `cargo bench -p piton-benches --bench opencl`; with pocl, set `POCL_CACHE_DIR` to a folder that may be written. Prints
//! medians and least times; where there is no OpenCL it says so and ends.

#![expect(
    unsafe_code,
    reason = "a baseline calls OpenCL itself, and launches are unsafe: the kernels here touch nothing"
)]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a table for people"
)]

#[path = "shared/turns.rs"]
mod turns;

use opencl_sys as cl;
use piton_alloc::{DeviceBlocks, DevicePool, MemoryPoolConfig, Request};
use piton_driver::{
    Admission, Command, Device, DeviceId, DevicePtr, Driver, FillPattern, Grid, Kernel, Launch,
    ModuleImage, Parameter, Queue, QueueOptions, Signature,
};
use piton_opencl::{OpenClConfig, OpenClDriver, OpenClModule};
use piton_timeline::{Frontier, Timeline};
use std::{
    ffi::{CString, c_void},
    panic::Location,
    ptr,
    sync::Arc,
};
use turns::{compare, timed};

const SOURCE: &str = "__kernel void nothing(__global float *a, __global const float *b, uint n) {}";
/// Launches enqueued before the queue is waited for.
const BATCH: u32 = 100;
const ROUNDS: usize = 300;
const LARGE: u64 = 64 << 20;

type Function<T> = libloading::Symbol<'static, T>;

/// OpenCL as a program without piton uses it.
struct Raw {
    queue: cl::cl_command_queue,
    kernel: cl::cl_kernel,
    set_svm: Function<unsafe extern "C" fn(cl::cl_kernel, u32, *const c_void) -> i32>,
    set: Function<unsafe extern "C" fn(cl::cl_kernel, u32, usize, *const c_void) -> i32>,
    launch: Function<EnqueueKernel>,
    copy: Function<EnqueueCopy>,
    finish: Function<unsafe extern "C" fn(cl::cl_command_queue) -> i32>,
    wait: Function<unsafe extern "C" fn(u32, *const cl::cl_event) -> i32>,
    release: Function<unsafe extern "C" fn(cl::cl_event) -> i32>,
    context: cl::cl_context,
    allocate: Function<unsafe extern "C" fn(cl::cl_context, u64, usize, u32) -> *mut c_void>,
    free: Function<unsafe extern "C" fn(cl::cl_context, *mut c_void)>,
    fill: Function<EnqueueFill>,
    buffer: Function<CreateBuffer>,
    map: Function<MapBuffer>,
    a: *mut c_void,
    b: *mut c_void,
}

type EnqueueKernel = unsafe extern "C" fn(
    cl::cl_command_queue,
    cl::cl_kernel,
    u32,
    *const usize,
    *const usize,
    *const usize,
    u32,
    *const cl::cl_event,
    *mut cl::cl_event,
) -> i32;
type CreateBuffer =
    unsafe extern "C" fn(cl::cl_context, u64, usize, *mut c_void, *mut i32) -> cl::cl_mem;
type MapBuffer = unsafe extern "C" fn(
    cl::cl_command_queue,
    cl::cl_mem,
    u32,
    u64,
    usize,
    usize,
    u32,
    *const cl::cl_event,
    *mut cl::cl_event,
    *mut i32,
) -> *mut c_void;
type EnqueueFill = unsafe extern "C" fn(
    cl::cl_command_queue,
    *mut c_void,
    *const c_void,
    usize,
    usize,
    u32,
    *const cl::cl_event,
    *mut cl::cl_event,
) -> i32;
type EnqueueCopy = unsafe extern "C" fn(
    cl::cl_command_queue,
    u32,
    *mut c_void,
    *const c_void,
    usize,
    u32,
    *const cl::cl_event,
    *mut cl::cl_event,
) -> i32;

macro_rules! function {
    ($library:ident, $name:literal) => {
        // SAFETY: the type is the one the header gives this name.
        unsafe { $library.get(concat!($name, "\0").as_bytes()) }.unwrap()
    };
}

impl Raw {
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        clippy::too_many_lines,
        reason = "a baseline is one sequence of calls"
    )]
    fn open() -> Option<Self> {
        // SAFETY: a system library.
        let library = unsafe { libloading::Library::new("libOpenCL.so.1") }.ok()?;
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        let platforms: Function<
            unsafe extern "C" fn(u32, *mut cl::cl_platform_id, *mut u32) -> i32,
        > = function!(library, "clGetPlatformIDs");
        let devices: Function<
            unsafe extern "C" fn(
                cl::cl_platform_id,
                u64,
                u32,
                *mut cl::cl_device_id,
                *mut u32,
            ) -> i32,
        > = function!(library, "clGetDeviceIDs");
        let context: Function<
            unsafe extern "C" fn(
                *const isize,
                u32,
                *const cl::cl_device_id,
                *const c_void,
                *mut c_void,
                *mut i32,
            ) -> cl::cl_context,
        > = function!(library, "clCreateContext");
        let queue: Function<
            unsafe extern "C" fn(
                cl::cl_context,
                cl::cl_device_id,
                *const u64,
                *mut i32,
            ) -> cl::cl_command_queue,
        > = function!(library, "clCreateCommandQueueWithProperties");
        let program: Function<
            unsafe extern "C" fn(
                cl::cl_context,
                u32,
                *const *const i8,
                *const usize,
                *mut i32,
            ) -> cl::cl_program,
        > = function!(library, "clCreateProgramWithSource");
        let build: Function<
            unsafe extern "C" fn(
                cl::cl_program,
                u32,
                *const cl::cl_device_id,
                *const i8,
                *const c_void,
                *mut c_void,
            ) -> i32,
        > = function!(library, "clBuildProgram");
        let kernel: Function<
            unsafe extern "C" fn(cl::cl_program, *const i8, *mut i32) -> cl::cl_kernel,
        > = function!(library, "clCreateKernel");
        let allocate: Function<
            unsafe extern "C" fn(cl::cl_context, u64, usize, u32) -> *mut c_void,
        > = function!(library, "clSVMAlloc");
        let (set_svm, set) = (
            function!(library, "clSetKernelArgSVMPointer"),
            function!(library, "clSetKernelArg"),
        );
        let launch = function!(library, "clEnqueueNDRangeKernel");
        let copy = function!(library, "clEnqueueSVMMemcpy");
        let (buffer, map) = (
            function!(library, "clCreateBuffer"),
            function!(library, "clEnqueueMapBuffer"),
        );
        let (free, fill) = (
            function!(library, "clSVMFree"),
            function!(library, "clEnqueueSVMMemFill"),
        );
        let finish = function!(library, "clFinish");
        let wait = function!(library, "clWaitForEvents");
        let release = function!(library, "clReleaseEvent");
        // SAFETY: calls in the order of the specification, each with places and lengths that are what they say.
        unsafe {
            let (mut platform, mut device, mut code) = (ptr::null_mut(), ptr::null_mut(), 0);
            if platforms(1, &raw mut platform, ptr::null_mut()) != 0
                || devices(platform, 0xffff_ffff, 1, &raw mut device, ptr::null_mut()) != 0
            {
                return None;
            }
            let context = context(
                ptr::null(),
                1,
                &raw const device,
                ptr::null(),
                ptr::null_mut(),
                &raw mut code,
            );
            let queue = queue(context, device, ptr::null(), &raw mut code);
            let source = CString::new(SOURCE).unwrap();
            let text = source.as_ptr();
            let program = program(context, 1, &raw const text, ptr::null(), &raw mut code);
            let built = build(
                program,
                1,
                &raw const device,
                ptr::null(),
                ptr::null(),
                ptr::null_mut(),
            );
            assert_eq!((code, built), (0, 0));
            let bytes = usize::try_from(LARGE).unwrap();
            Some(Self {
                queue,
                kernel: kernel(program, c"nothing".as_ptr(), &raw mut code),
                set_svm,
                set,
                launch,
                copy,
                finish,
                wait,
                release,
                context,
                a: allocate(context, 1, bytes, 0),
                b: allocate(context, 1, bytes, 0),
                allocate,
                free,
                fill,
                buffer,
                map,
            })
        }
    }

    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "a baseline is one sequence of calls"
    )]
    fn launch(&self, event: *mut cl::cl_event) {
        let (one, n) = ([1_usize; 3], 7_u32);
        // SAFETY: the kernel touches nothing; sizes are what they say.
        unsafe {
            (self.set_svm)(self.kernel, 0, self.a);
            (self.set_svm)(self.kernel, 1, self.b);
            (self.set)(self.kernel, 2, 4, (&raw const n).cast());
            let (sizes, none) = (one.as_ptr(), ptr::null());
            (self.launch)(
                self.queue,
                self.kernel,
                3,
                none,
                sizes,
                sizes,
                0,
                ptr::null(),
                event,
            );
        }
    }

    fn finish(&self) {
        // SAFETY: the queue is alive.
        unsafe { (self.finish)(self.queue) };
    }

    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "a baseline is one sequence of calls"
    )]
    fn launch_and_wait(&self) {
        let mut event = ptr::null_mut();
        self.launch(&raw mut event);
        // SAFETY: one event, ours.
        unsafe {
            (self.wait)(1, &raw const event);
            (self.release)(event);
        }
    }

    /// Memory of so many bytes, given back at once; filled in between if asked for.
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "a baseline is one sequence of calls"
    )]
    fn allocation(&self, bytes: u64, is_filled: bool) {
        let bytes = usize::try_from(bytes).unwrap();
        // SAFETY: fresh memory of that size, which goes when the queue has ended.
        unsafe {
            // Read and written, by the host too.
            let flags = cl::CL_MEM_READ_WRITE | cl::CL_MEM_SVM_FINE_GRAIN_BUFFER;
            let memory = (self.allocate)(self.context, flags, bytes, 0);
            if is_filled {
                self.fill_with(memory, bytes);
            }
            (self.free)(self.context, memory);
        }
    }

    /// Fills all of `a` or `b`.
    fn write(&self, memory: *mut c_void) {
        self.fill_with(memory, usize::try_from(LARGE).unwrap());
    }

    fn fill_with(&self, memory: *mut c_void, bytes: usize) {
        let word = 1_u32;
        let (value, none, event) = ((&raw const word).cast(), ptr::null(), ptr::null_mut());
        // SAFETY: memory of that size; the pattern is copied by the call.
        unsafe { (self.fill)(self.queue, memory, value, 4, bytes, 0, none, event) };
        self.finish();
    }

    /// Memory of the driver's that the host has mapped for good, as page-locked memory is had where there is no word for it.
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "a baseline is one sequence of calls"
    )]
    fn mapped(&self) -> *mut c_void {
        let (bytes, mut code) = (usize::try_from(LARGE).unwrap(), 0);
        // SAFETY: a buffer of that size, mapped for reading and writing; the call blocks.
        unsafe {
            let flags = cl::CL_MEM_READ_WRITE | cl::CL_MEM_ALLOC_HOST_PTR;
            let buffer = (self.buffer)(self.context, flags, bytes, ptr::null_mut(), &raw mut code);
            let (none, event, code) = (ptr::null(), ptr::null_mut(), &raw mut code);
            (self.map)(self.queue, buffer, 1, 3, 0, bytes, 0, none, event, code)
        }
    }

    fn copy(&self, bytes: u64) {
        self.copy_from(self.b, bytes);
    }

    fn copy_from(&self, from: *const c_void, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap();
        // SAFETY: both are as long; the call blocks.
        unsafe {
            (self.copy)(
                self.queue,
                1,
                self.a,
                from,
                bytes,
                0,
                ptr::null(),
                ptr::null_mut(),
            )
        };
    }
}

/// piton on the same driver.
struct Piton {
    queue: Arc<dyn Queue>,
    kernel: Arc<dyn Kernel>,
    arguments: Vec<u8>,
    a: DevicePtr,
    b: DevicePtr,
}

impl Piton {
    fn open(device: &dyn Device) -> Self {
        let module = device
            .kernels()
            .load(ModuleImage::Registered("bench"))
            .unwrap();
        let (a, b) = (
            device.memory().allocate(LARGE).unwrap(),
            device.memory().allocate(LARGE).unwrap(),
        );
        let mut arguments = a.address().to_ne_bytes().to_vec();
        arguments.extend(b.address().to_ne_bytes());
        arguments.extend(7_u32.to_ne_bytes());
        Self {
            queue: device.queues().create(&QueueOptions::default()).unwrap(),
            kernel: module.kernel("nothing").unwrap(),
            arguments,
            a,
            b,
        }
    }

    fn launch(&self) {
        let launch = Launch::new(&self.kernel, Grid::linear(1), &self.arguments);
        let command = Command::Launch(launch);
        // SAFETY: the kernel touches nothing.
        let admission = unsafe { self.queue.submit(&command, Location::caller()) };
        assert!(matches!(admission, Ok(Admission::Accepted(_))));
    }

    /// Fills memory of so many bytes.
    fn write(&self, dst: DevicePtr, bytes: u64) {
        let pattern = FillPattern::Word(1);
        let command = Command::Fill {
            dst,
            pattern,
            bytes,
        };
        // SAFETY: ours, of that size.
        let admission = unsafe { self.queue.submit(&command, Location::caller()) };
        assert!(matches!(admission, Ok(Admission::Accepted(_))));
        self.finish();
    }

    fn finish(&self) {
        let _reached = self.queue.wait(self.queue.submitted(), None).unwrap();
    }

    fn copy(&self, bytes: u64) {
        // SAFETY: both are as long, and used by nobody else.
        let admission = unsafe { self.queue.copy_on_device(self.a, self.b, bytes) };
        assert!(matches!(admission, Ok(Admission::Accepted(_))));
        self.finish();
    }
}

fn main() {
    let driver = match OpenClDriver::open(OpenClConfig::default()) {
        Ok(driver) => driver,
        Err(absence) => return println!("skipped: {absence}"),
    };
    let takes = [
        Parameter::write::<f32>(),
        Parameter::read::<f32>(),
        Parameter::value::<u32>(),
    ];
    // SAFETY: the kernel touches nothing.
    let module = unsafe { OpenClModule::from_source("bench", SOURCE) };
    driver.register(module.with("nothing", Signature::new(takes)));
    let device = driver.open(DeviceId(0)).unwrap();
    let (Some(raw), piton) = (Raw::open(), Piton::open(&*device)) else {
        return println!("skipped: no device for the baseline");
    };
    raw.launch_and_wait();
    piton.launch();
    piton.finish();
    // What nobody has written is one page of zeroes, over and over.
    raw.write(raw.a);
    raw.write(raw.b);
    piton.write(piton.a, LARGE);
    piton.write(piton.b, LARGE);
    println!("ns, medians and [least], the two in turns");
    launches("launch, raw without events", &raw, &piton, false);
    launches("launch, raw with events", &raw, &piton, true);
    round_trips(&raw, &piton);
    allocations(&raw, &piton, &device);
    sources(&raw);
}

/// What the device copies from fastest, of what page-locked memory could be: the driver alone, its mapped buffers in the first
/// column and its shared memory, which piton takes, in the second.
fn sources(raw: &Raw) {
    println!("first what is mapped, then what is shared:");
    let mapped = raw.mapped();
    // SAFETY: mapped memory of that size, which nothing reads yet. What nobody has written is one page of zeroes.
    unsafe {
        mapped
            .cast::<u8>()
            .write_bytes(1, usize::try_from(LARGE).unwrap())
    };
    for (name, bytes, rounds) in [
        ("copy 1 MiB from", 1 << 20, ROUNDS),
        ("copy 64 MiB from", LARGE, 15),
    ] {
        raw.copy_from(mapped, bytes);
        compare(
            name,
            rounds,
            1,
            || timed(|| raw.copy_from(mapped, bytes)),
            || timed(|| raw.copy_from(raw.b, bytes)),
        );
    }
}

/// An allocation that is given back, of the driver's and of a pool that has what it needs; and one that is filled, for which the
/// system finds pages each time or not.
fn allocations(raw: &Raw, piton: &Piton, device: &Arc<dyn Device>) {
    let timeline = Timeline::new();
    let lane = timeline.register(None).unwrap();
    let blocks = Arc::new(DeviceBlocks::new(Arc::clone(device)));
    let pool = DevicePool::new(blocks, timeline, &MemoryPoolConfig::default());
    let pool = pool.unwrap();
    let pooled = |bytes, is_filled| {
        let allocation = pool.allocate(Request::new(bytes).on(lane.id())).unwrap();
        if is_filled {
            piton.write(allocation.ptr(), bytes);
        }
        pool.free(allocation, Frontier::new()).unwrap();
    };
    for (name, bytes) in [("4 KiB", 4096), ("1 MiB", 1 << 20)] {
        pooled(bytes, false);
        compare(
            &format!("allocate and free {name}"),
            ROUNDS,
            BATCH,
            || timed(|| (0..BATCH).for_each(|_| raw.allocation(bytes, false))),
            || timed(|| (0..BATCH).for_each(|_| pooled(bytes, false))),
        );
    }
    pooled(LARGE, true);
    compare(
        "allocate 64 MiB and fill",
        15,
        1,
        || timed(|| raw.allocation(LARGE, true)),
        || timed(|| pooled(LARGE, true)),
    );
}

/// Launches alone; the queue is waited for outside the measured time.
fn launches(name: &str, raw: &Raw, piton: &Piton, with_event: bool) {
    compare(
        name,
        ROUNDS,
        BATCH,
        || {
            let mut events = vec![ptr::null_mut(); BATCH as usize];
            let spent = timed(|| {
                for event in &mut events {
                    raw.launch(if with_event { event } else { ptr::null_mut() });
                }
            });
            raw.finish();
            for event in events.iter().filter(|event| !event.is_null()) {
                // SAFETY: ours, once.
                unsafe { (raw.release)(*event) };
            }
            spent
        },
        || {
            let spent = timed(|| (0..BATCH).for_each(|_| piton.launch()));
            piton.finish();
            spent
        },
    );
}

/// Work and the wait for it.
fn round_trips(raw: &Raw, piton: &Piton) {
    compare(
        "launch and wait",
        5 * ROUNDS,
        1,
        || timed(|| raw.launch_and_wait()),
        || {
            timed(|| {
                piton.launch();
                piton.finish();
            })
        },
    );
    compare(
        "launch 100 and wait",
        ROUNDS,
        1,
        || {
            timed(|| {
                (0..BATCH).for_each(|_| raw.launch(ptr::null_mut()));
                raw.finish();
            })
        },
        || {
            timed(|| {
                (0..BATCH).for_each(|_| piton.launch());
                piton.finish();
            })
        },
    );
    for (name, bytes, rounds) in [
        ("copy 4 KiB", 4096, ROUNDS),
        ("copy 1 MiB", 1 << 20, ROUNDS),
        ("copy 64 MiB", LARGE, 15),
    ] {
        compare(
            name,
            rounds,
            1,
            || timed(|| raw.copy(bytes)),
            || timed(|| piton.copy(bytes)),
        );
    }
}
