//! Memory that a graph, or a part of a program, keeps to itself.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{BufferError, DeviceBuffer, MemoryPoolConfig, PoolLimit};
use support::{check, runtime, small_devices};

const WORDS: u64 = 1 << 16;

fn config(bytes: u64) -> MemoryPoolConfig {
    MemoryPoolConfig {
        limit: PoolLimit::Bytes(bytes),
        ..MemoryPoolConfig::default()
    }
}

#[test]
fn what_a_graph_works_in_is_not_handed_out_to_the_rest_of_the_program() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("a").unwrap();
    let private = device.private_pool(&config(16 << 20)).unwrap();
    let mut out: DeviceBuffer<u32> = stream.allocate_zeroed(WORDS).unwrap();
    let mut recorder = device.graph();
    recorder.keep_scratch_in(&private).unwrap();
    let mut scratch = recorder.scratch::<u32>(WORDS).unwrap();
    recorder.fill(&mut scratch, 7).unwrap();
    recorder.copy(&scratch, &mut out).unwrap();
    let mut graph = recorder.finish(&stream).unwrap();
    graph.replay(&stream).write(&mut out).submit().unwrap();
    assert_eq!(stream.read(&out).unwrap()[..2], [7, 7]);
    let held = private.stats().held_bytes;
    assert_eq!(private.stats().live_bytes, 4 * WORDS);
    drop(graph);
    stream.synchronize().unwrap();
    // The pool keeps what the graph had, whatever the program asks for meanwhile.
    let other: DeviceBuffer<u32> = stream.allocate(WORDS).unwrap();
    assert_eq!(
        (private.stats().held_bytes, private.stats().live_bytes),
        (held, 0)
    );
    let before = device.memory_stats().live_bytes;
    assert_eq!(private.trim(), held);
    assert_eq!(device.memory_stats().live_bytes, before - held);
    drop((other, out));
    check(&runtime);
}

#[test]
fn a_buffer_goes_back_to_the_private_pool_it_came_from() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("a").unwrap();
    let private = device.private_pool(&config(4 << 20)).unwrap();
    let mut buffer = stream.allocate_from::<u32>(&private, WORDS).unwrap();
    stream.fill(&mut buffer, 3).unwrap();
    assert_eq!(stream.read(&buffer).unwrap()[..2], [3, 3]);
    assert_eq!(private.stats().live_bytes, 4 * WORDS);
    let too_much = stream.allocate_from::<u32>(&private, 2 << 20);
    assert!(matches!(too_much, Err(BufferError::Memory(_))));
    drop(buffer);
    assert_eq!(private.stats().live_bytes, 0);
    stream.synchronize().unwrap();
    drop(private);
    assert_eq!(device.memory_stats().live_bytes, 0);
    check(&runtime);
}

#[test]
fn a_private_pool_of_another_device_or_runtime_is_refused() {
    let [here, there] = [(); 2].map(|()| runtime(small_devices(2)));
    let devices = [0, 1].map(|number| here.device(number).unwrap());
    let stream = devices[0].stream("a").unwrap();
    let foreign = devices[1].private_pool(&config(4 << 20)).unwrap();
    let refused = stream.allocate_from::<u32>(&foreign, 8);
    assert!(matches!(refused, Err(BufferError::OtherDevice { .. })));
    let foreign = there.device(0).unwrap().private_pool(&config(4 << 20));
    let foreign = foreign.unwrap();
    let refused = stream.allocate_from::<u32>(&foreign, 8);
    assert!(matches!(refused, Err(BufferError::OtherRuntime)));
    let refused = devices[0].graph().keep_scratch_in(&foreign);
    assert!(matches!(refused, Err(BufferError::OtherRuntime)));
    let impossible = devices[0].private_pool(&config(1 << 40));
    assert!(matches!(impossible, Err(BufferError::MemoryConfig(_))));
}
