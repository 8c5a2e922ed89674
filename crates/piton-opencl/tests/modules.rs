//! Source and binaries that nobody has declared: what the driver says of their kernels, and what it does not take.

#![expect(
    unsafe_code,
    reason = "vouches for kernels written here, and submits commands"
)]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "child/process.rs"]
mod child;

use child::in_child;
use piton_driver::{
    Access, Device, DeviceId, Driver, DriverError, ErrorKind, Grid, HostMemoryOptions, Kernel,
    Launch, Locking, ModuleImage, Parameter, QueueOptions, Signature,
};
use piton_opencl::OpenClDriver;
use std::sync::Arc;

const SOURCE: &str = "
typedef struct { uint first; float factors[3]; uchar kind; } Tiling;
__kernel void scale(__global float *to, __global const float *from, float factor, uint count) {
    for (uint i = 0; i < count; i++) to[i] = from[i] * factor;
}
__kernel void vectors(__constant uint *table, float8 values) { }
__kernel void tiled(Tiling tiling) { }
__kernel void shares(__global uint *a, __local uint *room) { }
";

fn open(driver: &OpenClDriver) -> Arc<dyn Device> {
    Driver::open(driver, DeviceId(0)).unwrap()
}

fn kernel(
    device: &dyn Device,
    image: ModuleImage<'_>,
    name: &str,
) -> Result<Arc<dyn Kernel>, DriverError> {
    device.kernels().load(image)?.kernel(name)
}

const fn buffer(access: Access, element_bytes: u32) -> Parameter {
    Parameter::Buffer {
        access,
        element_bytes,
    }
}

fn takes_of_scale() -> Signature {
    Signature::new([
        buffer(Access::Write, 4),
        buffer(Access::Read, 4),
        Parameter::value::<f32>(),
        Parameter::value::<u32>(),
    ])
}

/// Scales four numbers by two.
fn assert_scales(device: &dyn Device, kernel: &Arc<dyn Kernel>) {
    let options = HostMemoryOptions {
        locking: Locking::Preferred,
        numa_node: None,
    };
    let host = device.host_memory().unwrap().allocate(32, options).unwrap();
    let memory = device.memory().allocate(1024).unwrap();
    let from = memory.checked_add(512).unwrap();
    let numbers = [1.0_f32, 2.0, 3.0, 4.0];
    // SAFETY: 16 bytes of our own, aligned to a page.
    unsafe { host.start.cast::<[f32; 4]>().write(numbers) };
    let arguments = [
        &memory.address().to_ne_bytes()[..],
        &from.address().to_ne_bytes(),
        &2.0_f32.to_ne_bytes(),
        &4_u32.to_ne_bytes(),
    ]
    .concat();
    let queue = device.queues().create(&QueueOptions::default()).unwrap();
    // SAFETY: all live, of these sizes, and used in order by this queue alone.
    let _sent = unsafe { queue.copy_to_device(from, host.start, 16) }.unwrap();
    let launch = Launch {
        extents: &[16, 16],
        ..Launch::new(kernel, Grid::linear(1), &arguments)
    };
    // SAFETY: as above.
    let _launched = unsafe { queue.launch(&launch) }.unwrap();
    // SAFETY: as above.
    let _fetched = unsafe { queue.copy_to_host(host.start, memory, 16) }.unwrap();
    let _reached = queue.wait(queue.submitted(), None).unwrap();
    // SAFETY: the queue has ended.
    let seen = unsafe { host.start.cast::<[f32; 4]>().read() };
    assert_eq!(seen, numbers.map(|number| 2.0 * number));
}

#[test]
fn the_driver_says_what_kernels_of_source_take() {
    in_child("the_driver_says_what_kernels_of_source_take", |driver| {
        let device = open(&driver);
        let source = ModuleImage::Source(SOURCE);
        let scale = kernel(&*device, source, "scale").unwrap();
        assert_eq!(*scale.signature(), takes_of_scale());
        assert_scales(&*device, &scale);
        let vectors = kernel(&*device, source, "vectors").unwrap();
        // Constant memory is not written.
        let takes = [buffer(Access::Read, 4), Parameter::value::<[u128; 2]>()];
        let sizes = |takes: &[Parameter]| takes.iter().map(|one| one.packed_bytes()).collect();
        let (found, wanted): (Vec<_>, Vec<_>) =
            (sizes(vectors.signature().parameters()), sizes(&takes));
        assert_eq!(found, wanted);
        assert_eq!(vectors.signature().parameters()[0], takes[0]);
        // Of a struct some drivers know the size.
        match kernel(&*device, source, "tiled") {
            Ok(tiled) => assert_eq!(tiled.signature().packed_bytes(), 20),
            Err(error) => assert_eq!(error.kind, ErrorKind::UnknownKernel),
        }
        // The contract has no word for memory of a work group.
        for name in ["shares", "nobody"] {
            let error = kernel(&*device, source, name).unwrap_err();
            assert_eq!(error.kind, ErrorKind::UnknownKernel);
        }
    });
}

#[test]
fn source_that_does_not_build_says_what_the_compiler_said() {
    let test = "source_that_does_not_build_says_what_the_compiler_said";
    in_child(test, |driver| {
        let source = ModuleImage::Source("__kernel void k( {");
        let error = open(&driver).kernels().load(source).unwrap_err();
        assert_eq!(error.kind, ErrorKind::UnknownModule);
        assert!(driver.build_log("").unwrap().contains("error"));
        let error = driver.binary(DeviceId(0), "no source at all").unwrap_err();
        assert_eq!(error.kind, ErrorKind::UnknownModule);
    });
}

#[test]
fn a_binary_runs_on_the_device_it_was_made_for_and_rubbish_is_refused() {
    let test = "a_binary_runs_on_the_device_it_was_made_for_and_rubbish_is_refused";
    in_child(test, |driver| {
        let device = open(&driver);
        let Some(binary) = driver.binary(DeviceId(0), SOURCE).unwrap() else {
            return;
        };
        let scale = kernel(&*device, ModuleImage::Binary(&binary), "scale").unwrap();
        assert_eq!(*scale.signature(), takes_of_scale());
        assert_scales(&*device, &scale);
        let mut changed = binary.clone();
        *changed.last_mut().unwrap() ^= 1;
        let rubbish: [&[u8]; 5] = [
            b"",
            b"no binary",
            &binary[..binary.len() / 2],
            &binary[1..],
            &changed,
        ];
        for bytes in rubbish {
            let error = device.kernels().load(ModuleImage::Binary(bytes));
            assert_eq!(error.unwrap_err().kind, ErrorKind::UnknownModule);
        }
    });
}
