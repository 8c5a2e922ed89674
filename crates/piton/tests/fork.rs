//! In a fork of the process everything may be dropped: nothing there waits for threads that stayed behind.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "forking is unsafe")]

mod support;

use piton::{Comparison, Completion, Device, Grid, Kernel, OnExpiry, Runtime, sim::SimConfig};
use std::{
    any::Any,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};
use support::{check, runtime, sanitized, small_devices};

/// Forks; the child drops what there is, and ends. Says whether it came to its end before a signal ended it.
fn drop_in_a_fork(everything: Box<dyn Any>) {
    // SAFETY: the child drops what it is given and ends at once, running nothing of the parent's. What it drops takes no
    // lock: that is what is tested. The system's allocator may be used in a fork.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: a child that hangs is ended by the signal.
        unsafe { libc::alarm(40) };
        drop(everything);
        // SAFETY: ends the child.
        unsafe { libc::_exit(7) };
    }
    assert!(process > 0, "the system forks");
    let mut status = 0;
    // SAFETY: waits for the child made above.
    let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
    assert_eq!(waited, process);
    assert!(libc::WIFEXITED(status), "the child hung: {status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), 7);
    drop(everything);
}

/// One of everything that has a destructor, with work under way.
fn one_of_everything(runtime: &Runtime, add: &Kernel) -> Box<dyn Any> {
    let device = runtime.device(0).unwrap();
    let (a, b) = (device.stream("a").unwrap(), device.stream("b").unwrap());
    let mut x = a.allocate_zeroed::<u32>(4096).unwrap();
    let mut y = b.allocate_zeroed::<u32>(4096).unwrap();
    a.launch(add, Grid::linear(16))
        .write(&mut y)
        .read(&x)
        .submit()
        .unwrap();
    let sent = a.copy_to_device(a.pinned(4096).unwrap(), &mut x).unwrap();
    let timed = a.record_timed().unwrap();
    b.wait(&timed).unwrap();
    a.wait_value(&x, 0, Comparison::Equal, 1).unwrap();
    let mut completion = Box::pin(a.completion());
    let polled = completion
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    a.abort().unwrap();
    let watch = runtime
        .watchdog(Duration::from_secs(100), OnExpiry::Tell)
        .spawn(Duration::from_secs(100), |_| ())
        .unwrap();
    let host = device.pinned::<u64>(100).unwrap();
    let mut recorder = device.graph();
    recorder.fill(&mut y, 1_u32).unwrap();
    let graph = recorder.finish(&b).unwrap();
    Box::new((
        (completion as Pin<Box<Completion>>, timed, sent, graph),
        (x, y, host, watch, a, b, device, runtime.clone()),
    ))
}

/// Keeps the locks of pools, lanes and queues busy.
fn hammer(device: &Device, add: &Kernel, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let stream = device.stream("hammer").unwrap();
        let mut buffers = Vec::new();
        for len in 1..64_u64 {
            buffers.push(stream.allocate_zeroed::<u32>(64 * len).unwrap());
        }
        let other = buffers.pop().unwrap();
        for buffer in &mut buffers {
            stream
                .launch(add, Grid::linear(1))
                .write(buffer)
                .read(&other)
                .submit()
                .unwrap();
        }
        drop(stream.pinned::<u32>(1024).unwrap());
        drop(stream.record_timed().unwrap());
        stream.synchronize().unwrap();
    }
}

fn forks_while_others_hammer(runtime: Runtime, forks: u32) {
    let device = runtime.device(0).unwrap();
    let add = device.load("test").unwrap().kernel("add").unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let hammers: Vec<_> = (0..2)
        .map(|_| {
            let (device, add, is_over) = (device.clone(), add.clone(), Arc::clone(&is_over));
            thread::spawn(move || hammer(&device, &add, &is_over))
        })
        .collect();
    for _ in 0..forks {
        drop_in_a_fork(one_of_everything(&runtime, &add));
    }
    is_over.store(true, Ordering::Relaxed);
    for hammer in hammers {
        hammer.join().unwrap();
    }
    check(&runtime);
}

fn one_worker() -> SimConfig {
    SimConfig {
        workers: Some(1),
        ..small_devices(1)
    }
}

#[test]
fn whatever_is_dropped_in_a_fork_waits_for_nobody() {
    forks_while_others_hammer(runtime(one_worker()), 100);
}

#[test]
fn so_it_is_with_a_sanitizer() {
    forks_while_others_hammer(sanitized(one_worker()), 20);
}

#[test]
fn the_last_handle_of_a_runtime_may_be_dropped_in_a_fork() {
    for _ in 0..10 {
        let runtime = runtime(one_worker());
        let device = runtime.device(0).unwrap();
        let add = device.load("test").unwrap().kernel("add").unwrap();
        let everything = one_of_everything(&runtime, &add);
        drop_in_a_fork(Box::new((everything, add, device, runtime)));
    }
}
