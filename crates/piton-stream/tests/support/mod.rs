//! A device in a few hundred lines for tests of streams: commands run one by one, when the test says so or when a
//! host thread waits, and the order they ran in is kept.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses a part of this"
)]
#![allow(clippy::unwrap_used, reason = "tests may")]

mod device;
mod machine;
mod queue;
pub(crate) mod simulated;
mod wakers;

pub(crate) use device::FakeDevice;
pub(crate) use machine::{Machine, Ran, Step};
pub(crate) use wakers::CountingWaker;

use piton_driver::{Device, DevicePtr, FillPattern};
use piton_sanitizer::{Sanitizer, SanitizerConfig};
use piton_stream::{Command, Stream, StreamError, StreamOptions, Streams, Submission};
use piton_timeline::{Timeline, Timepoint};
use std::{any::Any, sync::Arc};

/// A fill of this address fails when it runs.
pub(crate) const TRAP: DevicePtr = DevicePtr::new(0xdead);

/// A runtime over one fake device.
pub(crate) struct Bench {
    pub(crate) machine: Arc<Machine>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) streams: Streams,
}

impl Bench {
    /// A device with every facet, whose queues hold 64 commands.
    pub(crate) fn new() -> Self {
        Self::over(|device| device)
    }

    pub(crate) fn over(change: impl FnOnce(FakeDevice) -> FakeDevice) -> Self {
        let machine = Machine::new();
        let device = change(FakeDevice::new(&machine, 0));
        Self {
            machine,
            device: Arc::new(device),
            streams: Streams::new(Timeline::new()),
        }
    }

    /// A device with every facet, and a sanitizer.
    pub(crate) fn sanitized() -> Self {
        let sanitizer = Arc::new(Sanitizer::new(SanitizerConfig::default()));
        let streams = Streams::sanitized(Timeline::new(), sanitizer);
        Self {
            streams,
            ..Self::new()
        }
    }

    pub(crate) fn stream(&self, label: &str) -> Stream {
        self.stream_with(StreamOptions::labelled(label))
    }

    pub(crate) fn stream_with(&self, options: StreamOptions) -> Stream {
        self.streams.create(&self.device, options).unwrap()
    }
}

/// How many queues of a fake device have a handle.
pub(crate) fn live_queues(device: &dyn Device) -> usize {
    let device: &dyn Any = device;
    device.downcast_ref::<FakeDevice>().unwrap().live_queues()
}

fn fill(dst: DevicePtr) -> Command<'static> {
    Command::Fill {
        dst,
        pattern: FillPattern::Byte(0),
        bytes: 1,
    }
}

/// Submits a command that does nothing but take its turn.
#[track_caller]
#[expect(unsafe_code, reason = "submission is unsafe")]
pub(crate) fn work(stream: &Stream) -> Result<Timepoint, StreamError> {
    // SAFETY: the fake device touches no memory.
    unsafe { stream.submit(&fill(DevicePtr::new(16))) }
}

/// Submits a command that fails when its turn comes.
#[track_caller]
#[expect(unsafe_code, reason = "submission is unsafe")]
pub(crate) fn trap(stream: &Stream) -> Result<Timepoint, StreamError> {
    // SAFETY: the fake device touches no memory.
    unsafe { stream.submit(&fill(TRAP)) }
}

#[expect(unsafe_code, reason = "submission is unsafe")]
pub(crate) fn try_work(stream: &Stream) -> Result<Submission, StreamError> {
    // SAFETY: the fake device touches no memory.
    unsafe { stream.try_submit(&fill(DevicePtr::new(16))) }
}

#[expect(unsafe_code, reason = "submission is unsafe")]
pub(crate) fn async_work(stream: &Stream) -> piton_stream::Submitting<'_> {
    // SAFETY: the fake device touches no memory.
    unsafe { stream.submit_async(fill(DevicePtr::new(16))) }
}
