//! Plays the events of a trace through a pool.

#![expect(unsafe_code, reason = "vouches for waits of lanes that do nothing")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use piton_alloc::{
    AllocError, Allocation, DevicePool, FreeError, MemoryPool, MemoryPoolConfig, Planned,
    PoolSnapshot, PoolStats, Request, VirtualAddressing,
};
use piton_driver::{DeviceId, Driver};
use piton_sim::{Backing, DeviceConfig, FaultPlan, SimConfig, SimDevice, SimDriver, Trigger};
use piton_timeline::{Frontier, Timeline};

use crate::report::MemorySample;
use crate::trace::{CheckedEvent, TraceError, TraceEvent, TraceReader};

use super::checker::{Checker, Use};
use super::costs;
use super::lanes::Lanes;
use super::sampler::Sampler;
use super::{Placement, ReplayError, ReplayOptions};

/// Bytes of the simulated device's pages.
pub(super) const PAGE_BYTES: u64 = 2 << 20;
/// Events of a pool whose snapshot is wanted.
const SNAPSHOT_EVENTS: u32 = 1 << 20;
/// Events between two looks at the clock: enough that looking costs nothing.
const BATCH: usize = 4096;

/// What one pass came to.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Events played.
    pub events: u64,
    /// Allocations and frees that the pool served or refused.
    pub operations: u64,
    /// Allocations refused for want of memory; their frees are passed over.
    pub out_of_memory: u64,
    /// Allocations refused since a call to the driver was made to fail; their frees are passed over.
    pub faulted: u64,
    /// The pool's own counters at the end.
    pub pool: PoolStats,
    /// Most bytes the device had given away at once, as counted by the device.
    pub peak_held: u64,
    /// Allocations asked for.
    pub allocations: u64,
    /// Calls for device memory of either kind, as counted by the driver.
    pub driver_calls: u64,
    /// Seconds that they would take on a real device, by a model.
    pub modelled_seconds: f64,
    /// Memory over the events; empty for timed passes.
    pub samples: Vec<MemorySample>,
}

/// One pass that samples memory and, if asked, verifies every hand-out.
pub(super) fn observe(
    reader: TraceReader<'_>,
    options: &ReplayOptions,
) -> Result<Tally, ReplayError> {
    let mut player = Player::new(options)?;
    player.checker = options.is_checked.then(Checker::default);
    let mut sampler = Sampler::new();
    for event in reader {
        player.play(event?)?;
        let (live, held) = (player.live, player.device.memory_counters().held);
        sampler.record(MemorySample {
            at: player.tally.events,
            live,
            held,
        });
    }
    player.pool.check()?;
    Ok(Tally {
        samples: sampler.into_samples(),
        ..player.finish()
    })
}

/// One pass that remembers its events; what the pool is like at its end.
pub(super) fn play_to_snapshot(
    reader: TraceReader<'_>,
    options: &ReplayOptions,
) -> Result<PoolSnapshot, ReplayError> {
    let mut player = Player::with_events(options, SNAPSHOT_EVENTS)?;
    for event in reader {
        player.play(event?)?;
    }
    Ok(player.snapshot())
}

/// One pass that stops at the first refusal, if told to; what it came to.
pub(super) fn play_all(
    events: &[CheckedEvent],
    options: &ReplayOptions,
    stops: bool,
) -> Result<Tally, ReplayError> {
    let mut player = Player::new(options)?;
    for event in events {
        player.play(*event)?;
        if stops && player.tally.out_of_memory > 0 {
            break;
        }
    }
    Ok(player.finish())
}

/// One pass that does nothing else; returns nanoseconds per operation of the pool. Reading the trace is not counted, the
/// player's own work is: a look-up by index and two counters of a lane, some ten nanoseconds.
pub(super) fn time(
    mut reader: TraceReader<'_>,
    options: &ReplayOptions,
) -> Result<f64, ReplayError> {
    let mut player = Player::new(options)?;
    let mut batch = Vec::with_capacity(BATCH);
    let mut spent = Duration::ZERO;
    loop {
        batch.clear();
        let events: Result<(), TraceError> = reader.by_ref().take(BATCH).try_for_each(|event| {
            batch.push(event?);
            Ok(())
        });
        events?;
        if batch.is_empty() {
            break;
        }
        let started = Instant::now();
        for event in &batch {
            player.play(*event)?;
        }
        spent += started.elapsed();
    }
    #[expect(clippy::cast_precision_loss, reason = "operations stay far below 2^53")]
    let operations = player.tally.operations.max(1) as f64;
    Ok(spent.as_secs_f64() * 1e9 / operations)
}

