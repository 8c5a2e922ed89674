//! What a program in safe code may try, and gets nothing by.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use bytemuck::{Pod, Zeroable};
use piton::{
    BufferError, Comparison, DeviceBuffer, GraphCondition, GraphError, GraphRecorder, Grid,
    PinnedBuffer, PinnedError,
    sim::{KernelDefinition, Parameter, ScheduleOrder, Signature, SimModule},
};
use support::{check, runtime, small_devices};

/// Finished by itself it would number its nodes as the graph around it does, and a change of one would reach another.
#[test]
fn a_bodys_recorder_that_is_taken_out_of_its_place_is_never_finished() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("a").unwrap();
    let mut x: DeviceBuffer<u32> = stream.allocate_zeroed(64).unwrap();
    let mut y: DeviceBuffer<u32> = stream.allocate_zeroed(64).unwrap();
    let flag: DeviceBuffer<u32> = stream.allocate_zeroed(1).unwrap();
    let mut recorder = device.graph();
    recorder.fill(&mut x, 1).unwrap();
    let condition = recorder.condition(&flag).unwrap();
    let mut taken = None;
    let refused = recorder.run_if(&condition, |body| {
        body.fill(&mut y, 2)?;
        body.fill(&mut x, 3)?;
        taken = Some(std::mem::replace(body, device.graph()));
        Ok(())
    });
    assert!(matches!(refused, Err(BufferError::BrokenGraph)));
    let finished = taken.unwrap().finish(&stream);
    assert!(matches!(finished, Err(BufferError::BrokenGraph)));
    drop((x, y, flag));
    check(&runtime);
}

/// In virtual time the machine sees that nothing will end the wait.
#[test]
fn a_short_word_is_written_behind_waits_for_long_ones() {
    let config = small_devices(1).in_virtual_time(1, ScheduleOrder::default());
    let runtime = runtime(config);
    let device = runtime.device(0).unwrap();
    let (waiter, writer) = (device.stream("a").unwrap(), device.stream("b").unwrap());
    let flags: DeviceBuffer<u64> = waiter.allocate_zeroed(1).unwrap();
    waiter.wait_value(&flags, 0, Comparison::Equal, 1).unwrap();
    let mut flags = flags.into_elements::<u32>().unwrap();
    writer.write_value(&mut flags, 0, 1).unwrap();
    assert!(
        writer.synchronize().is_err(),
        "the write waits for the wait"
    );
    waiter.abort().unwrap();
    assert!(waiter.synchronize().is_err());
    drop(flags);
    check(&runtime);
}

#[derive(Clone, Copy, Zeroable, Pod)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

#[derive(Clone, Copy, Zeroable, Pod)]
#[repr(C, align(8192))]
struct TwoPages([[u8; 4096]; 2]);

#[test]
fn elements_that_want_to_be_aligned_are_or_are_refused() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let _odd = device.pinned::<u8>(5000).unwrap();
    let page: PinnedBuffer<Page> = device.pinned(1).unwrap();
    assert_eq!(page.as_slice().len(), 1);
    let refused = device.pinned::<TwoPages>(1);
    assert!(
        matches!(
            refused,
            Err(BufferError::Pinned(PinnedError::InvalidAlignment {
                given: 8192,
                maximum: 4096
            }))
        ),
        "{refused:?}"
    );
}

#[test]
fn page_locked_memory_that_is_lent_stays_what_it_is() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("a").unwrap();
    for len in [16, 8 << 20] {
        let mut there = stream.allocate::<u8>(len as u64).unwrap();
        let ours = stream.register(vec![1_u8; len]).unwrap();
        for mut host in [device.pinned::<u8>(len).unwrap(), ours] {
            let lent = stream.lend(host.as_mut_slice(), |lent| lent.len());
            assert!(matches!(lent, Err(BufferError::Pinned(_))), "{lent:?}");
            let copied = stream.copy_to_device(host, &mut there).unwrap();
            copied.wait().unwrap();
        }
    }
}

fn nest(recorder: &mut GraphRecorder, on: &GraphCondition, depth: u32) -> Result<(), BufferError> {
    if depth == 0 {
        return Ok(());
    }
    recorder
        .run_if(on, |body| nest(body, on, depth - 1))
        .map(drop)
}

/// Who drops a graph, or walks it, may have a small stack.
#[test]
fn bodies_lie_in_each_other_so_deep_and_no_deeper() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("a").unwrap();
    let flag: DeviceBuffer<u32> = stream.allocate_zeroed(1).unwrap();
    let recorded = |depth| {
        let mut recorder = device.graph();
        let condition = recorder.condition(&flag)?;
        nest(&mut recorder, &condition, depth)?;
        recorder.finish(&stream)
    };
    assert!(recorded(128).is_ok());
    let refused = recorded(129).map(drop);
    assert!(
        matches!(
            refused,
            Err(BufferError::Graph(GraphError::TooDeep { limit: 128 }))
        ),
        "{refused:?}"
    );
}

#[test]
fn arguments_that_no_device_passes_take_no_memory() {
    let runtime = runtime(small_devices(1));
    let apart = Parameter::Value {
        bytes: 4,
        alignment: 1 << 31,
    };
    let signature = Signature::new([Parameter::value::<u32>(), apart]);
    let kernel = KernelDefinition::new("apart", signature, |_| Ok(()));
    runtime
        .register(SimModule::new("apart").with(kernel))
        .unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.stream("a").unwrap();
    let kernel = device.load("apart").unwrap().kernel("apart").unwrap();
    let launch = stream.launch(&kernel, Grid::linear(1));
    let refused = launch.value(1_u32).value(2_u32).submit();
    assert!(
        matches!(refused, Err(BufferError::ArgumentBytes { bytes, .. }) if bytes == (1 << 31) + 4),
        "{refused:?}"
    );
}
