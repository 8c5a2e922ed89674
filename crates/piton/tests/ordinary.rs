//! Copies from and to ordinary memory, which go through a ring of page-locked chunks.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    BufferError, Comparison, Devices, Locking, Runtime, RuntimeConfig, RuntimeError,
    SanitizerConfig, StagedWay, StagingConfig, StagingStats, Stream,
    sim::{FaultPlan, ScheduleOrder, Trigger},
};
use std::thread;
use support::{check, runtime, sanitized, small_devices};

/// Bytes of a chunk, and how many a write takes before it waits.
const CHUNK: usize = 256 << 10;
const WRITE_CHUNKS: usize = 64;

/// Bytes that differ from one to the next and from chunk to chunk.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at.wrapping_mul(31) ^ (at >> 9)).to_le_bytes()[0])
        .collect()
}

fn stream(runtime: &Runtime) -> Stream {
    runtime.device(0).unwrap().stream("copies").unwrap()
}

#[track_caller]
fn there_and_back(stream: &Stream, bytes: usize) {
    let there = pattern(bytes);
    let mut buffer = stream.allocate::<u8>(bytes as u64).unwrap();
    stream.write(&mut buffer, &there).unwrap();
    assert!(stream.read(&buffer).unwrap() == there, "{bytes} bytes");
    let mut back = vec![0; bytes];
    stream.read_into(&buffer, &mut back).unwrap();
    assert!(back == there, "{bytes} bytes");
}

#[test]
fn what_is_written_comes_back_whatever_its_length() {
    let runtime = sanitized(small_devices(1));
    let stream = stream(&runtime);
    for bytes in [
        1,
        4095,
        CHUNK - 1,
        CHUNK,
        CHUNK + 1,
        5 * CHUNK,
        40 * CHUNK + 77,
    ] {
        there_and_back(&stream, bytes);
    }
    check(&runtime);
}

#[test]
fn elements_of_any_size_come_back() {
    let runtime = runtime(small_devices(1));
    let stream = stream(&runtime);
    let odd: Vec<[u8; 3]> = (0..400_000_u32)
        .map(|n| [n.to_le_bytes()[0], n.to_le_bytes()[1], 7])
        .collect();
    let mut buffer = stream.allocate::<[u8; 3]>(odd.len() as u64).unwrap();
    stream.write(&mut buffer, &odd).unwrap();
    assert!(stream.read(&buffer).unwrap() == odd);
    // One element is more than a chunk.
    let wide = vec![[[5_u64; 4096]; 32]; 3];
    let mut buffer = stream.allocate::<[[u64; 4096]; 32]>(3).unwrap();
    stream.write(&mut buffer, &wide).unwrap();
    assert!(stream.read(&buffer).unwrap() == wide);
}

#[test]
fn a_part_of_a_buffer_is_written_and_read_alone() {
    let runtime = sanitized(small_devices(1));
    let stream = stream(&runtime);
    let mut buffer = stream.allocate_zeroed::<u32>(1 << 20).unwrap();
    let part = vec![9; 600_000];
    stream
        .write(buffer.slice_mut(1000..601_000).unwrap(), &part)
        .unwrap();
    let all = stream.read(&buffer).unwrap();
    assert!(all.iter().filter(|word| **word == 9).count() == 600_000);
    assert!((all[999], all[1000], all[600_999], all[601_000]) == (0, 9, 9, 0));
    let read = stream.read(buffer.slice(600_000..700_000).unwrap());
    assert_eq!(read.unwrap().iter().position(|word| *word == 0), Some(1000));
    check(&runtime);
}

#[test]
fn lengths_that_differ_are_refused_and_nothing_is_copied() {
    let runtime = runtime(small_devices(1));
    let stream = stream(&runtime);
    let mut buffer = stream.allocate_zeroed::<u32>(8).unwrap();
    let refused = stream.write(&mut buffer, &[1; 7]);
    assert!(matches!(refused, Err(BufferError::LengthMismatch { .. })));
    let refused = stream.write(&mut buffer, &[]);
    assert!(matches!(refused, Err(BufferError::InvalidLength { .. })));
    let refused = stream.read_into(&buffer, &mut [1; 9]);
    assert!(matches!(refused, Err(BufferError::LengthMismatch { .. })));
    assert_eq!(stream.read(&buffer).unwrap(), [0; 8]);
}

