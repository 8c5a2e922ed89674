//! A simulated device with two arithmetic kernels, and the unsafe calls that tests of graphs share.

#![expect(unsafe_code, reason = "commands name raw memory")]
#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_driver::{
    Device, DeviceId, DevicePtr, Driver, FillPattern, Grid, HostAllocation, HostMemoryOptions,
    Kernel, Locking, ModuleImage, Parameter, Signature,
};
use piton_graph::{Executable, GraphError, NodeWork};
use piton_sanitizer::{Report, Sanitizer, SanitizerConfig};
use piton_sim::{DeviceConfig, KernelDefinition, ScheduleOrder, SimConfig, SimDriver, SimModule};
use piton_stream::{Command, Stream, StreamError, StreamOptions, Streams, Submission};
use piton_timeline::{Timeline, Timepoint};
use std::sync::Arc;

/// Words of each test buffer.
pub(crate) const WORDS: u64 = 64;
pub(crate) const BYTES: u64 = WORDS * 4;

pub(crate) fn config() -> SimConfig {
    let device = DeviceConfig {
        memory_bytes: 16 << 20,
        page_bytes: 64 << 10,
        poison: Some(0xa5),
        ..DeviceConfig::default()
    };
    SimConfig::uniform(1, &device)
}

/// Both clocks, few workers and many.
pub(crate) fn configs() -> Vec<SimConfig> {
    let with = |workers| SimConfig {
        workers: Some(workers),
        ..config()
    };
    vec![
        with(1),
        with(2),
        config().in_virtual_time(1, ScheduleOrder::ByTime),
        config().in_virtual_time(2, ScheduleOrder::Seeded),
    ]
}

pub(crate) struct Bench {
    pub(crate) driver: SimDriver,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) streams: Streams,
    pub(crate) add: Arc<dyn Kernel>,
    pub(crate) mix: Arc<dyn Kernel>,
    pub(crate) flag: Arc<dyn Kernel>,
    pub(crate) trap: Arc<dyn Kernel>,
}

impl Bench {
    pub(crate) fn new(config: SimConfig) -> Self {
        Self::with(config, Streams::new(Timeline::new()))
    }

    /// Its streams are watched by a sanitizer.
    pub(crate) fn sanitized(config: SimConfig) -> Self {
        Self::watched(config, SanitizerConfig::default())
    }

    pub(crate) fn watched(config: SimConfig, sanitizer: SanitizerConfig) -> Self {
        let sanitizer = Arc::new(Sanitizer::new(sanitizer));
        Self::with(config, Streams::sanitized(Timeline::new(), sanitizer))
    }

    /// What its sanitizer has found.
    pub(crate) fn reports(&self) -> Vec<Report> {
        let sanitizer = self.streams.sanitizer().unwrap();
        sanitizer.check();
        sanitizer.take_reports()
    }

    fn with(config: SimConfig, streams: Streams) -> Self {
        let driver = SimDriver::new(config).unwrap();
        driver.register(module());
        let device = driver.open(DeviceId(0)).unwrap();
        let module = device.kernels().load(ModuleImage::Registered("graph"));
        let module = module.unwrap();
        Self {
            add: module.kernel("add").unwrap(),
            mix: module.kernel("mix").unwrap(),
            flag: module.kernel("flag").unwrap(),
            trap: module.kernel("trap").unwrap(),
            streams,
            driver,
            device,
        }
    }

    pub(crate) fn stream(&self, label: &str) -> Stream {
        let options = StreamOptions::labelled(label);
        self.streams.create(&self.device, options).unwrap()
    }

    pub(crate) fn buffer(&self) -> DevicePtr {
        self.device.memory().allocate(BYTES).unwrap()
    }

    /// x[i] = x[i] * 3 + value.
    pub(crate) fn adds(&self, x: DevicePtr, value: u32) -> NodeWork {
        let mut arguments = x.address().to_ne_bytes().to_vec();
        arguments.extend(value.to_ne_bytes());
        self.launch(&self.add, arguments, &[BYTES])
    }

    /// x[i] = x[i] * 31 + y[i].
    pub(crate) fn mixes(&self, x: DevicePtr, y: DevicePtr) -> NodeWork {
        let mut arguments = x.address().to_ne_bytes().to_vec();
        arguments.extend(y.address().to_ne_bytes());
        self.launch(&self.mix, arguments, &[BYTES, BYTES])
    }

    /// x[i] = y[i] & 1.
    pub(crate) fn flags(&self, x: DevicePtr, y: DevicePtr) -> NodeWork {
        let mut arguments = x.address().to_ne_bytes().to_vec();
        arguments.extend(y.address().to_ne_bytes());
        self.launch(&self.flag, arguments, &[BYTES, BYTES])
    }

    pub(crate) fn traps(&self, x: DevicePtr) -> NodeWork {
        let mut arguments = x.address().to_ne_bytes().to_vec();
        arguments.extend(0_u32.to_ne_bytes());
        self.launch(&self.trap, arguments, &[BYTES])
    }

    fn launch(&self, kernel: &Arc<dyn Kernel>, arguments: Vec<u8>, extents: &[u64]) -> NodeWork {
        NodeWork::Launch {
            kernel: Arc::clone(kernel),
            grid: Grid::linear(4),
            arguments: arguments.into(),
            extents: extents.into(),
        }
    }

