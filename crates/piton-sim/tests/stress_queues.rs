//! Many queues, many threads, and a device lost under all of it. Bounded; run under every number of workers.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton_driver::{
    Admission, Device, DeviceId, DevicePtr, DriverError, Position, Queue, WaitOutcome,
};
use piton_sim::SimConfig;
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use support::{
    KIB, Pinned, accepted, config, fill, kernel, launch, machine, queue, read, transfer,
};

/// Longer than any machine takes: a wait that gets there has been lost, and is to fail and not to hang.
const PATIENCE: Duration = Duration::from_secs(60);

fn each_number_of_workers(test: impl Fn(SimConfig)) {
    for workers in [1, 2, 4] {
        test(SimConfig {
            workers: Some(workers),
            ..config(1)
        });
    }
}

fn reach(queue: &Arc<dyn Queue>, position: Position) {
    let deadline = Some(Instant::now() + PATIENCE);
    assert_eq!(queue.wait(position, deadline), Ok(WaitOutcome::Reached));
}

/// Submits until taken, waiting for the front where there is no room.
fn insist(queue: &Arc<dyn Queue>, submit: impl Fn() -> Result<Admission, DriverError>) -> Position {
    loop {
        match submit().unwrap() {
            Admission::Accepted(position) => return position,
            Admission::Full => reach(queue, Position::new(queue.completed().get() + 1)),
        }
    }
}

#[test]
fn a_thousand_queues_in_a_chain_run_to_the_end() {
    each_number_of_workers(|config| {
        let (_driver, device) = machine(config);
        let memory = device.memory().allocate(1024).unwrap();
        let add = kernel(&device, "add");
        let queues: Vec<_> = (0..1000).map(|_| queue(&device)).collect();
        accepted(fill(&queues[0], memory, 0, 1024));
        for pair in queues.windows(2) {
            accepted(pair[1].wait_for(&*pair[0], pair[0].submitted()));
            accepted(launch(&pair[1], &add, 1, memory, 1));
        }
        let last = queues.last().unwrap();
        reach(last, last.submitted());
        assert_eq!(read(&device, memory, 256), [999; 256]);
    });
}

#[test]
fn threads_hammer_one_queue_and_no_command_is_lost() {
    const THREADS: u32 = 4;
    const EACH: u32 = 2000;
    each_number_of_workers(|config| {
        let (_driver, device) = machine(config);
        let memory = device.memory().allocate(1024).unwrap();
        let (shared, add) = (queue(&device), kernel(&device, "add"));
        accepted(fill(&shared, memory, 0, 1024));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for n in 0..EACH {
                        let position = insist(&shared, || launch(&shared, &add, 1, memory, 1));
                        if n % 100 == 0 {
                            reach(&shared, position);
                        }
                    }
                });
            }
        });
        reach(&shared, shared.submitted());
        assert_eq!(shared.submitted().get(), u64::from(1 + THREADS * EACH));
        assert_eq!(read(&device, memory, 256), [THREADS * EACH; 256]);
    });
}

#[test]
fn threads_that_wait_for_each_others_queues_all_arrive() {
    const THREADS: usize = 4;
    each_number_of_workers(|config| {
        let (_driver, device) = machine(config);
        let queues: Vec<_> = (0..THREADS).map(|_| queue(&device)).collect();
        let memory = device.memory().allocate(64 * KIB).unwrap();
        thread::scope(|scope| {
            for n in 0..THREADS {
                let queues = &queues;
                let own = memory.checked_add(n as u64 * 1024).unwrap();
                scope.spawn(move || {
                    for round in 0..500 {
                        let other = &queues[(n + 1 + round % (THREADS - 1)) % THREADS];
                        insist(&queues[n], || {
                            queues[n].wait_for(&**other, other.submitted())
                        });
                        let position = insist(&queues[n], || fill(&queues[n], own, 1, 1024));
                        if round % 7 == n {
                            reach(&queues[n], position);
                        }
                    }
                    reach(&queues[n], queues[n].submitted());
                });
            }
        });
        assert!(queues.iter().all(|queue| queue.failure().is_none()));
    });
}

#[test]
fn grids_of_many_blocks_from_many_queues_are_complete() {
    each_number_of_workers(|config| {
        let (_driver, device) = machine(config);
        let add = kernel(&device, "add");
        let jobs: Vec<_> = (0..6)
            .map(|_| (queue(&device), device.memory().allocate(64 * 1024).unwrap()))
            .collect();
        thread::scope(|scope| {
            for (queue, memory) in &jobs {
                let add = &add;
                scope.spawn(move || {
                    accepted(fill(queue, *memory, 0, 64 * 1024));
                    for _ in 0..50 {
                        accepted(launch(queue, add, 64, *memory, 1));
                    }
                    reach(queue, queue.submitted());
                });
            }
        });
        for (_, memory) in &jobs {
            assert_eq!(read(&device, *memory, 64 * 256), vec![50; 64 * 256]);
        }
    });
}

/// Queues, more than there are engines for, and what they copy.
struct Crowd {
    queues: Vec<Arc<dyn Queue>>,
    host: Pinned,
    memory: DevicePtr,
}

impl Crowd {
    fn on(device: &Arc<dyn Device>) -> Self {
        Self {
            queues: (0..12).map(|_| queue(device)).collect(),
            host: Pinned::new(device, &[1; 4096]),
            memory: device.memory().allocate(64 * KIB).unwrap(),
        }
    }

    /// Copies in both directions; the device may be lost at any time.
    fn submit(&self) {
        for round in 0..8 {
            for queue in &self.queues {
                match transfer(queue, &self.host, self.memory, round % 2 == 0) {
                    Ok(admission) => assert_ne!(admission, Admission::Full),
                    Err(error) => assert!(error.is_device_lost(), "{error}"),
                }
            }
        }
    }
}

#[test]
fn a_device_lost_under_a_crowd_of_copies_ends_them_all() {
    each_number_of_workers(|config| {
        for round in 0..60 {
            let (driver, device) = machine(config.clone());
            let watched = queue(&device);
            let memory = device.memory().allocate(1024).unwrap();
            for _ in 0..20 {
                accepted(fill(&watched, memory, 1, 1024));
            }
            let crowd = Crowd::on(&device);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while watched.completed().get() < round % 20 {
                        std::hint::spin_loop();
                    }
                    driver.lose(DeviceId(0));
                });
                crowd.submit();
            });
            for queue in crowd.queues.iter().chain([&watched]) {
                reach(queue, queue.submitted());
            }
        }
    });
}
