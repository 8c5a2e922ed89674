//! The machine a program runs on, its memory, and a log of what really ran, written by the kernels themselves.

#![expect(unsafe_code, reason = "launches and frees device memory")]

use crate::{
    contents::Contents,
    program::{DEVICES, Program},
    watched::WatchedDevice,
};
use piton_driver::{
    Command, Device, DeviceId, DevicePtr, Driver, DriverError, ErrorKind, Fault, Grid,
    HostAllocation, HostMemoryOptions, Kernel, Launch, Locking, ModuleImage, Parameter,
    PeerAddress, Signature, WaitOutcome,
};
use piton_sim::{Block, DeviceConfig, KernelDefinition, SimConfig, SimDriver, SimModule};
use piton_stream::{Semaphore, StreamOptions, Streams};
use piton_sync::Mutex;
use piton_timeline::Timeline;
use std::{
    cell::Cell,
    ptr::NonNull,
    slice,
    sync::Arc,
    time::{Duration, Instant},
};

/// Words of a block of the pool, and of whatever else has a place in memory.
pub(crate) const WORDS: u32 = 16;
/// The same in bytes.
pub(crate) const BLOCK: u64 = WORDS as u64 * 4;
/// Blocks of the pool, on each device.
pub(crate) const BLOCKS: usize = 5;
/// Bytes of a device's memory: blocks, and areas of the same size, three a stream.
pub(crate) const DEVICE_BYTES: u64 = 512 * BLOCK;
/// Bytes of host memory that copies use, more than a program has copies; what is read back in the end lies behind.
const HOST_BYTES: u64 = 256 * BLOCK;
pub(crate) const TRAP: u32 = 7;
/// Longer than any machine takes: a wait that gets there has been lost, and is to fail and not to hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Something that happened, in an order that agrees with what came before what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A kernel or host function began. A kernel says whether its arguments were whole, and what was in its block.
    Start {
        tag: u32,
        is_whole: bool,
        found: [u32; WORDS as usize],
    },
    End {
        tag: u32,
    },
    /// The host read a queue's counter.
    Seen {
        queue: usize,
        completed: u64,
    },
    HostSignal {
        semaphore: usize,
        value: u64,
    },
}

pub(crate) type Log = Arc<Mutex<Vec<Entry>>>;

pub(crate) struct World {
    pub(crate) streams: Streams,
    /// The first device.
    pub(crate) device: Arc<dyn Device>,
    pub(crate) devices: Vec<OneDevice>,
    pub(crate) log: Log,
    pub(crate) is_virtual: bool,
    /// Whether the last device is gone.
    pub(crate) is_lost: Cell<bool>,
    host: HostAllocation,
    driver: SimDriver,
}

/// A device, its kernels and its memory.
pub(crate) struct OneDevice {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) watched: Arc<WatchedDevice>,
    kernels: [Arc<dyn Kernel>; 2],
    memory: DevicePtr,
}

impl OneDevice {
    fn open(driver: &SimDriver, id: u32) -> Self {
        let watched = Arc::new(WatchedDevice::new(driver.open(DeviceId(id)).unwrap()));
        let device: Arc<dyn Device> = watched.clone();
        let module = device.kernels().load(ModuleImage::Registered("m")).unwrap();
        Self {
            kernels: ["small", "large"].map(|name| module.kernel(name).unwrap()),
            memory: device.memory().allocate(DEVICE_BYTES).unwrap(),
            device,
            watched,
        }
    }
}

/// A small machine.
pub(crate) fn config(program: &Program) -> SimConfig {
    let device = DeviceConfig {
        memory_bytes: 1 << 20,
        page_bytes: 64 << 10,
        hardware_queues: program.hardware_queues,
        ..DeviceConfig::default()
    };
    SimConfig::uniform(u32::try_from(program.devices).unwrap(), &device)
}

