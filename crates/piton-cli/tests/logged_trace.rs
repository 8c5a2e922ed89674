//! A program's own allocations, logged, are a trace like any other.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use piton_alloc::{Allocation, DevicePool, Logged, MemoryPool, MemoryPoolConfig, Request};
use piton_cli::trace::TraceReader;
use piton_driver::{DeviceId, Driver};
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use piton_timeline::Timeline;
use std::sync::Arc;

fn pool(timeline: &Arc<Timeline>) -> DevicePool {
    let config = SimConfig::uniform(1, &DeviceConfig::default());
    let driver = SimDriver::new(config).unwrap();
    let device = driver.open(DeviceId(0)).unwrap();
    DevicePool::on_device(device, Arc::clone(timeline), &MemoryPoolConfig::default()).unwrap()
}

#[test]
fn what_threads_log_at_once_is_a_trace_without_a_fault() {
    let timeline = Timeline::new();
    let pool = pool(&timeline);
    let lane = |_| timeline.register(None).unwrap();
    let lanes: Vec<_> = (0..2).map(lane).collect();
    let logged = Logged::new(pool, Vec::new());
    let program = |which: usize| {
        let mut live: Vec<Allocation> = Vec::new();
        for round in 0..500_u64 {
            let request = Request::new(1 + round * 512).on(lanes[which].id());
            live.push(logged.allocate(request).unwrap());
            if round % 3 == 2 {
                let uses = lanes.iter().map(|lane| lane.submit(round));
                logged.free(live.remove(0), uses.collect()).unwrap();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| program(0));
        program(1);
    });
    let (_pool, lines) = logged.finish().unwrap();
    let reader = TraceReader::new(lines.as_slice(), Path::new("logged.csv")).unwrap();
    let events: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
    assert_eq!(events.len(), 2 * (500 + 2 * 166));
}