#[test]
fn a_write_that_the_ring_holds_returns_while_the_stream_is_held_up() {
    // With less than a ring's bytes to be locked the write would wait earlier.
    let mut config = RuntimeConfig::on(Devices::Simulated(small_devices(1)));
    config.pinned.locking = Locking::Preferred;
    let runtime = Runtime::new(config).unwrap();
    let (held, other) = (stream(&runtime), stream(&runtime));
    let mut gate = other.allocate_zeroed::<u32>(1).unwrap();
    held.wait_value(&gate, 0, Comparison::Equal, 1).unwrap();
    let there = pattern(WRITE_CHUNKS * CHUNK);
    let mut buffer = held.allocate::<u8>(there.len() as u64).unwrap();
    held.write(&mut buffer, &there).unwrap();
    other.write_value(&mut gate, 0, 1).unwrap();
    assert!(held.read(&buffer).unwrap() == there);
}

#[test]
fn a_large_copy_takes_no_more_chunks_than_the_ring_may() {
    for order in [ScheduleOrder::ByTime, ScheduleOrder::Seeded] {
        let runtime = runtime(small_devices(1).in_virtual_time(3, order));
        let stream = stream(&runtime);
        there_and_back(&stream, 50 << 20);
        let held = runtime.device(0).unwrap().pinned_stats().held_bytes;
        assert!(held <= (WRITE_CHUNKS * CHUNK) as u64 + (4 << 20), "{held}");
    }
}

/// Three chunks there and back; the buffer goes midway.
fn round_trip(runtime: &Runtime, there: &[u8]) -> Result<Vec<u8>, RuntimeError> {
    let stream = runtime.device(0)?.stream("copies")?;
    let mut buffer = stream.allocate::<u8>(there.len() as u64)?;
    stream.write(&mut buffer, there)?;
    let mut back = vec![0; there.len()];
    stream.read_into(&buffer, &mut back)?;
    Ok(back)
}

#[test]
fn a_failure_at_any_call_of_a_copy_is_told_and_leaves_the_books_right() {
    let there = pattern(3 * CHUNK);
    let (mut calls, mut failed) = (0, 0);
    loop {
        let runtime = runtime(small_devices(1));
        let sim = runtime.sim().unwrap();
        sim.set_faults(FaultPlan::new().with(Trigger::Call(calls + 1)));
        let result = round_trip(&runtime, &there);
        let fired = sim.faults_fired();
        sim.set_faults(FaultPlan::new());
        check(&runtime);
        // Whatever failed, the device knows the memory no more.
        let lent = stream(&runtime).register(there.clone()).map(drop);
        assert!(lent.is_ok(), "{lent:?} after {calls} calls");
        if fired == 0 {
            assert!(result.unwrap() == there);
            break;
        }
        calls += 1;
        failed += u64::from(result.is_err());
    }
    assert!(
        failed >= 7,
        "of {calls} calls only {failed} were seen to fail"
    );
}

/// A runtime that stages copies so, and looks for races.
fn staged(way: Option<StagedWay>, chunk_bytes: u64) -> Runtime {
    let mut config = RuntimeConfig::on(Devices::Simulated(small_devices(1)));
    config.pinned.staging = StagingConfig { way, chunk_bytes };
    config.pinned.locking = Locking::Preferred;
    config.sanitizer = Some(SanitizerConfig::default());
    Runtime::new(config).unwrap()
}

fn in_turn() -> Runtime {
    staged(Some(StagedWay::InTurn), CHUNK as u64)
}

#[test]
fn copies_arrive_whichever_way_they_are_staged_and_in_chunks_of_any_size() {
    for way in StagedWay::ALL {
        for chunk in [4096, 64 << 10, 256 << 10, 16 << 20] {
            let runtime = staged(Some(way), chunk);
            for bytes in [1, 4096, 100_001, (6 << 20) + 77] {
                there_and_back(&stream(&runtime), bytes);
            }
            check(&runtime);
        }
    }
}

