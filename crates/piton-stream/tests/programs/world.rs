//! The machine a program runs on, its memory, and a log of what really ran, written by the kernels themselves.

#![expect(unsafe_code, reason = "launches and frees device memory")]

use crate::{program::Program, watched::WatchedDevice};
use piton_driver::{
    Device, DeviceId, DevicePtr, Driver, Fault, Grid, Kernel, Launch, ModuleImage, Parameter,
    Signature, WaitOutcome,
};
use piton_sim::{Block, DeviceConfig, KernelDefinition, SimConfig, SimDriver, SimModule};
use piton_stream::{Semaphore, Stream, StreamError, StreamOptions, Streams, Submission};
use piton_sync::Mutex;
use piton_timeline::Timeline;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Words of a block of the pool.
const WORDS: u64 = 16;
/// Blocks of the pool.
pub(crate) const BLOCKS: usize = 5;
/// Words that are no part of a block: each stream has two areas to fill and copy, and one word to write.
const OTHERS: u64 = 8192;
pub(crate) const TRAP: u32 = 7;
/// Longer than any machine takes: a wait that gets there has been lost, and is to fail and not to hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Something that happened, in an order that agrees with what came before what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A kernel or host function began. A kernel says whether its arguments and its block were whole, and what was in
    /// the block.
    Start {
        tag: u32,
        is_whole: bool,
        found: u32,
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
    pub(crate) device: Arc<dyn Device>,
    pub(crate) watched: Arc<WatchedDevice>,
    pub(crate) log: Log,
    pub(crate) is_virtual: bool,
    kernels: [Arc<dyn Kernel>; 2],
    memory: DevicePtr,
    _driver: SimDriver,
}

/// A small machine.
pub(crate) fn config(program: &Program) -> SimConfig {
    let device = DeviceConfig {
        memory_bytes: 1 << 20,
        page_bytes: 64 << 10,
        hardware_queues: program.hardware_queues,
        ..DeviceConfig::default()
    };
    SimConfig::uniform(1, &device)
}

impl World {
    pub(crate) fn new(config: SimConfig) -> Self {
        let is_virtual = config.workers.is_none();
        let driver = SimDriver::new(config).unwrap();
        let log = Log::default();
        driver.register(module(&log));
        let watched = Arc::new(WatchedDevice::new(driver.open(DeviceId(0)).unwrap()));
        let device: Arc<dyn Device> = watched.clone();
        let module = device.kernels().load(ModuleImage::Registered("m")).unwrap();
        let bytes = (BLOCKS as u64 * WORDS + OTHERS) * 4;
        Self {
            streams: Streams::new(Timeline::new()),
            kernels: ["small", "large"].map(|name| module.kernel(name).unwrap()),
            memory: device.memory().allocate(bytes).unwrap(),
            device,
            watched,
            log,
            is_virtual,
            _driver: driver,
        }
    }

    pub(crate) fn note(&self, entry: Entry) {
        self.log.lock().push(entry);
    }

    pub(crate) fn block(&self, block: usize) -> DevicePtr {
        self.memory.checked_add(block as u64 * WORDS * 4).unwrap()
    }

    /// What the `queue`-th stream fills, copies to, and its word: areas of 64 bytes.
    pub(crate) fn area(&self, queue: usize, which: usize) -> DevicePtr {
        let area = (BLOCKS + queue * 3 + which) as u64;
        self.memory.checked_add(area * WORDS * 4).unwrap()
    }

    /// Launches a kernel with arguments that are overwritten as soon as it is taken.
    pub(crate) fn launch(
        &self,
        stream: &Stream,
        block: usize,
        tag: u32,
        (is_large, traps): (bool, bool),
    ) -> Result<Submission, StreamError> {
        let words = if is_large { 128 } else { 2 };
        let mut arguments = self.block(block).address().to_ne_bytes().to_vec();
        arguments.extend(tag.to_ne_bytes());
        arguments.extend(u32::from(traps).to_ne_bytes());
        for index in 0..words {
            arguments.extend(pattern(tag, index).to_ne_bytes());
        }
        let kernel = &self.kernels[usize::from(is_large)];
        // SAFETY: the block is the stream's by the pool's books, and memory lives until everything has ended.
        let taken = unsafe { stream.try_launch(Launch::new(kernel, Grid::linear(1), &arguments)) };
        arguments.fill(0xEE);
        taken
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
        // SAFETY: every queue has drained.
        unsafe { self.device.memory().free(self.memory) }.unwrap();
    }
}

fn pattern(tag: u32, index: u32) -> u32 {
    tag.wrapping_mul(0x9E37_79B9).rotate_left(index % 32) ^ index
}

fn module(log: &Log) -> SimModule {
    let small = {
        let log = Arc::clone(log);
        KernelDefinition::new("small", signature::<2>(), move |block| {
            step(&log, block, &block.value::<[u32; 2]>(3)?)
        })
    };
    let large = {
        let log = Arc::clone(log);
        KernelDefinition::new("large", signature::<128>(), move |block| {
            step(&log, block, &block.value::<[u32; 128]>(3)?)
        })
    };
    SimModule::new("m").with(small).with(large)
}

fn signature<const N: usize>() -> Signature {
    Signature::new([
        Parameter::write::<u32>(),
        Parameter::value::<u32>(),
        Parameter::value::<u32>(),
        Parameter::value::<[u32; N]>(),
    ])
}

/// What both kernels do: they look at what they were given, and leave their tag in every word of the block.
fn step(log: &Log, block: &Block<'_>, payload: &[u32]) -> Result<(), Fault> {
    let (tag, traps) = (block.value::<u32>(1)?, block.value::<u32>(2)?);
    let words = block.write::<u32>(0, 0..WORDS)?;
    let found = words[0];
    let is_whole = words.iter().all(|word| *word == found)
        && (0..)
            .zip(payload)
            .all(|(index, word)| *word == pattern(tag, index));
    log.lock().push(Entry::Start {
        tag,
        is_whole,
        found,
    });
    if traps == 0 {
        words.fill(tag);
    }
    log.lock().push(Entry::End { tag });
    if traps == 0 {
        Ok(())
    } else {
        Err(Fault::Trapped { code: TRAP })
    }
}