pub(super) struct Player {
    driver: SimDriver,
    device: SimDevice,
    pool: Arc<DevicePool>,
    /// Stands around the pool, if steps are served from plans.
    planned: Option<Planned>,
    lanes: Lanes,
    /// Blocks by the trace's slots.
    blocks: Vec<Option<Block>>,
    checker: Option<Checker>,
    /// Bytes served and not freed, as requested.
    live: u64,
    tally: Tally,
}

struct Block {
    allocation: Allocation,
    /// Other streams that use it, each once.
    used_on: Vec<u16>,
}

impl Player {
    pub(super) fn new(options: &ReplayOptions) -> Result<Self, ReplayError> {
        Self::with_events(options, MemoryPoolConfig::default().events)
    }

    fn with_events(options: &ReplayOptions, events: u32) -> Result<Self, ReplayError> {
        let device = DeviceConfig {
            memory_bytes: options.device_bytes(),
            page_bytes: PAGE_BYTES,
            backing: Backing::Books,
            ..DeviceConfig::default()
        };
        let driver = SimDriver::new(SimConfig::uniform(1, &device))?;
        let opened = driver.open(DeviceId(0))?;
        let timeline = Timeline::new();
        let config = MemoryPoolConfig {
            events,
            ..pool_config(options)
        };
        let pool = DevicePool::on_device(opened, Arc::clone(&timeline), &config)?;
        // Sets the count of calls back too, from which failing ones are told.
        let failing = options.failing.numbers().map(Trigger::Call);
        driver.set_faults(failing.fold(FaultPlan::new(), FaultPlan::with));
        let device = driver
            .device(DeviceId(0))
            .ok_or(piton_sim::SimError::UnknownDevice {
                device: 0,
                count: 0,
            })?;
        Ok(Self {
            driver,
            device,
            pool: Arc::new(pool),
            planned: None,
            lanes: Lanes::new(timeline, options.lag),
            blocks: Vec::new(),
            checker: None,
            live: 0,
            tally: Tally::default(),
        })
    }

    /// With a pool that serves steps from plans, and lanes numbered as the trace's streams are, of which there are so many.
    pub(super) fn with_plans(options: &ReplayOptions, streams: u16) -> Result<Self, ReplayError> {
        let mut player = Self::new(options)?;
        player.lanes.prepare(streams)?;
        player.planned = Some(Planned::new(Arc::clone(&player.pool)));
        Ok(player)
    }

    pub(super) fn planned(&self) -> Option<&Planned> {
        self.planned.as_ref()
    }

    /// How many of the calls that were to fail have been made?
    pub(super) fn faults_met(&self) -> u64 {
        self.driver.faults_fired()
    }

    /// How many calls to the driver there were since the pool was made.
    pub(super) fn calls_made(&self) -> u64 {
        self.driver.calls().values().sum()
    }

    /// Do the pool's books balance?
    pub(super) fn check(&self) -> Result<(), ReplayError> {
        Ok(self.pool.check()?)
    }

    /// The pool's counters.
    pub(super) fn pool_stats(&self) -> PoolStats {
        self.pool.stats()
    }

    /// What the pool is like.
    pub(super) fn snapshot(&self) -> PoolSnapshot {
        self.pool.snapshot()
    }

    fn hand_out(&self, request: Request) -> Result<Allocation, AllocError> {
        match &self.planned {
            Some(planned) => planned.allocate(request),
            None => self.pool.allocate(request),
        }
    }

    fn take_back(&self, allocation: Allocation, uses: Frontier) -> Result<(), FreeError> {
        match &self.planned {
            Some(planned) => planned.free(allocation, uses),
            None => self.pool.free(allocation, uses),
        }
    }

    pub(super) fn play(&mut self, event: CheckedEvent) -> Result<(), ReplayError> {
        self.tally.events += 1;
        match event.event {
            TraceEvent::Allocate { bytes, stream, .. } => self.allocate(event.slot, bytes, stream),
            TraceEvent::Free { stream, .. } => self.free(event.slot, stream),
            TraceEvent::Use { stream, .. } => self.use_on(event.slot, stream),
        }
    }