impl World {
    pub(crate) fn new(config: SimConfig) -> Self {
        let is_virtual = config.workers.is_none();
        let devices = 0..u32::try_from(config.devices.len()).unwrap();
        let driver = SimDriver::new(config).unwrap();
        let log = Log::default();
        driver.register(module(&log));
        let devices: Vec<_> = devices.map(|id| OneDevice::open(&driver, id)).collect();
        for (one, other) in devices.iter().zip(devices.iter().rev()) {
            let peer = other.device.info().id;
            if peer != one.device.info().id {
                one.device.peers().unwrap().enable(peer).unwrap();
            }
        }
        let device = Arc::clone(&devices[0].device);
        let host = usize::try_from(HOST_BYTES + DEVICES as u64 * DEVICE_BYTES).unwrap();
        let options = HostMemoryOptions {
            locking: Locking::Preferred,
            ..HostMemoryOptions::default()
        };
        let host = device.host_memory().unwrap().allocate(host, options);
        let world = Self {
            streams: Streams::new(Timeline::new()),
            host: host.unwrap(),
            device,
            devices,
            log,
            is_virtual,
            is_lost: Cell::new(false),
            driver,
        };
        world.prepare_host();
        world
    }

    pub(crate) fn note(&self, entry: Entry) {
        self.log.lock().push(entry);
    }

    /// The device address of a byte.
    pub(crate) fn at(&self, byte: u64) -> DevicePtr {
        let memory = self.devices[device_of(byte)].memory;
        memory.checked_add(byte % DEVICE_BYTES).unwrap()
    }

    /// The same, for a copy between devices.
    pub(crate) fn peer_at(&self, byte: u64) -> PeerAddress {
        PeerAddress {
            device: self.devices[device_of(byte)].device.info().id,
            ptr: self.at(byte),
        }
    }

    /// The last device goes away.
    pub(crate) fn lose(&self) {
        self.is_lost.set(true);
        self.driver
            .lose(self.devices[self.devices.len() - 1].device.info().id);
    }

    /// The host address of a byte.
    pub(crate) fn host_at(&self, byte: u64) -> NonNull<u8> {
        assert!(byte < HOST_BYTES + DEVICES as u64 * DEVICE_BYTES);
        // SAFETY: it is within the allocation.
        unsafe { self.host.start.add(usize::try_from(byte).unwrap()) }
    }

    fn host_bytes(&self, at: u64, bytes: u64) -> Vec<u8> {
        let (start, length) = (self.host_at(at), usize::try_from(bytes).unwrap());
        // SAFETY: it is within the allocation, and no command writes it now.
        unsafe { slice::from_raw_parts(start.as_ptr(), length) }.to_vec()
    }

    fn prepare_host(&self) {
        for (byte, value) in (0..).zip(host_before()) {
            // SAFETY: it is within the allocation, which nobody else knows yet.
            unsafe { self.host_at(byte).write(value) };
        }
    }

    /// What memory holds before anything has run.
    pub(crate) fn contents_before(&self) -> Contents {
        Contents {
            device: vec![0; self.devices.len() * usize::try_from(DEVICE_BYTES).unwrap()],
            host: host_before().collect(),
        }
    }

    /// What memory holds when everything has ended.
    pub(crate) fn contents(&self) -> Contents {
        for (byte, one) in (0..).map(|at: u64| at * DEVICE_BYTES).zip(&self.devices) {
            let reader = self.streams.create(&one.device, StreamOptions::default());
            let (reader, to) = (reader.unwrap(), self.host_at(HOST_BYTES + byte));
            // SAFETY: nothing else uses the memory any more.
            unsafe { reader.copy_to_host(to, one.memory, DEVICE_BYTES) }.unwrap();
            reader.close().unwrap();
        }
        Contents {
            device: self.host_bytes(HOST_BYTES, self.devices.len() as u64 * DEVICE_BYTES),
            host: self.host_bytes(0, HOST_BYTES),
        }
    }

