//! A process that ends with work under way ends: by itself, at once, and well.
//!
//! Each test runs this very binary again, as a child that runs only [`child`], and looks at how the child ended. A child
//! that does not end is ended by an alarm of its own, which no thread of its can hold up.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "an alarm is set by a call of the system's")]

mod support;

use piton::{Device, DeviceBuffer, Grid, Runtime, Stream};
use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, Output, Stdio},
};
use support::{runtime, small_devices};

/// Tells the child how to end; without it [`child`] does nothing.
const HOW: &str = "PITON_TEST_EXIT";

/// Seconds after which a child is ended: so many that only one that hangs gets there.
const PATIENCE: libc::c_uint = 120;

/// Runs the child to its end.
fn run(how: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(HOW, how)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Whether the child has come to its end with work under way, and ended with 0.
fn ends_well(how: &str) {
    let child = run(how);
    let (said, complained) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    assert!(said.contains("under way"), "{said}\n{complained}");
    assert_eq!(child.status.code(), Some(0), "{said}\n{complained}");
}

#[test]
fn a_child_that_hangs_is_ended_and_told_from_one_that_ends() {
    let status = run("hang").status;
    assert_eq!(status.signal(), Some(libc::SIGALRM), "{status}");
}

#[test]
fn main_returns_while_kernels_are_queued() {
    ends_well("drop");
}

#[test]
fn main_returns_while_everything_is_leaked_and_a_stream_waits_for_ever() {
    ends_well("leak");
}

#[test]
fn exit_is_called_while_kernels_are_queued() {
    ends_well("exit");
}

#[test]
fn exit_is_called_by_a_host_function() {
    ends_well("exit from a host function");
}

/// Work under way: kernels, copies and a host function on one stream, another that waits for it.
struct Work {
    runtime: Runtime,
    device: Device,
    streams: (Stream, Stream),
    buffer: DeviceBuffer<u32>,
}

fn begin() -> Work {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let scale = device.load("test").unwrap().kernel("scale").unwrap();
    let streams = (device.stream("a").unwrap(), device.stream("b").unwrap());
    let mut buffer = streams.0.allocate::<u32>(1 << 16).unwrap();
    streams.0.fill(&mut buffer, 1).unwrap();
    for _ in 0..100 {
        let launch = streams.0.launch(&scale, Grid::linear(1024));
        launch.write(&mut buffer).value(3_u32).submit().unwrap();
    }
    let landing = streams.1.pinned(1 << 16).unwrap();
    drop(streams.1.copy_to_host(&buffer, landing).unwrap());
    Work {
        runtime,
        device,
        streams,
        buffer,
    }
}

#[expect(clippy::print_stdout, reason = "what the parent reads")]
fn say(text: &str) {
    println!("{text}");
}

/// Not a test of its own: what the tests above run in a process of its own.
#[test]
fn child() {
    let Ok(how) = std::env::var(HOW) else {
        return;
    };
    let patience = if how == "hang" { 1 } else { PATIENCE };
    // SAFETY: only sets an alarm. Nothing here handles its signal, which ends the process.
    unsafe { libc::alarm(patience) };
    let work = begin();
    say("under way");
    match how.as_str() {
        "exit" => std::process::exit(0),
        "hang" => loop {
            std::thread::park();
        },
        "exit from a host function" => {
            let stream = &work.streams.1;
            stream.call_host(|| std::process::exit(0)).unwrap();
            // Never returns: the function ends the process.
            let _ended = stream.synchronize();
            std::process::abort();
        }
        "leak" => {
            let (never, wait) = std::sync::mpsc::channel::<()>();
            work.streams
                .0
                .call_host(move || {
                    let _opened = wait.recv();
                })
                .unwrap();
            work.streams.1.wait(&work.streams.0.record()).unwrap();
            #[expect(clippy::mem_forget, reason = "what is tested")]
            std::mem::forget((work, never));
        }
        _ => drop((work.buffer, work.runtime, work.streams, work.device)),
    }
}