    fn allocate(&mut self, slot: usize, bytes: u64, stream: u16) -> Result<(), ReplayError> {
        self.tally.operations += 1;
        self.tally.allocations += 1;
        if slot >= self.blocks.len() {
            self.blocks.resize_with(slot + 1, || None);
        }
        let lane = self.lanes.lane(stream)?;
        match self.hand_out(Request::new(bytes).on(lane)) {
            Ok(mut allocation) => {
                // The wait only orders, as a stream's does: the clock does not learn of it, and what is needed again is
                // waited for again.
                self.verify_hand_out(&allocation, stream)?;
                for place in self.lanes.now([stream].into_iter()).points() {
                    // SAFETY: a trace's work touches no memory, and ends in the order it was submitted in on whatever lane: what
                    // is waited for before this place.
                    unsafe { allocation.assume_waited(*place) };
                }
                self.live += bytes;
                self.blocks[slot] = Some(Block {
                    allocation,
                    used_on: Vec::new(),
                });
            }
            Err(AllocError::FullNow(_) | AllocError::NeverFits { .. }) => {
                self.tally.out_of_memory += 1;
                self.blocks[slot] = None;
            }
            Err(AllocError::Driver(_)) if self.faults_met() > 0 => {
                self.tally.faulted += 1;
                self.blocks[slot] = None;
            }
            Err(error) => {
                return Err(ReplayError::Allocate {
                    event: self.tally.events,
                    error,
                });
            }
        }
        self.work(stream)
    }

    fn free(&mut self, slot: usize, stream: u16) -> Result<(), ReplayError> {
        self.work(stream)?;
        let Some(block) = self.blocks.get_mut(slot).and_then(Option::take) else {
            return Ok(());
        };
        self.tally.operations += 1;
        self.live -= block.allocation.bytes();
        let uses = self.lanes.now(block.used_on.into_iter().chain([stream]));
        self.verify_give_back(&block.allocation, &uses)?;
        let event = self.tally.events;
        self.take_back(block.allocation, uses)
            .map_err(|error| ReplayError::Free {
                event,
                error: error.kind,
            })
    }

    fn use_on(&mut self, slot: usize, stream: u16) -> Result<(), ReplayError> {
        self.lanes.lane(stream)?;
        if let Some(Some(block)) = self.blocks.get_mut(slot)
            && !block.used_on.contains(&stream)
        {
            block.used_on.push(stream);
        }
        self.work(stream)
    }

    fn work(&mut self, stream: u16) -> Result<(), ReplayError> {
        let completed = self.lanes.work(stream)?;
        if let (Some(checker), Some((stream, number))) = (&mut self.checker, completed) {
            checker.complete(Use { stream, number });
        }
        Ok(())
    }

    fn verify_hand_out(&mut self, allocation: &Allocation, stream: u16) -> Result<(), ReplayError> {
        let Some(checker) = &mut self.checker else {
            return Ok(());
        };
        let number = uses(&self.lanes, &self.lanes.now([stream].into_iter()))
            .first()
            .map_or(0, |used| used.number);
        for awaited in uses(&self.lanes, allocation.wait()) {
            checker.wait(stream, number, awaited);
        }
        let (start, bytes) = (allocation.ptr().address(), allocation.rounded_bytes());
        let event = self.tally.events;
        let handed = checker.hand_out(start, bytes, Use { stream, number });
        handed.map_err(|violation| ReplayError::Violation { event, violation })
    }

    fn verify_give_back(
        &mut self,
        allocation: &Allocation,
        last: &Frontier,
    ) -> Result<(), ReplayError> {
        let Some(checker) = &mut self.checker else {
            return Ok(());
        };
        let event = self.tally.events;
        let given = checker.give_back(allocation.ptr().address(), uses(&self.lanes, last));
        given.map_err(|violation| ReplayError::Violation { event, violation })
    }

    pub(super) fn finish(self) -> Tally {
        Tally {
            pool: self.pool.stats(),
            peak_held: self.device.memory_counters().peak_held,
            driver_calls: costs::calls(&self.driver),
            modelled_seconds: costs::seconds(&self.driver),
            ..self.tally
        }
    }
}

fn uses(lanes: &Lanes, points: &Frontier) -> Vec<Use> {
    let of = points
        .points()
        .iter()
        .filter_map(|point| lanes.stream_of(*point));
    of.map(|(stream, number)| Use { stream, number }).collect()
}

/// How all traces are replayed: the default, but for where memory lies and what the options say.
pub(super) fn pool_config(options: &ReplayOptions) -> MemoryPoolConfig {
    MemoryPoolConfig {
        virtual_addressing: match options.placement {
            Placement::Virtual => VirtualAddressing::On,
            Placement::Blocks => VirtualAddressing::Off,
        },
        search: options.search,
        cross_lane: options.cross_lane,
        release_threshold: if options.keeps { options.capacity } else { 0 },
        ..MemoryPoolConfig::default()
    }
}
