//! What copies between simulated devices reach of a `memcpy` on this machine, in real time.
//!
//! Both ends are memory of this machine, so a `memcpy` from one block of it to another is all that can be had. All memory is touched
//! before. The three ways take turns and of each the quickest counts, so that what else runs disturbs them alike.

use std::time::{Duration, Instant};

use piton::{
    DeviceBuffer, Devices, Runtime, RuntimeConfig, Stream, TransferConfig,
    sim::{DeviceConfig, SimConfig},
};

use super::error::DemoError;

/// Bytes of a copy.
const BYTES: usize = 64 << 20;
/// How often each way is measured.
const TURNS: usize = 3;

/// How long copies of as many bytes took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copying {
    /// How many bytes each copied.
    pub bytes: u64,
    /// The host's own copy.
    pub memcpy: Duration,
    /// From one device's memory straight to the other's.
    pub straight: Duration,
    /// Through page-locked host memory.
    pub staged: Duration,
}

impl Copying {
    /// Measures them, on two devices of its own; takes some hundred milliseconds and as many MiB.
    ///
    /// # Errors
    /// [`DemoError`] if the runtime fails.
    pub fn measured() -> Result<Self, DemoError> {
        let (source, mut target) = (vec![1_u8; BYTES], vec![0_u8; BYTES]);
        let (mut straight, mut staged) = (Pair::new(true)?, Pair::new(false)?);
        let mut best = [Duration::MAX; 3];
        for _ in 0..TURNS {
            let started = Instant::now();
            target.copy_from_slice(std::hint::black_box(&source));
            std::hint::black_box(&mut target);
            let turn = [started.elapsed(), straight.copy()?, staged.copy()?];
            best = std::array::from_fn(|way| best[way].min(turn[way]));
        }
        let [memcpy, straight, staged] = best;
        Ok(Self {
            bytes: BYTES as u64,
            memcpy,
            straight,
            staged,
        })
    }

    /// Rates over that of the `memcpy`: straight, and staged.
    #[must_use]
    pub fn of_memcpy(&self) -> [f64; 2] {
        [self.straight, self.staged]
            .map(|copy| self.memcpy.as_secs_f64() / copy.as_secs_f64().max(f64::MIN_POSITIVE))
    }
}

/// Two devices with a block each.
struct Pair {
    stream: Stream,
    source: DeviceBuffer<u8>,
    target: DeviceBuffer<u8>,
}

impl Pair {
    fn new(are_peers: bool) -> Result<Self, DemoError> {
        let mut sim = SimConfig::uniform(2, &DeviceConfig::default());
        for link in &mut sim.links {
            link.allows_peer_access = are_peers;
        }
        let mut config = RuntimeConfig::on(Devices::Simulated(sim));
        config.transfers = Some(TransferConfig::one_way());
        let runtime = Runtime::new(config)?;
        let (from, to) = (runtime.device(0)?, runtime.device(1)?);
        let (filling, stream) = (from.stream("fill")?, to.stream("copy")?);
        let mut source = filling.allocate::<u8>(BYTES as u64)?;
        filling.fill(&mut source, 1)?;
        let target = stream.allocate::<u8>(BYTES as u64)?;
        let mut pair = Self {
            stream,
            source,
            target,
        };
        // The way is tried, and every page touched.
        pair.copy()?;
        Ok(pair)
    }

    fn copy(&mut self) -> Result<Duration, DemoError> {
        let started = Instant::now();
        self.stream.copy_peer(&self.source, &mut self.target)?;
        self.stream.synchronize()?;
        Ok(started.elapsed())
    }
}