    /// Hands on a launch, whose arguments are overwritten as soon as it was taken or not.
    pub(crate) fn with_launch<R>(
        &self,
        (block, tag): (usize, u32),
        (first, count): (u32, u32),
        (is_large, traps): (bool, bool),
        submit: impl FnOnce(&Command<'_>) -> R,
    ) -> R {
        let words = if is_large { 128 } else { 2 };
        let mut arguments = self.at(block_at(block)).address().to_ne_bytes().to_vec();
        for word in [tag, u32::from(traps), first, count] {
            arguments.extend(word.to_ne_bytes());
        }
        for index in 0..words {
            arguments.extend(pattern(tag, index).to_ne_bytes());
        }
        let kernels = &self.devices[device_of(block_at(block))].kernels;
        let kernel = &kernels[usize::from(is_large)];
        let launch = Launch::new(kernel, Grid::linear(1), &arguments);
        let answer = submit(&Command::Launch(launch));
        arguments.fill(0xEE);
        answer
    }

    /// In virtual time: runs what can run, for whoever has dropped the streams of it.
    pub(crate) fn let_pass(&self) {
        let gate = Semaphore::new(&self.device, 0).unwrap();
        let driver = self.streams.create(&self.device, StreamOptions::default());
        let driver = driver.unwrap();
        driver.wait_semaphore(&gate, 1).unwrap();
        // The deadline passes when nothing runs any more.
        let outcome = driver.synchronize_until(Instant::now() + PATIENCE);
        assert_eq!(outcome, Ok(WaitOutcome::DeadlinePassed));
        gate.signal(1).unwrap();
        driver.close().unwrap();
    }

    /// Frees the memory. Nothing uses it any more.
    pub(crate) fn free(&self) {
        let host = HostAllocation { ..self.host };
        for one in &self.devices {
            // SAFETY: every queue has drained.
            self.freed(unsafe { one.device.memory().free(one.memory) });
        }
        // SAFETY: as above; it is freed here alone, once a world.
        self.freed(unsafe { self.device.host_memory().unwrap().free(host) });
    }

    fn freed(&self, answer: Result<(), DriverError>) {
        let is_due_to_loss =
            |error: DriverError| error.kind == ErrorKind::DeviceLost && self.is_lost.get();
        assert!(
            answer.is_ok() || answer.is_err_and(is_due_to_loss),
            "{answer:?}"
        );
    }
}

/// What the host's memory holds in the beginning: no two blocks the same, and nothing zero.
fn host_before() -> impl Iterator<Item = u8> {
    (0..HOST_BYTES).map(|byte| (byte / BLOCK * 37 + byte).to_le_bytes()[0] | 1)
}

/// The device that a byte is on.
pub(crate) fn device_of(byte: u64) -> usize {
    usize::try_from(byte / DEVICE_BYTES).unwrap()
}

/// Where a block of the pool begins.
pub(crate) fn block_at(block: usize) -> u64 {
    (block / BLOCKS) as u64 * DEVICE_BYTES + (block % BLOCKS) as u64 * BLOCK
}

/// Where an area of the `queue`-th stream begins on a device. It has them on each.
pub(crate) fn area_at(device: usize, queue: usize, which: usize) -> u64 {
    device as u64 * DEVICE_BYTES + (BLOCKS + queue * 3 + which) as u64 * BLOCK
}

fn pattern(tag: u32, index: u32) -> u32 {
    tag.wrapping_mul(0x9E37_79B9).rotate_left(index % 32) ^ index
}

fn module(log: &Log) -> SimModule {
    let small = {
        let log = Arc::clone(log);
        KernelDefinition::new("small", signature::<2>(), move |block| {
            step(&log, block, &block.value::<[u32; 2]>(5)?)
        })
    };
    let large = {
        let log = Arc::clone(log);
        KernelDefinition::new("large", signature::<128>(), move |block| {
            step(&log, block, &block.value::<[u32; 128]>(5)?)
        })
    };
    SimModule::new("m").with(small).with(large)
}

fn signature<const N: usize>() -> Signature {
    Signature::new([
        Parameter::write::<u32>(),
        Parameter::value::<u32>(),
        Parameter::value::<u32>(),
        Parameter::value::<u32>(),
        Parameter::value::<u32>(),
        Parameter::value::<[u32; N]>(),
    ])
}

/// What both kernels do: they look at what they were given, and leave their tag in some words of the block.
fn step(log: &Log, block: &Block<'_>, payload: &[u32]) -> Result<(), Fault> {
    let (tag, traps) = (block.value::<u32>(1)?, block.value::<u32>(2)?);
    let (first, count) = (block.value::<u32>(3)?, block.value::<u32>(4)?);
    let words = block.write::<u32>(0, 0..u64::from(WORDS))?;
    let mut found = [0; WORDS as usize];
    found.copy_from_slice(words);
    let is_whole = (0..)
        .zip(payload)
        .all(|(index, word)| *word == pattern(tag, index));
    log.lock().push(Entry::Start {
        tag,
        is_whole,
        found,
    });
    if traps == 0 {
        words[first as usize..][..count as usize].fill(tag);
    }
    log.lock().push(Entry::End { tag });
    if traps == 0 {
        Ok(())
    } else {
        Err(Fault::Trapped { code: TRAP })
    }
}
