//! Queues, kernels, waits and failures of the simulated device, in both clocks.

#![cfg(not(loom))]

mod support;

use piton_driver::{
    Device, ErrorKind, Fault, HostFunction, ModuleImage, Parameter, Position, Queue, SignalledBy,
    Signature, WaitOutcome,
};
use piton_sim::{
    Block, ClockMode, FaultPlan, KernelDefinition, ScheduleOrder, SimConfig, SimDriver, SimModule,
    Trigger,
};
use std::panic::Location;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
    mpsc,
};
use support::{
    Pinned, accepted, config, fill, free, kernel, launch, launch_within, machine, queue, read,
};

fn both_clocks(test: impl Fn(SimConfig)) {
    test(config(1));
    test(SimConfig {
        workers: Some(2),
        ..config(1)
    });
    test(config(1).in_virtual_time(7, ScheduleOrder::ByTime));
    test(config(1).in_virtual_time(7, ScheduleOrder::Seeded));
}

#[test]
fn a_grid_of_blocks_computes_what_one_loop_would() {
    both_clocks(|config| {
        let (_driver, device) = machine(config);
        let (words, queue) = (256 * 64_u32, queue(&device));
        let memory = device.memory().allocate(u64::from(words) * 4).unwrap();
        let source = Pinned::new(&device, &(0..words).collect::<Vec<_>>());
        source.send(&queue, memory);
        let last = accepted(launch(&queue, &kernel(&device, "add"), 64, memory, 5));
        assert_eq!(queue.wait(last, None), Ok(WaitOutcome::Reached));
        let expected: Vec<u32> = (0..words).map(|x| x + 5).collect();
        assert_eq!(read(&device, memory, words as usize), expected);
        free(&device, memory).unwrap();
    });
}

#[test]
fn a_kernel_reaches_page_locked_host_memory_in_place_and_nothing_beside_it() {
    both_clocks(|config| {
        let (_driver, device) = machine(config);
        let (queue, add) = (queue(&device), kernel(&device, "add"));
        let mut memory = Pinned::new(&device, &(0..1024).collect::<Vec<_>>());
        let host = device.host_memory().unwrap();
        let address = host.device_address(memory.start()).unwrap();
        let last = accepted(launch(&queue, &add, 4, address, 5));
        assert_eq!(queue.wait(last, None), Ok(WaitOutcome::Reached));
        assert_eq!(memory.words(), (5..1029).collect::<Vec<u32>>());
        let start = memory.start();
        memory.give_back().unwrap();
        assert_eq!(host.device_address(start), None);
        let beside = accepted(launch(&queue, &add, 1, address, 5));
        assert_eq!(queue.wait(beside, None), Ok(WaitOutcome::Reached));
        let kind = queue.failure().unwrap().error.kind;
        let expected = ErrorKind::KernelFault(Fault::OutOfBounds {
            address,
            bytes: 1024,
        });
        assert_eq!(kind, expected);
    });
}

#[test]
fn commands_of_one_queue_run_in_order_however_many() {
    both_clocks(|config| {
        let (_driver, device) = machine(config);
        let (queue, add) = (queue(&device), kernel(&device, "add"));
        let memory = device.memory().allocate(1024).unwrap();
        accepted(fill(&queue, memory, 0, 1024));
        for _ in 0..250 {
            accepted(launch(&queue, &add, 1, memory, 1));
        }
        let last = queue.submitted();
        assert_eq!(queue.wait(last, None), Ok(WaitOutcome::Reached));
        assert_eq!(read(&device, memory, 256), [250; 256]);
    });
}

#[test]
fn a_queue_waits_for_another_without_the_host() {
    both_clocks(|config| {
        let (_driver, device) = machine(config);
        let (a, b, add) = (queue(&device), queue(&device), kernel(&device, "add"));
        let memory = device.memory().allocate(1024).unwrap();
        accepted(fill(&a, memory, 3, 1024));
        for _ in 0..100 {
            let first = accepted(launch(&a, &add, 1, memory, 1));
            accepted(b.wait_for(&*a, first));
            let second = accepted(launch(&b, &add, 1, memory, 1));
            accepted(a.wait_for(&*b, second));
        }
        assert_eq!(a.wait(a.submitted(), None), Ok(WaitOutcome::Reached));
        assert_eq!(read(&device, memory, 256), [203; 256]);
    });
}

