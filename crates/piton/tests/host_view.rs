//! Page-locked memory that kernels use where it is.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    BufferError, Comparison, DeviceId, Grid, HostView, Kernel, PinnedBuffer, PinnedError, Runtime,
    Stream, StreamError,
};
use std::mem;
use support::{check, runtime, sanitized, small_devices};

const BLOCKS: u32 = 8;
/// What the kernels' blocks use together.
const WORDS: usize = 512;

fn stream(runtime: &Runtime) -> Stream {
    runtime.device(0).unwrap().stream("kernels").unwrap()
}

fn kernel(runtime: &Runtime, name: &str) -> Kernel {
    let module = runtime.device(0).unwrap().load("test").unwrap();
    module.kernel(name).unwrap()
}

fn filled(stream: &Stream, word: u32) -> PinnedBuffer<u32> {
    let mut buffer = stream.pinned(WORDS).unwrap();
    buffer.as_mut_slice().fill(word);
    buffer
}

fn scale(stream: &Stream, kernel: &Kernel, y: &mut HostView<u32>, by: u32) {
    let launch = stream.launch(kernel, Grid::linear(BLOCKS));
    launch.write_host(y).value(by).submit().unwrap();
}

#[test]
fn kernels_use_page_locked_memory_in_place_in_the_programs_order_on_any_streams() {
    let runtime = sanitized(small_devices(1));
    let (one, other) = (stream(&runtime), stream(&runtime));
    let (add, times) = (kernel(&runtime, "add"), kernel(&runtime, "scale"));
    for turn in 1..10 {
        let (x, y) = (filled(&one, turn), filled(&one, 5));
        let place = y.as_slice().as_ptr();
        let (x, mut y) = (x.into_view().unwrap(), y.into_view().unwrap());
        assert_eq!((x.len(), y.len()), (WORDS as u64, WORDS as u64));
        let mut z = other.allocate_zeroed::<u32>(WORDS as u64).unwrap();
        scale(&one, &times, &mut y, 3);
        let sum = other.launch(&add, Grid::linear(BLOCKS));
        sum.write_host(&mut y).read_host(&x).submit().unwrap();
        let copied = one.launch(&add, Grid::linear(BLOCKS));
        copied.write(&mut z).read_host(&y).submit().unwrap();
        scale(&other, &times, &mut y, 2);
        // Of a stream that none of them was on.
        let back = stream(&runtime).take_back(y).unwrap().wait().unwrap();
        assert_eq!(back.as_slice(), [(15 + turn) * 2; WORDS]);
        assert_eq!(back.as_slice().as_ptr(), place);
        assert_eq!(one.read(&z).unwrap(), [15 + turn; WORDS]);
    }
    check(&runtime);
}

#[test]
fn a_view_is_no_buffer_and_no_memory_of_its_pool_before_its_kernels_have_ended() {
    let runtime = runtime(small_devices(1));
    let (held, other) = (stream(&runtime), stream(&runtime));
    let (times, device) = (kernel(&runtime, "scale"), runtime.device(0).unwrap());
    let mut gate = other.allocate_zeroed::<u32>(1).unwrap();
    let (mut kept, mut dropped) = (
        filled(&held, 5).into_view().unwrap(),
        filled(&held, 6).into_view().unwrap(),
    );
    held.wait_value(&gate, 0, Comparison::Equal, 1).unwrap();
    scale(&held, &times, &mut kept, 2);
    scale(&held, &times, &mut dropped, 2);
    drop(dropped);
    let transfer = other.take_back(kept).unwrap();
    assert!(!transfer.query().unwrap());
    let bytes = (WORDS * mem::size_of::<u32>()) as u64;
    assert_eq!(device.pinned_stats().pending_bytes, bytes);
    let fresh = filled(&held, 7);
    // Past the stream that now waits for the kernels.
    let opener = stream(&runtime);
    opener.write_value(&mut gate, 0, 1).unwrap();
    assert_eq!(transfer.wait().unwrap().as_slice(), [10; WORDS]);
    held.synchronize().unwrap();
    assert_eq!(fresh.as_slice(), [7; WORDS]);
    drop(fresh);
    check(&runtime);
}

#[test]
fn a_kernel_that_failed_is_told_to_who_takes_the_view_back_and_the_memory_comes_too() {
    let runtime = runtime(small_devices(1));
    let (failing, other) = (stream(&runtime), stream(&runtime));
    let mut view = filled(&other, 5).into_view().unwrap();
    scale(&failing, &kernel(&runtime, "trap"), &mut view, 3);
    let failed = other.take_back(view).unwrap().wait().unwrap_err();
    assert!(matches!(
        failed.error,
        BufferError::Stream(StreamError::Poisoned(_))
    ));
    assert_eq!(failed.host.unwrap().as_slice().len(), WORDS);
}

