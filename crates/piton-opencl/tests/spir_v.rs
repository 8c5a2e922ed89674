//! SPIR-V, on a driver that takes it (Intel's, where it is installed), and on the usual one, which may not.

#![expect(unsafe_code, reason = "submits commands")]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "child/process.rs"]
mod child;
#[path = "child/intel.rs"]
mod intel;

use child::{apart::apart_with, config, in_child};
use piton_driver::{
    Device, DeviceId, Driver, DriverError, ErrorKind, FillPattern, Grid, HostMemoryOptions, Kernel,
    Launch, Locking, ModuleImage, Parameter, QueueOptions,
};
use piton_opencl::OpenClDriver;
use std::sync::Arc;

/// One instruction: how many words, which, and what it says.
fn instruction(words: &mut Vec<u32>, code: u32, operands: &[u32]) {
    let length = u32::try_from(operands.len()).unwrap() + 1;
    words.push(length << 16 | code);
    words.extend(operands);
}

/// What of an instruction is a text: words of four bytes, the last of which ends in zero.
fn text(name: &str) -> Vec<u32> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize((bytes.len() / 4 + 1) * 4, 0);
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// `kernel void add(global uint *values, uint value) { values[get_group_id(0)] += value; }`, by hand.
fn add() -> Vec<u8> {
    // Names of what there is. The last is one past them.
    let [void, int, long, longs, input, global, takes, group, body] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let [values, value, start, groups, x, place, old, new, bound] =
        [10, 11, 12, 13, 14, 15, 16, 17, 18];
    let mut words = vec![0x0723_0203, 0x0001_0000, 0, bound, 0];
    let mut emit = |code, operands: &[u32]| instruction(&mut words, code, operands);
    // Capabilities: addresses, kernels, integers of 64 bits. Addresses are of 64 bits, the memory model is OpenCL's.
    emit(17, &[4]);
    emit(17, &[6]);
    emit(17, &[11]);
    emit(14, &[2, 2]);
    // A kernel, and the number of the work group, which is given to it.
    emit(15, &[&[6, body][..], &text("add"), &[group]].concat());
    emit(71, &[group, 11, 26]);
    // Types.
    emit(19, &[void]);
    emit(21, &[int, 32, 0]);
    emit(21, &[long, 64, 0]);
    emit(23, &[longs, long, 3]);
    emit(32, &[input, 1, longs]);
    emit(32, &[global, 5, int]);
    emit(33, &[takes, void, global, int]);
    emit(59, &[input, group, 1]);
    // The body.
    emit(54, &[void, body, 0, takes]);
    emit(55, &[global, values]);
    emit(55, &[int, value]);
    emit(248, &[start]);
    emit(61, &[longs, groups, group, 2, 32]);
    emit(81, &[long, x, groups, 0]);
    emit(70, &[global, place, values, x]);
    emit(61, &[int, old, place, 2, 4]);
    emit(128, &[int, new, old, value]);
    emit(62, &[place, new, 2, 4]);
    emit(253, &[]);
    emit(56, &[]);
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn load(device: &dyn Device) -> Result<Arc<dyn Kernel>, DriverError> {
    let words = add();
    device
        .kernels()
        .load(ModuleImage::Binary(&words))?
        .kernel("add")
}

/// Four ones, and three added to each.
fn assert_adds(device: &dyn Device, kernel: &Arc<dyn Kernel>) {
    let options = HostMemoryOptions {
        locking: Locking::Preferred,
        numa_node: None,
    };
    let host = device.host_memory().unwrap().allocate(16, options).unwrap();
    let memory = device.memory().allocate(16).unwrap();
    let queue = device.queues().create(&QueueOptions::default()).unwrap();
    let arguments = [&memory.address().to_ne_bytes()[..], &3_u32.to_ne_bytes()].concat();
    let launch = Launch {
        extents: &[16],
        ..Launch::new(kernel, Grid::linear(4), &arguments)
    };
    // SAFETY: all live, of these sizes, and used in order by this queue alone.
    let _filled = unsafe { queue.fill(memory, FillPattern::Word(1), 16) }.unwrap();
    // SAFETY: as above.
    let _launched = unsafe { queue.launch(&launch) }.unwrap();
    // SAFETY: as above.
    let _fetched = unsafe { queue.copy_to_host(host.start, memory, 16) }.unwrap();
    let _reached = queue.wait(queue.submitted(), None).unwrap();
    // SAFETY: the queue has ended.
    let seen = unsafe { host.start.cast::<[u32; 4]>().read() };
    assert_eq!(seen, [4; 4]);
}

#[test]
fn spir_v_runs_where_the_device_takes_it_and_is_refused_elsewhere() {
    let test = "spir_v_runs_where_the_device_takes_it_and_is_refused_elsewhere";
    in_child(test, |driver| {
        let device = Driver::open(&driver, DeviceId(0)).unwrap();
        match load(&*device) {
            Ok(kernel) => assert_adds(&*device, &kernel),
            Err(error) => assert_eq!(error.kind, ErrorKind::UnknownModule),
        }
    });
}

#[test]
fn spir_v_runs_on_intels_runtime() {
    let Some(variables) = intel::variables() else {
        return;
    };
    apart_with("spir_v_runs_on_intels_runtime", &variables, || {
        let driver = OpenClDriver::open(config()).unwrap();
        let device = Driver::open(&driver, DeviceId(0)).unwrap();
        let kernel = load(&*device).unwrap();
        let takes = kernel.signature().parameters();
        assert!(matches!(takes[0], Parameter::Buffer { .. }), "{takes:?}");
        assert_eq!(takes[1].packed_bytes(), 4, "{takes:?}");
        assert_adds(&*device, &kernel);
        // Words that are no module, and half of one.
        for bytes in [&add()[..20], &add()[..60]] {
            let refused = device.kernels().load(ModuleImage::Binary(bytes));
            assert_eq!(refused.unwrap_err().kind, ErrorKind::UnknownModule);
        }
    });
}