#[test]
fn a_fault_poisons_its_queue_and_who_waits_for_it_and_nobody_else() {
    both_clocks(|config| {
        let (_driver, device) = machine(config);
        let (bad, waiter, other) = (queue(&device), queue(&device), queue(&device));
        let memory = device.memory().allocate(1024).unwrap();
        accepted(fill(&other, memory, 1, 1024));
        let failed = accepted(launch(&bad, &kernel(&device, "panic"), 4, memory, 0));
        let after = accepted(fill(&bad, memory, 99, 1024));
        accepted(waiter.wait_for(&*bad, after));
        let skipped = accepted(fill(&waiter, memory, 77, 1024));
        for (queue, last) in [
            (&bad, after),
            (&waiter, skipped),
            (&other, Position::new(1)),
        ] {
            assert_eq!(queue.wait(last, None), Ok(WaitOutcome::Reached));
        }
        let failure = bad.failure().unwrap();
        assert_eq!(failure.position, failed);
        assert_eq!(failure.error.kind, ErrorKind::KernelFault(Fault::Panicked));
        let inherited = waiter.failure().unwrap();
        let expected = ErrorKind::DependencyFailed {
            queue: bad.id(),
            position: after,
        };
        assert_eq!(
            (inherited.position, inherited.error.kind),
            (Position::new(1), expected)
        );
        assert_eq!(other.failure(), None);
        assert_eq!(read(&device, memory, 256), [1; 256]);
    });
}

#[test]
fn a_skipped_wait_still_ends_after_what_it_waits_for() {
    both_clocks(|config| {
        let (_driver, device) = machine(config);
        let (bad, slow) = (queue(&device), queue(&device));
        let semaphores = device.semaphores().unwrap();
        let gate = semaphores.create(0, SignalledBy::Anyone).unwrap();
        let memory = device.memory().allocate(1024).unwrap();
        accepted(slow.wait_semaphore(&gate, 1));
        let held = accepted(fill(&slow, memory, 1, 1024));
        let failed = accepted(launch(&bad, &kernel(&device, "panic"), 1, memory, 0));
        assert_eq!(bad.wait(failed, None), Ok(WaitOutcome::Reached));
        let skipped = accepted(bad.wait_for(&*slow, held));
        let past = Some(std::time::Instant::now());
        assert_eq!(bad.wait(skipped, past), Ok(WaitOutcome::DeadlinePassed));
        gate.signal(1).unwrap();
        assert_eq!(bad.wait(skipped, None), Ok(WaitOutcome::Reached));
        assert!(slow.completed() >= held);
    });
}

#[test]
fn blocks_that_write_the_same_bytes_are_a_race() {
    both_clocks(|config| {
        let (_driver, device) = machine(config);
        let (queue, overlap) = (queue(&device), kernel(&device, "overlap"));
        let memory = device.memory().allocate(1024).unwrap();
        let last = accepted(launch(&queue, &overlap, 2, memory, 0));
        assert_eq!(queue.wait(last, None), Ok(WaitOutcome::Reached));
        let kind = queue.failure().unwrap().error.kind;
        let expected = ErrorKind::KernelFault(Fault::Race {
            address: memory,
            bytes: 4,
        });
        assert_eq!(kind, expected);
    });
}

#[test]
fn a_kernel_that_reaches_past_its_memory_faults_and_the_process_lives() {
    both_clocks(|config| {
        let (_driver, device) = machine(config);
        let (queue, add) = (queue(&device), kernel(&device, "add"));
        let memory = device.memory().allocate(1024).unwrap();
        let last = accepted(launch(&queue, &add, 1_000_000, memory, 1));
        assert_eq!(queue.wait(last, None), Ok(WaitOutcome::Reached));
        let kind = queue.failure().unwrap().error.kind;
        assert!(
            matches!(kind, ErrorKind::KernelFault(Fault::OutOfBounds { .. })),
            "{kind}"
        );
    });
}

#[test]
fn a_kernel_is_held_to_the_extent_of_its_buffers() {
    both_clocks(|config| {
        let (_driver, device) = machine(config);
        let add = kernel(&device, "add");
        let memory = device.memory().allocate(4096).unwrap();
        let (good, bad) = (queue(&device), queue(&device));
        accepted(launch_within(&good, &add, 2, memory, &[2048]));
        accepted(launch_within(&bad, &add, 2, memory, &[2047]));
        for queue in [&good, &bad] {
            assert_eq!(queue.wait(Position::new(1), None), Ok(WaitOutcome::Reached));
        }
        assert_eq!(good.failure(), None);
        let address = memory.checked_add(1024).unwrap();
        let expected = ErrorKind::KernelFault(Fault::OutOfBounds {
            address,
            bytes: 1024,
        });
        assert_eq!(
            bad.failure().map(|failure| failure.error.kind),
            Some(expected)
        );
        let refused = launch_within(&good, &add, 2, memory, &[1, 2]).unwrap_err();
        let expected = ErrorKind::InvalidArguments {
            expected: 8,
            given: 16,
        };
        assert_eq!(refused.kind, expected);
    });
}