#[test]
fn a_view_is_for_kernels_of_its_own_device_and_as_long_as_its_elements() {
    let (mine, another) = (runtime(small_devices(2)), runtime(small_devices(1)));
    let (here, foreign) = (stream(&mine), stream(&another));
    let there = mine.device(1).unwrap().stream("there").unwrap();
    let times = kernel(&mine, "scale");
    let mut view = filled(&there, 5).into_view().unwrap();
    let launch = here.launch(&times, Grid::linear(1));
    let refused = launch.write_host(&mut view).value(2_u32).submit();
    assert!(matches!(
        refused,
        Err(BufferError::OtherDevice {
            stream: DeviceId(0),
            object: DeviceId(1)
        })
    ));
    let refused = foreign.take_back(view);
    assert!(matches!(refused, Err(BufferError::OtherRuntime)));
    // One block past its end: a fault, and the process lives.
    let mut view = filled(&here, 5).into_view().unwrap();
    let launch = here.launch(&times, Grid::linear(BLOCKS + 1));
    launch.write_host(&mut view).value(2_u32).submit().unwrap();
    assert!(here.take_back(view).unwrap().wait().is_err());
    let words: Vec<u8> = vec![1; 10];
    let view = here.register(words).unwrap().into_view().unwrap();
    let wrong = here.launch(&times, Grid::linear(1)).read_host(&view);
    assert!(matches!(
        wrong.value(2_u32).submit(),
        Err(BufferError::ArgumentMismatch { index: 0, .. })
    ));
}

#[test]
fn where_kernels_do_not_reach_host_memory_the_buffer_comes_back() {
    let mut config = small_devices(2);
    config.devices[1].reaches_host_memory = false;
    let runtime = runtime(config);
    let there = runtime.device(1).unwrap().stream("there").unwrap();
    let refused = filled(&there, 5).into_view().unwrap_err();
    assert!(matches!(
        refused.error,
        PinnedError::NotReachable {
            device: DeviceId(1)
        }
    ));
    let mut buffer = refused.memory;
    assert_eq!(buffer.as_slice(), [5; WORDS]);
    buffer.as_mut_slice().fill(6);
    let words: Vec<u8> = vec![1; 10];
    let registered = there.register(words).unwrap();
    assert!(registered.into_view().is_err());
    // Copies reach it as before, and so does a device beside it that reaches its own.
    let mut copy = there.allocate_zeroed::<u32>(WORDS as u64).unwrap();
    let buffer = there.copy_to_device(buffer, &mut copy).unwrap();
    buffer.wait().unwrap();
    assert_eq!(there.read(&copy).unwrap(), [6; WORDS]);
    assert!(filled(&stream(&runtime), 5).into_view().is_ok());
    check(&runtime);
}

#[test]
fn graphs_use_page_locked_memory_in_place_and_replays_are_ordered_by_it() {
    let runtime = sanitized(small_devices(1));
    let (one, other) = (stream(&runtime), stream(&runtime));
    let (add, times) = (kernel(&runtime, "add"), kernel(&runtime, "scale"));
    let (x, mut y) = (
        filled(&one, 1).into_view().unwrap(),
        filled(&one, 5).into_view().unwrap(),
    );
    let mut graph = runtime.device(0).unwrap().graph();
    let sum = graph.launch(&add, Grid::linear(BLOCKS));
    sum.write_host(&mut y).read_host(&x).record().unwrap();
    let product = graph.launch(&times, Grid::linear(BLOCKS));
    product.write_host(&mut y).value(2_u32).record().unwrap();
    let mut ready = graph.finish(&one).unwrap();
    scale(&other, &times, &mut y, 3);
    let replay = ready.replay(&one).read_host(&x).write_host(&mut y);
    replay.submit().unwrap();
    scale(&other, &times, &mut y, 5);
    let replay = ready.replay(&other).read_host(&x).write_host(&mut y);
    replay.submit().unwrap();
    for to_write in [false, true] {
        let replay = ready.replay(&one);
        let given = match to_write {
            true => replay.read_host(&x).read_host(&y),
            false => replay.write_host(&mut y),
        };
        let refused = given.submit();
        assert!(
            matches!(refused, Err(BufferError::NotGiven { to_write: found, .. }) if found == to_write)
        );
    }
    let back = stream(&runtime).take_back(y).unwrap().wait().unwrap();
    assert_eq!(back.as_slice(), [((5 * 3 + 1) * 2 * 5 + 1) * 2; WORDS]);
    check(&runtime);
}

#[test]
fn a_graph_refuses_a_view_of_another_device() {
    let runtime = runtime(small_devices(2));
    let there = runtime.device(1).unwrap().stream("there").unwrap();
    let mut view = filled(&there, 5).into_view().unwrap();
    let times = kernel(&runtime, "scale");
    let mut graph = runtime.device(0).unwrap().graph();
    let launch = graph.launch(&times, Grid::linear(1)).write_host(&mut view);
    assert!(matches!(
        launch.value(2_u32).record(),
        Err(BufferError::OtherDevice {
            stream: DeviceId(0),
            object: DeviceId(1)
        })
    ));
}
