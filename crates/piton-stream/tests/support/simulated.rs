//! Streams over the simulated device, run in every way it has.

use piton_driver::{Device, DeviceId, DevicePtr, Driver, FillPattern};
use piton_sim::{DeviceConfig, ScheduleOrder, SimConfig, SimDriver};
use piton_stream::{Stream, StreamError, StreamOptions, Streams};
use piton_sync::thread;
use piton_timeline::{Timeline, Timepoint};
use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

/// Bytes each filled at once by the tests.
pub(crate) const BYTES: u64 = 4096;

/// A runtime over one simulated device.
pub(crate) struct SimBench {
    pub(crate) driver: SimDriver,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) streams: Streams,
}

impl SimBench {
    pub(crate) fn new(config: SimConfig) -> Self {
        let driver = SimDriver::new(config).unwrap();
        let device = driver.open(DeviceId(0)).unwrap();
        Self {
            driver,
            device,
            streams: Streams::new(Timeline::new()),
        }
    }

    pub(crate) fn stream(&self, label: &str) -> Stream {
        self.stream_with(StreamOptions::labelled(label))
    }

    pub(crate) fn stream_with(&self, options: StreamOptions) -> Stream {
        self.streams.create(&self.device, options).unwrap()
    }
}

pub(crate) fn config() -> SimConfig {
    let device = DeviceConfig {
        memory_bytes: 8 << 20,
        page_bytes: 64 << 10,
        ..DeviceConfig::default()
    };
    SimConfig::uniform(1, &device)
}

/// A machine for each way to run it: one worker, two, and schedules of five seeds.
pub(crate) fn machines() -> Vec<SimConfig> {
    let mut machines: Vec<_> = [1, 2]
        .map(|workers| SimConfig {
            workers: Some(workers),
            ..config()
        })
        .into();
    machines.extend((0..5).map(|seed| config().in_virtual_time(seed, ScheduleOrder::Seeded)));
    machines
}

#[expect(unsafe_code, reason = "submission is unsafe")]
#[track_caller]
pub(crate) fn fill(stream: &Stream, at: DevicePtr) -> Result<Timepoint, StreamError> {
    // SAFETY: tests fill memory they hold until the device is dropped, from one stream at a time.
    unsafe { stream.fill(at, FillPattern::Byte(1), BYTES) }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The simplest executor there is.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