#[test]
fn host_functions_run_in_order_and_may_submit() {
    both_clocks(|config| {
        let (_driver, device) = machine(config);
        let (a, b) = (queue(&device), queue(&device));
        let memory = device.memory().allocate(1024).unwrap();
        let seen = Arc::new(AtomicU32::new(0));
        accepted(fill(&a, memory, 1, 1024));
        let (inner, counter) = (Arc::clone(&b), Arc::clone(&seen));
        let mut function: Option<HostFunction> = Some(Box::new(move || {
            accepted(fill(&inner, memory, 2, 1024));
            counter.fetch_add(1, Ordering::SeqCst);
        }));
        let calls = device.host_functions().unwrap();
        let called = accepted(calls.call(&*a, &mut function, Location::caller()));
        assert!(function.is_none());
        assert_eq!(a.wait(called, None), Ok(WaitOutcome::Reached));
        assert_eq!(seen.load(Ordering::SeqCst), 1);
        assert_eq!(b.wait(Position::new(1), None), Ok(WaitOutcome::Reached));
        let mut panics: Option<HostFunction> = Some(Box::new(|| panic!("on purpose")));
        let last = accepted(calls.call(&*a, &mut panics, Location::caller()));
        assert_eq!(a.wait(last, None), Ok(WaitOutcome::Reached));
        assert_eq!(
            a.failure().unwrap().error.kind,
            ErrorKind::HostFunctionPanicked
        );
    });
}

#[test]
fn a_wait_may_come_before_its_signal() {
    both_clocks(|config| {
        let (_driver, device) = machine(config);
        let (queue, semaphores) = (queue(&device), device.semaphores().unwrap());
        let semaphore = semaphores.create(0, SignalledBy::Anyone).unwrap();
        let memory = device.memory().allocate(1024).unwrap();
        accepted(queue.wait_semaphore(&semaphore, 5));
        let last = accepted(fill(&queue, memory, 9, 1024));
        let past = Some(std::time::Instant::now());
        assert_eq!(queue.wait(last, past), Ok(WaitOutcome::DeadlinePassed));
        semaphore.signal(4).unwrap();
        semaphore.signal(6).unwrap();
        assert!(semaphore.signal(6).is_err());
        assert_eq!(queue.wait(last, None), Ok(WaitOutcome::Reached));
        assert_eq!(read(&device, memory, 256), [9; 256]);
    });
}

#[test]
fn a_lost_device_ends_what_hangs() {
    both_clocks(|config| {
        let is_real = config.clock == ClockMode::Real;
        let (driver, device) = machine(config);
        driver.set_faults(FaultPlan::new().with(Trigger::HangKernel(1)));
        let (hung, waiter) = (queue(&device), queue(&device));
        let memory = device.memory().allocate(1024).unwrap();
        let last = accepted(launch(&hung, &kernel(&device, "add"), 1, memory, 1));
        accepted(waiter.wait_for(&*hung, last));
        let past = Some(std::time::Instant::now());
        assert_eq!(hung.wait(last, past), Ok(WaitOutcome::DeadlinePassed));
        let watched = Arc::clone(&hung);
        // In virtual time a wait that comes before the loss is a deadlock, and says so.
        let waits = is_real.then(|| std::thread::spawn(move || watched.wait(last, None)));
        driver.lose(piton_driver::DeviceId(0));
        if let Some(waits) = waits {
            assert_eq!(waits.join().unwrap(), Ok(WaitOutcome::Reached));
        }
        assert_eq!(hung.wait(last, None), Ok(WaitOutcome::Reached));
        assert_eq!(
            waiter.wait(waiter.submitted(), None),
            Ok(WaitOutcome::Reached)
        );
        assert_eq!(
            hung.failure().map(|failure| failure.error.kind),
            Some(ErrorKind::DeviceLost)
        );
        let lost = device.memory().allocate(1).unwrap_err();
        assert_eq!(lost.kind, ErrorKind::DeviceLost);
    });
}

