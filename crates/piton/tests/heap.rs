//! Work that has been done before takes nothing from the heap: counted on every thread of the process.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{Device, Grid, Machine, Runtime, RuntimeConfig, Stream, Waited, sim::DeviceConfig};
use support::{runtime, small_devices};

/// Runs `round` until its memory is there to be used again, then asks that some run of it takes nothing.
///
/// The test runner's threads are counted too, and may ask for something of their own once or twice, so this program has
/// one test. Work that took memory would do so in every run.
fn takes_nothing_after_a_while(what: &str, mut round: impl FnMut()) {
    (0..64).for_each(|_| round());
    let asked: Vec<u64> = (0..10)
        .map(|_| {
            let before = piton_heap::by_all_threads();
            (0..50).for_each(|_| round());
            piton_heap::by_all_threads() - before
        })
        .collect();
    assert!(asked.contains(&0), "{what}: {asked:?}");
}

fn stream(device: &Device) -> Stream {
    device.stream("a").unwrap()
}

#[test]
fn launches_fills_copies_waits_and_buffers_take_nothing_from_the_heap() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let scale = device.load("test").unwrap().kernel("scale").unwrap();
    let (a, b) = (stream(&device), stream(&device));
    let [mut x, mut y] = [(); 2].map(|()| a.allocate_zeroed::<u32>(64).unwrap());
    takes_nothing_after_a_while("a launch", || {
        let launch = a.launch(&scale, Grid::linear(1));
        launch.write(&mut x).value(3_u32).submit().unwrap();
        a.synchronize().unwrap();
    });
    takes_nothing_after_a_while("fills, and a copy on another stream", || {
        a.fill(&mut x, 1).unwrap();
        b.copy(&x, &mut y).unwrap();
        b.synchronize().unwrap();
    });
    takes_nothing_after_a_while("an event and a wait for it", || {
        a.fill(&mut x, 1).unwrap();
        b.wait(&a.record()).unwrap();
        b.synchronize().unwrap();
    });
    // The first stream stands still until the second has its wait, which is made and not left out.
    let (gate, mut signalled) = (device.semaphore(0).unwrap(), 0);
    takes_nothing_after_a_while("a wait that is made, and signals", || {
        signalled += 1;
        a.wait_semaphore(&gate, signalled).unwrap();
        let event = a.record();
        assert!(matches!(b.wait(&event), Ok(Waited::Enqueued(_))));
        gate.signal(signalled).unwrap();
        b.synchronize().unwrap();
    });
    takes_nothing_after_a_while("records, with and without the time, and questions", || {
        let events = [a.record(), a.record_timed().unwrap()];
        a.synchronize().unwrap();
        assert!(events.iter().all(|event| event.query() == Ok(true)));
    });
    let mut pinned = Some(a.pinned::<u32>(64).unwrap());
    takes_nothing_after_a_while("copies of page-locked memory, both ways", || {
        let sent = a.copy_to_device(pinned.take().unwrap(), &mut x).unwrap();
        let back = a.copy_to_host(&x, sent.wait().unwrap()).unwrap();
        pinned = Some(back.wait().unwrap());
    });
    let (sent, mut received) = ([7_u32; 64], [0_u32; 64]);
    takes_nothing_after_a_while("small copies of ordinary memory, both ways", || {
        a.write(&mut x, &sent).unwrap();
        a.read_into(&x, &mut received).unwrap();
    });
    takes_nothing_after_a_while("a buffer allocated, used and freed", || {
        let mut x = a.allocate::<u32>(64).unwrap();
        a.fill(&mut x, 1).unwrap();
        drop(x);
        a.synchronize().unwrap();
    });
    takes_nothing_between_devices();
}

/// Two devices that reach each other, and two that do so through host memory.
fn takes_nothing_between_devices() {
    let machine = Machine::pcie_pairs(4).unwrap();
    let small = DeviceConfig {
        memory_bytes: 64 << 20,
        page_bytes: 64 << 10,
        ..DeviceConfig::default()
    };
    let config = RuntimeConfig::simulated_machine(&machine, &small).unwrap();
    let runtime = Runtime::new(config).unwrap();
    for (what, to) in [
        ("a small copy to a device that is reached", 1),
        ("a small copy through host memory", 2),
    ] {
        let ends = [0, to].map(|device| runtime.device(device).unwrap());
        let [from, to] = ends.map(|device| stream(&device));
        let source = from.allocate_zeroed::<u32>(64).unwrap();
        let mut target = to.allocate_zeroed::<u32>(64).unwrap();
        takes_nothing_after_a_while(what, || {
            to.copy_peer(&source, &mut target).unwrap();
            to.synchronize().unwrap();
        });
    }
}