    /// The words at an address, once everything is done that `stream` has.
    pub(crate) fn words(&self, stream: &Stream, at: DevicePtr) -> Vec<u32> {
        let host = self.device.host_memory().unwrap();
        let options = HostMemoryOptions {
            locking: Locking::Preferred,
            numa_node: None,
        };
        let held: HostAllocation = host
            .allocate(usize::try_from(BYTES).unwrap(), options)
            .unwrap();
        // SAFETY: the memory is given back below, after the copy has ended.
        unsafe { stream.copy_to_host(held.start, at, BYTES).unwrap() };
        stream.synchronize().unwrap();
        let words = held.start.as_ptr().cast_const().cast::<u32>();
        // SAFETY: that many were copied, and nothing writes them now.
        let seen = unsafe { std::slice::from_raw_parts(words, usize::try_from(WORDS).unwrap()) };
        let seen = seen.to_vec();
        // SAFETY: no command names it any more.
        unsafe { host.free(held).unwrap() };
        seen
    }
}

/// `add`, `mix`, `count`, `flag`: four blocks of sixteen words each; `trap`.
fn module() -> SimModule {
    let own = |index: u32| u64::from(index) * 16..(u64::from(index) + 1) * 16;
    let adds = || Signature::new([Parameter::write::<u32>(), Parameter::value::<u32>()]);
    let mixes = || Signature::new([Parameter::write::<u32>(), Parameter::read::<u32>()]);
    let add = KernelDefinition::new("add", adds(), move |block| {
        let value = block.value::<u32>(1)?;
        for x in block.write::<u32>(0, own(block.index().x))? {
            *x = x.wrapping_mul(3).wrapping_add(value);
        }
        Ok(())
    });
    let mix = KernelDefinition::new("mix", mixes(), move |block| {
        let y = block.read::<u32>(1, own(block.index().x))?;
        let x = block.write::<u32>(0, own(block.index().x))?;
        for (x, y) in x.iter_mut().zip(y) {
            *x = x.wrapping_mul(31).wrapping_add(*y);
        }
        Ok(())
    });
    let count = KernelDefinition::new("count", adds(), move |block| {
        let value = block.value::<u32>(1)?;
        for x in block.write::<u32>(0, own(block.index().x))? {
            *x = x.wrapping_sub(value);
        }
        Ok(())
    });
    let flag = KernelDefinition::new("flag", mixes(), move |block| {
        let y = block.read::<u32>(1, own(block.index().x))?;
        let x = block.write::<u32>(0, own(block.index().x))?;
        for (x, y) in x.iter_mut().zip(y) {
            *x = y & 1;
        }
        Ok(())
    });
    let trap = KernelDefinition::new("trap", adds(), |_| {
        Err(piton_driver::Fault::Trapped { code: 9 })
    });
    SimModule::new("graph")
        .with(add)
        .with(mix)
        .with(count)
        .with(flag)
        .with(trap)
}

/// x[i] -= value.
pub(crate) fn counts_down(bench: &Bench, x: DevicePtr, value: u32) -> NodeWork {
    let module = bench
        .device
        .kernels()
        .load(ModuleImage::Registered("graph"));
    let kernel = module.unwrap().kernel("count").unwrap();
    let NodeWork::Launch {
        grid,
        arguments,
        extents,
        ..
    } = bench.adds(x, value)
    else {
        panic!("a launch")
    };
    NodeWork::Launch {
        kernel,
        grid,
        arguments,
        extents,
    }
}

pub(crate) fn fills(dst: DevicePtr, word: u32) -> NodeWork {
    NodeWork::Fill {
        dst,
        pattern: FillPattern::Word(word),
        bytes: BYTES,
    }
}

pub(crate) fn copies(dst: DevicePtr, src: DevicePtr) -> NodeWork {
    NodeWork::CopyOnDevice {
        dst,
        src,
        bytes: BYTES,
    }
}

/// Submits what a node would do.
#[track_caller]
pub(crate) fn submit(stream: &Stream, work: &NodeWork) -> Result<Timepoint, StreamError> {
    let command = match work {
        NodeWork::Launch {
            kernel,
            grid,
            arguments,
            extents,
        } => Command::Launch(piton_driver::Launch {
            kernel,
            grid: *grid,
            arguments,
            extents,
        }),
        NodeWork::CopyOnDevice { dst, src, bytes } => Command::CopyOnDevice {
            dst: *dst,
            src: *src,
            bytes: *bytes,
        },
        NodeWork::Fill {
            dst,
            pattern,
            bytes,
        } => Command::Fill {
            dst: *dst,
            pattern: *pattern,
            bytes: *bytes,
        },
        NodeWork::CopyToDevice { dst, src, bytes } => Command::CopyToDevice {
            dst: *dst,
            src: *src,
            bytes: *bytes,
        },
        NodeWork::CopyToHost { dst, src, bytes } => Command::CopyToHost {
            dst: *dst,
            src: *src,
            bytes: *bytes,
        },
        NodeWork::CallHost(function) => {
            let function = Arc::clone(function);
            return stream.call_host_each_time(move || function());
        }
        other => panic!("{other:?} is no command"),
    };
    // SAFETY: tests never free what commands name, and order what conflicts.
    unsafe { stream.submit(&command) }
}

/// Replays if there is room.
pub(crate) fn offer(
    executable: &mut Executable,
    stream: &Stream,
) -> Result<Submission, GraphError> {
    // SAFETY: as for `submit`.
    unsafe { executable.try_launch(stream) }
}

#[track_caller]
pub(crate) fn replay(
    executable: &mut Executable,
    stream: &Stream,
) -> Result<Timepoint, GraphError> {
    // SAFETY: as for `submit`.
    unsafe { executable.launch(stream) }
}
