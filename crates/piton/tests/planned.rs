//! Steps that repeat are served from a plan.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    AllocError, BufferError, Device, DeviceId, MemoryPoolConfig, PlaceConfig, PlannedPool,
    PoolLimit, Stream,
};
use std::sync::Arc;
use support::{check, runtime, small_devices};

const WORDS: u64 = 1 << 14;

/// Two streams, a buffer that passes from one to the other, and another in its place when it is gone.
fn step(pool: &PlannedPool, [a, b]: &[Stream; 2], value: u32) -> Result<(), BufferError> {
    let mut first = a.allocate_planned::<u32>(pool, WORDS)?;
    a.fill(&mut first, value)?;
    let mut second = b.allocate_planned::<u32>(pool, WORDS)?;
    b.copy(&first, &mut second)?;
    drop(first);
    let mut third = a.allocate_planned::<u32>(pool, WORDS)?;
    a.fill(&mut third, !value)?;
    assert_eq!(b.read(&second)?[..2], [value; 2]);
    assert_eq!(a.read(&third)?[..2], [!value; 2]);
    Ok(())
}

/// A step is recorded, and then served.
fn serve(pool: &PlannedPool, streams: &[Stream; 2]) {
    pool.start_recording();
    step(pool, streams, 1).unwrap();
    for value in 2..4 {
        pool.begin_step();
        step(pool, streams, value).unwrap();
    }
    let recorder = pool.take_recording().unwrap();
    let plan = recorder.plan(&PlaceConfig::default()).unwrap();
    pool.serve(Arc::new(plan)).unwrap();
}

fn streams(device: &Device) -> [Stream; 2] {
    ["a", "b"].map(|name| device.stream(name).unwrap())
}

#[test]
fn buffers_of_a_step_that_repeats_get_the_places_of_its_plan() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let (pool, streams) = (device.planned_pool(), streams(&device));
    serve(&pool, &streams);
    for value in 4..8 {
        pool.begin_step();
        step(&pool, &streams, value).unwrap();
    }
    let stats = pool.planned_stats();
    assert_eq!((stats.served, stats.departed), (4 * 3, 0));
    pool.stop_serving();
    drop((pool, streams));
    check(&runtime);
}

#[test]
fn a_plan_may_be_served_from_a_private_pool() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let config = MemoryPoolConfig {
        limit: PoolLimit::Bytes(16 << 20),
        ..MemoryPoolConfig::default()
    };
    let private = device.private_pool(&config).unwrap();
    let (pool, streams) = (PlannedPool::within(&private), streams(&device));
    serve(&pool, &streams);
    pool.begin_step();
    step(&pool, &streams, 9).unwrap();
    assert_eq!(pool.planned_stats().served, 3);
    drop((pool, streams, private));
    check(&runtime);
}

#[test]
fn a_planned_pool_outlives_its_runtime() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let (pool, streams) = (device.planned_pool(), streams(&device));
    drop((device, runtime));
    serve(&pool, &streams);
    pool.begin_step();
    step(&pool, &streams, 5).unwrap();
    assert_eq!(pool.planned_stats().served, 3);
}

#[test]
fn a_planned_pool_refuses_when_its_device_is_lost() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let (pool, streams) = (device.planned_pool(), streams(&device));
    serve(&pool, &streams);
    pool.begin_step();
    runtime.sim().unwrap().lose(DeviceId(0));
    let refused = streams[0].allocate_planned::<u32>(&pool, WORDS);
    assert!(
        matches!(refused, Err(BufferError::Memory(AllocError::Driver(_)))),
        "{refused:?}"
    );
}

#[test]
fn a_planned_pool_of_another_device_or_runtime_is_refused() {
    let [here, there] = [(); 2].map(|()| runtime(small_devices(2)));
    let stream = here.device(0).unwrap().stream("a").unwrap();
    let other = here.device(1).unwrap().planned_pool();
    let refused = stream.allocate_planned::<u32>(&other, 8);
    assert!(matches!(refused, Err(BufferError::OtherDevice { .. })));
    let other = there.device(0).unwrap().planned_pool();
    let refused = stream.allocate_planned::<u32>(&other, 8);
    assert!(matches!(refused, Err(BufferError::OtherRuntime)));
}
