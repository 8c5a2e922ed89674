//! The simulated device under measurement, and its kernels.

#![expect(
    unsafe_code,
    reason = "launches are unsafe: the kernels here take no buffers"
)]

use piton_driver::{
    Command, Device, DeviceId, Driver, Fault, Grid, Kernel, Launch, ModuleImage, Parameter,
    Semaphore, SignalledBy, Signature,
};
use piton_sim::{DeviceConfig, KernelDefinition, SimConfig, SimDriver, SimModule};
use piton_stream::{Stream, StreamOptions, Streams};
use piton_timeline::Timeline;
use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The name its module is registered under.
pub(crate) const MODULE: &str = "bench";

/// A device in real time, and streams on it.
pub(crate) struct Rig {
    _driver: SimDriver,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) streams: Streams,
    /// Does nothing and takes nothing.
    pub(crate) empty: Arc<dyn Kernel>,
    /// Does nothing with 16 bytes of arguments.
    pub(crate) takes_16: Arc<dyn Kernel>,
    /// Does nothing with 256 bytes of arguments.
    pub(crate) takes_256: Arc<dyn Kernel>,
    /// Says when it started.
    pub(crate) stamps: Arc<dyn Kernel>,
    pub(crate) stamp: Arc<Stamp>,
}

/// When a task started, told to a thread that spins for it.
#[derive(Debug)]
pub(crate) struct Stamp {
    base: Instant,
    started_ns: AtomicU64,
}

impl Rig {
    /// A device with workers of its own, or with the process's: one a core but one.
    pub(crate) fn new(workers: Option<u32>, spin: Option<Duration>) -> Self {
        let config = DeviceConfig {
            memory_bytes: 64 << 20,
            ..DeviceConfig::default()
        };
        let driver = must(SimDriver::new(SimConfig {
            workers,
            spin,
            ..SimConfig::uniform(1, &config)
        }));
        let stamp = Arc::new(Stamp::new());
        driver.register(module(&stamp));
        let device = must(driver.open(DeviceId(0)));
        let module = must(device.kernels().load(ModuleImage::Registered(MODULE)));
        Self {
            streams: Streams::new(Timeline::new()),
            empty: must(module.kernel("empty")),
            takes_16: must(module.kernel("takes_16")),
            takes_256: must(module.kernel("takes_256")),
            stamps: must(module.kernel("stamps")),
            _driver: driver,
            device,
            stamp,
        }
    }

    pub(crate) fn stream(&self) -> Stream {
        must(self.streams.create(&self.device, StreamOptions::default()))
    }

    /// A stream as deep as the device allows: whatever is submitted while a gate is closed has room.
    pub(crate) fn deep_stream(&self) -> Stream {
        self.stream_of(self.device.info().limits.queue_commands)
    }

    /// A stream that holds so many commands.
    pub(crate) fn stream_of(&self, commands: u32) -> Stream {
        self.stream_on(&self.streams, Some(commands))
    }

    /// A stream of others than the rig's.
    pub(crate) fn stream_on(&self, streams: &Streams, commands: Option<u32>) -> Stream {
        let options = StreamOptions {
            commands,
            ..StreamOptions::default()
        };
        must(streams.create(&self.device, options))
    }

    pub(crate) fn gate(&self) -> Gate {
        let semaphores = must(self.device.semaphores().ok_or("no semaphores"));
        Gate {
            semaphore: must(semaphores.create(0, SignalledBy::default())),
            turn: 0,
        }
    }
}

/// Holds streams back while it is closed. Made open.
#[derive(Debug)]
pub(crate) struct Gate {
    semaphore: Arc<dyn Semaphore>,
    turn: u64,
}

impl Gate {
    pub(crate) fn close(&mut self) {
        self.turn += 1;
    }

    /// Later commands of the stream start when the gate opens.
    pub(crate) fn hold(&self, stream: &Stream) {
        let command = Command::WaitSemaphore {
            semaphore: &self.semaphore,
            value: self.turn,
        };
        // SAFETY: the command names no memory.
        must(unsafe { stream.submit(&command) });
    }

    pub(crate) fn open(&self) {
        must(self.semaphore.signal(self.turn));
    }
}

impl Stamp {
    pub(crate) fn new() -> Self {
        Self {
            base: Instant::now(),
            started_ns: AtomicU64::new(0),
        }
    }

    /// Called by the task.
    pub(crate) fn started(&self) {
        self.started_ns.store(self.now_ns(), Ordering::Release);
    }

    /// How long from now until what `submit` submits starts. Spins, and helps nobody.
    pub(crate) fn latency_of(&self, submit: impl FnOnce()) -> Duration {
        self.started_ns.store(0, Ordering::Relaxed);
        let from = self.now_ns();
        submit();
        loop {
            let started = self.started_ns.load(Ordering::Acquire);
            if started != 0 {
                return Duration::from_nanos(started.saturating_sub(from));
            }
            std::hint::spin_loop();
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Launches one block of a kernel of [`Rig`].
pub(crate) fn launch(stream: &Stream, kernel: &Arc<dyn Kernel>, arguments: &[u8]) {
    // SAFETY: no kernel here has buffer arguments.
    must(unsafe { stream.launch(Launch::new(kernel, Grid::linear(1), arguments)) });
}

/// The value, or the end of the run: a benchmark of something that fails measures nothing.
pub(crate) fn must<T, E: Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

fn module(stamp: &Arc<Stamp>) -> SimModule {
    let bytes = |bytes| {
        Signature::new([Parameter::Value {
            bytes,
            alignment: 8,
        }])
    };
    let stamp = Arc::clone(stamp);
    let nothing = |_: &piton_sim::Block<'_>| Ok::<(), Fault>(());
    SimModule::new(MODULE)
        .with(KernelDefinition::new(
            "empty",
            Signature::default(),
            nothing,
        ))
        .with(KernelDefinition::new("takes_16", bytes(16), nothing))
        .with(KernelDefinition::new("takes_256", bytes(256), nothing))
        .with(KernelDefinition::new(
            "stamps",
            Signature::default(),
            move |_| {
                stamp.started();
                Ok(())
            },
        ))
}