#[test]
fn a_copy_in_turn_is_over_when_it_returns_and_takes_no_chunk() {
    let runtime = in_turn();
    let stream = stream(&runtime);
    let there = pattern(20 << 20);
    let mut buffer = stream.allocate::<u8>(there.len() as u64).unwrap();
    stream.write(&mut buffer, &there).unwrap();
    assert!(stream.query().unwrap());
    assert!(stream.read(&buffer).unwrap() == there);
    let stats = runtime.device(0).unwrap().pinned_stats();
    assert_eq!(stats.held_bytes, 0, "{stats:?}");
    // The device does not know it any more.
    let registered = stream.register(there).unwrap();
    drop(registered);
    check(&runtime);
}

#[test]
fn memory_that_the_device_knows_already_goes_through_one_chunk_in_turn() {
    let runtime = in_turn();
    let stream = stream(&runtime);
    let there = pattern(20 << 20);
    let mut buffer = stream.allocate::<u8>(there.len() as u64).unwrap();
    let mut registered = stream.register(there.clone()).unwrap();
    let source = registered.as_mut_slice();
    stream.write(&mut buffer, source).unwrap();
    assert!(stream.query().unwrap());
    source.fill(0);
    stream.read_into(&buffer, source).unwrap();
    assert!(source == there);
    let stats = runtime.device(0).unwrap().pinned_stats();
    assert_eq!(stats.cached_bytes, CHUNK as u64, "{stats:?}");
    drop(registered);
    check(&runtime);
}

#[test]
fn two_threads_write_the_same_memory_at_once() {
    let runtime = in_turn();
    let there = pattern(8 << 20);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let stream = stream(&runtime);
                let mut buffer = stream.allocate::<u8>(there.len() as u64).unwrap();
                for _ in 0..20 {
                    stream.write(&mut buffer, &there).unwrap();
                    assert!(stream.read(&buffer).unwrap() == there);
                }
            });
        }
    });
    check(&runtime);
}

#[test]
fn a_write_to_memory_that_is_in_use_elsewhere_returns_and_comes_behind_that() {
    let runtime = in_turn();
    let (held, idle) = (stream(&runtime), stream(&runtime));
    let there = pattern(2 << 20);
    let mut gate = idle.allocate_zeroed::<u32>(1).unwrap();
    let mut buffer = held.allocate::<u8>(there.len() as u64).unwrap();
    held.wait_value(&gate, 0, Comparison::Equal, 1).unwrap();
    held.fill(&mut buffer, 7).unwrap();
    idle.synchronize().unwrap();
    idle.write(&mut buffer, &there).unwrap();
    let opener = stream(&runtime);
    opener.write_value(&mut gate, 0, 1).unwrap();
    assert!(idle.read(&buffer).unwrap() == there);
    check(&runtime);
}

fn staging_stats(runtime: &Runtime) -> StagingStats {
    runtime.device(0).unwrap().pinned_pool().staging().stats()
}

#[test]
fn a_long_copy_measures_the_ways_of_its_direction_and_arrives() {
    let runtime = staged(None, CHUNK as u64);
    let stream = stream(&runtime);
    let there = pattern(40 << 20);
    let mut buffer = stream.allocate::<u8>(there.len() as u64).unwrap();
    stream.write(&mut buffer, &there).unwrap();
    stream.synchronize().unwrap();
    let stats = staging_stats(&runtime);
    assert!(stats.to_device.per_mebibyte.is_some() && stats.to_host.per_mebibyte.is_none());
    assert!(stream.read(&buffer).unwrap() == there);
    assert!(staging_stats(&runtime).to_host.per_mebibyte.is_some());
    check(&runtime);
}

#[test]
fn nothing_is_measured_where_there_is_no_choice() {
    let held_up = staged(None, CHUNK as u64);
    let (held, other) = (stream(&held_up), stream(&held_up));
    let mut gate = other.allocate_zeroed::<u32>(1).unwrap();
    let there = pattern(40 << 20);
    let mut buffer = held.allocate::<u8>(there.len() as u64).unwrap();
    held.wait_value(&gate, 0, Comparison::Equal, 1).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            while held.depth() < 10 {
                thread::yield_now();
            }
            other.write_value(&mut gate, 0, 1).unwrap();
        });
        held.write(&mut buffer, &there).unwrap();
    });
    assert_eq!(staging_stats(&held_up), StagingStats::default());
    let order = ScheduleOrder::ByTime;
    let in_virtual_time = runtime(small_devices(1).in_virtual_time(3, order));
    there_and_back(&stream(&in_virtual_time), 40 << 20);
    assert_eq!(staging_stats(&in_virtual_time), StagingStats::default());
}