#[test]
fn a_queue_nobody_waits_for_runs_by_itself() {
    let (_driver, device) = machine(config(1));
    let queue = queue(&device);
    let memory = device.memory().allocate(1024).unwrap();
    let last = accepted(fill(&queue, memory, 1, 1024));
    // Liveness without a wait: only polls. A test that hangs here has found a lost wake.
    while queue.completed() < last {
        std::hint::spin_loop();
    }
    assert_eq!(read(&device, memory, 256), [1; 256]);
}

/// Has a kernel hold the only worker, until the end that is returned is dropped: what is submitted meanwhile is run by host
/// threads that help, or by nobody.
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
fn hold_the_worker(
    driver: &SimDriver,
    device: &Arc<dyn Device>,
) -> (Arc<dyn Queue>, mpsc::Sender<()>) {
    let (started, has_started) = mpsc::channel();
    let (hold, is_held) = mpsc::channel::<()>();
    let is_held = Mutex::new(is_held);
    let body = move |_: &Block<'_>| {
        let _ = started.send(());
        let _ = is_held.lock().unwrap().recv();
        Ok(())
    };
    let signature = Signature::new([Parameter::write::<u32>(), Parameter::value::<u32>()]);
    let kernel = KernelDefinition::new("hold", signature, body);
    driver.register(SimModule::new("holding").with(kernel));
    let kernel = device.kernels().load(ModuleImage::Registered("holding"));
    let kernel = kernel.unwrap().kernel("hold").unwrap();
    let (queue, memory) = (queue(device), device.memory().allocate(1024).unwrap());
    accepted(launch(&queue, &kernel, 1, memory, 0));
    queue.flush().unwrap();
    has_started.recv().unwrap();
    (queue, hold)
}

#[test]
fn a_host_thread_that_waits_runs_nothing_behind_what_it_waits_for() {
    let (driver, device) = machine(SimConfig {
        workers: Some(1),
        ..config(1)
    });
    let (held, hold) = hold_the_worker(&driver, &device);
    let (queue, memory) = (queue(&device), device.memory().allocate(1024).unwrap());
    let fills = [1, 2, 3].map(|word| accepted(fill(&queue, memory, word, 1024)));
    for part in fills {
        assert_eq!(queue.wait(part, None), Ok(WaitOutcome::Reached));
        assert_eq!(queue.completed(), part);
    }
    drop(hold);
    assert_eq!(held.wait(held.submitted(), None), Ok(WaitOutcome::Reached));
}

#[test]
fn one_seed_gives_one_trace() {
    let run = |seed, order| {
        let (_driver, device) = machine(config(1).in_virtual_time(seed, order));
        let queues: Vec<_> = (0..4).map(|_| queue(&device)).collect();
        let memory = device.memory().allocate(4 << 20).unwrap();
        let trace = device.execution_trace().unwrap();
        trace.start(1000);
        for n in 0..40_u32 {
            let queue = &queues[n as usize % 4];
            let ptr = memory.checked_add(u64::from(n % 4) << 20).unwrap();
            accepted(launch(queue, &kernel(&device, "add"), 1 + n % 7, ptr, n));
        }
        for queue in &queues {
            assert_eq!(
                queue.wait(queue.submitted(), None),
                Ok(WaitOutcome::Reached)
            );
        }
        trace.finish().0
    };
    for order in [ScheduleOrder::ByTime, ScheduleOrder::Seeded] {
        assert_eq!(run(1, order), run(1, order));
    }
    assert_ne!(run(1, ScheduleOrder::Seeded), run(2, ScheduleOrder::Seeded));
}

#[test]
fn a_full_queue_says_so_and_takes_commands_again() {
    let (_driver, device) = machine(config(1).in_virtual_time(0, ScheduleOrder::ByTime));
    let queue = queue(&device);
    let memory = device.memory().allocate(1024).unwrap();
    let mut accepted_count = 0_u64;
    while let piton_driver::Admission::Accepted(_) = fill(&queue, memory, 1, 1024).unwrap() {
        accepted_count += 1;
    }
    assert_eq!(accepted_count, queue.capacity());
    assert_eq!(queue.submitted().get(), accepted_count);
    assert_eq!(queue.wait(Position::new(1), None), Ok(WaitOutcome::Reached));
    accepted(fill(&queue, memory, 2, 1024));
}
