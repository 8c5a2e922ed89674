//! Random programs of hosts and devices against a plain model: who owns which bytes, and who may look at them.

#![cfg(not(loom))]
#![expect(
    unsafe_code,
    reason = "the test plays the device, which writes through raw pointers"
)]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

mod fake;

use fake::{Ability, FakeDevice};
use piton_pinned::{
    Leftovers, PinnedBlock, PinnedClassStats, PinnedError, PinnedPool, PinnedPoolConfig,
};
use piton_timeline::{Lane, Timeline};
use proptest::prelude::*;
use std::{ops::Range, ptr::NonNull, sync::Arc};

const LANES: usize = 3;
const CAP: u64 = 256 << 10;

#[derive(Clone, Debug)]
enum Step {
    Allocate { bytes: usize, alignment: usize },
    Drop(usize),
    Read { block: usize, lane: usize },
    Write { block: usize, lane: usize },
    Complete { lane: usize, more: u64 },
    HostWrite(usize, u8),
    Collect,
    Trim(u64),
    FailAt(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![
        6 => 0usize..5_000,
        3 => 5_000usize..40_000,
        1 => Just(usize::MAX),
        1 => 0usize..300_000,
    ];
    let alignment =
        prop_oneof![6 => Just(1usize), 1 => (0u32..14).prop_map(|bits| 1 << bits), 1 => 0usize..9];
    prop_oneof![
        8 => (bytes, alignment).prop_map(|(bytes, alignment)| Step::Allocate { bytes, alignment }),
        6 => (0..64usize).prop_map(Step::Drop),
        3 => (0..64usize, 0..LANES).prop_map(|(block, lane)| Step::Read { block, lane }),
        4 => (0..64usize, 0..LANES).prop_map(|(block, lane)| Step::Write { block, lane }),
        4 => (0..LANES, 1..5u64).prop_map(|(lane, more)| Step::Complete { lane, more }),
        4 => (0..64usize, any::<u8>()).prop_map(|(block, value)| Step::HostWrite(block, value)),
        1 => Just(Step::Collect),
        1 => (0..2 * CAP).prop_map(Step::Trim),
        1 => (1..3u64).prop_map(Step::FailAt),
    ]
}

/// A device use: which lane, its number there, and what it writes if it does.
#[derive(Clone, Copy, Debug)]
struct Use {
    lane: usize,
    n: u64,
    writes: Option<u8>,
}

/// Bytes somebody may be using: a block that is out, or one that was dropped under a device.
struct Owned {
    start: NonNull<u8>,
    bytes: usize,
    capacity: usize,
    uses: Vec<Use>,
    /// What every byte holds, once somebody wrote it.
    value: Option<u8>,
    block: Option<PinnedBlock>,
}

impl Owned {
    fn range(&self) -> Range<usize> {
        let start = self.start.addr().get();
        start..start + self.capacity
    }
}

struct Machine {
    device: Arc<FakeDevice>,
    pool: PinnedPool,
    leftovers: Leftovers,
    lanes: Vec<Lane>,
    submitted: [u64; LANES],
    done: [u64; LANES],
    owned: Vec<Owned>,
}

impl Machine {
    fn new() -> Self {
        let device = FakeDevice::new(Ability::default());
        let timeline = Timeline::new();
        let config = PinnedPoolConfig {
            cap_bytes: CAP,
            slab_bytes: 64 << 10,
            large_above_bytes: 16 << 10,
            queue_blocks: 2,
            magazine_bytes: 8 << 10,
            ..PinnedPoolConfig::default()
        };
        let pool = PinnedPool::new(device.clone(), timeline.clone(), config).unwrap();
        Self {
            device,
            leftovers: pool.leftovers(),
            pool,
            lanes: (0..LANES)
                .map(|_| timeline.register(None).unwrap())
                .collect(),
            submitted: [0; LANES],
            done: [0; LANES],
            owned: Vec::new(),
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Allocate { bytes, alignment } => self.allocate(bytes, alignment),
            Step::Drop(block) => self.drop_block(block),
            Step::Read { block, lane } => self.device_use(block, lane, false),
            Step::Write { block, lane } => self.device_use(block, lane, true),
            Step::Complete { lane, more } => self.complete(lane, more),
            Step::HostWrite(block, value) => self.host_write(block, value),
            Step::Collect => self.pool.collect(),
            Step::Trim(keep) => {
                self.pool.trim(keep);
            }
            Step::FailAt(call) => self.device.fail_at(call),
        }
    }

    fn allocate(&mut self, bytes: usize, alignment: usize) {
        let fails = self.pool.stats().failures;
        let block = match self.pool.allocate_aligned(bytes, alignment) {
            Ok(block) => block,
            Err(error) => return self.check_refusal(bytes, alignment, &error, fails),
        };
        let start = block.as_ptr();
        let capacity = usize::try_from(block.capacity()).unwrap();
        let slack = capacity - bytes;
        let is_whole_pages = bytes > 16 << 10 && capacity == bytes.next_multiple_of(4096);
        assert!(slack < 64 || slack <= bytes / 4 || is_whole_pages);
        assert!(start.addr().get().is_multiple_of(alignment.max(64)));
        assert_eq!(block.bytes(), bytes);
        let owned = Owned {
            start,
            bytes,
            capacity,
            uses: Vec::new(),
            value: None,
            block: Some(block),
        };
        let range = owned.range();
        for other in &self.owned {
            let other = other.range();
            assert!(
                range.end <= other.start || other.end <= range.start,
                "{range:?} was handed out while {other:?} is in use"
            );
        }
        self.owned.push(owned);
    }

    fn check_refusal(&self, bytes: usize, alignment: usize, error: &PinnedError, fails: u64) {
        match error {
            PinnedError::InvalidSize { .. } => {
                assert!(bytes == 0 || bytes > isize::MAX as usize - 4096);
            }
            PinnedError::InvalidAlignment { .. } => {
                assert!(!alignment.is_power_of_two() || alignment > 4096);
            }
            PinnedError::CapReached {
                cap,
                held,
                live,
                pending,
                ..
            } => {
                assert_eq!(*cap, CAP);
                assert!(live + pending <= *held && *held <= CAP);
                assert_eq!(self.pool.stats().failures, fails + 1);
                // What nobody had anything of had been given back to make room.
                assert_eq!(self.pool.trim(0), 0, "{error}");
            }
            PinnedError::Driver(_) => assert!(self.device.end_plan()),
            other => panic!("{other}"),
        }
    }

    fn pick(&self, block: usize) -> Option<usize> {
        let live: Vec<usize> = (0..self.owned.len())
            .filter(|index| self.owned[*index].block.is_some())
            .collect();
        (!live.is_empty()).then(|| live[block % live.len()])
    }

    fn drop_block(&mut self, block: usize) {
        if let Some(index) = self.pick(block) {
            self.owned[index].block = None;
            self.forget_unused();
        }
    }

    /// Bytes of a dropped block are nobody's when no device uses them.
    fn forget_unused(&mut self) {
        let done = self.done;
        self.owned
            .retain(|owned| owned.block.is_some() || owned.uses.iter().any(|u| u.n > done[u.lane]));
    }

    fn device_use(&mut self, block: usize, lane: usize, is_write: bool) {
        let Some(index) = self.pick(block) else {
            return;
        };
        self.submitted[lane] += 1;
        let n = self.submitted[lane];
        let point = self.lanes[lane].submit(n);
        let owned = &mut self.owned[index];
        let block = owned.block.as_mut().unwrap();
        if is_write {
            block.record_write(point);
        } else {
            block.record_read(point);
        }
        let writes = is_write.then_some((n % 251) as u8);
        owned.uses.push(Use { lane, n, writes });
    }

    /// The device does what it was asked, then says so.
    fn complete(&mut self, lane: usize, more: u64) {
        let to = (self.done[lane] + more).min(self.submitted[lane]);
        for n in self.done[lane] + 1..=to {
            for owned in &mut self.owned {
                let found = owned.uses.iter().find(|u| u.lane == lane && u.n == n);
                let Some(value) = found.and_then(|u| u.writes) else {
                    continue;
                };
                // SAFETY: the block's memory is held for as long as the use is not complete: that is
                // what the test is about. No reference to it exists.
                unsafe { owned.start.write_bytes(value, owned.bytes) };
                owned.value = Some(value);
            }
        }
        self.lanes[lane].complete(to);
        self.done[lane] = to;
        self.forget_unused();
    }

    fn host_write(&mut self, block: usize, value: u8) {
        let Some(index) = self.pick(block) else {
            return;
        };
        let owned = &mut self.owned[index];
        if let Ok(bytes) = owned.block.as_mut().unwrap().try_as_mut_slice() {
            bytes.fill(value);
            owned.value = Some(value);
        }
    }

    fn check(&mut self) {
        self.pool.check().unwrap();
        let stats = self.pool.stats();
        let live: usize = self
            .owned
            .iter()
            .filter(|o| o.block.is_some())
            .map(|o| o.capacity)
            .sum();
        let under_device: usize = self
            .owned
            .iter()
            .filter(|o| o.block.is_none())
            .map(|o| o.capacity)
            .sum();
        assert_eq!(stats.live_bytes, live as u64);
        let classes = self.pool.class_stats();
        let sum = |of: fn(&PinnedClassStats) -> u64| classes.iter().map(of).sum::<u64>();
        assert_eq!(sum(|class| class.live_blocks), stats.live_blocks);
        let live = self.owned.iter().filter(|o| o.block.is_some());
        let asked: usize = live.map(|o| o.bytes).sum();
        assert_eq!(sum(|class| class.requested_bytes), asked as u64);
        assert!(stats.pending_bytes >= under_device as u64);
        assert!(stats.held_bytes <= CAP);
        assert_eq!(
            stats.held_bytes + stats.leaked_bytes,
            self.device.allocated_bytes()
        );
        let done = self.done;
        for owned in &mut self.owned {
            check_access(owned, done);
        }
    }

    /// Everything goes, blocks first or pool first, with devices at work; then the devices finish.
    fn end(mut self, is_pool_first: bool) {
        self.device.end_plan();
        let leaked = self.pool.stats().leaked_bytes;
        let pool = self.pool;
        let pool = if is_pool_first {
            drop(pool);
            None
        } else {
            Some(pool)
        };
        self.owned.iter_mut().for_each(|owned| owned.block = None);
        drop(pool);
        let done = self.done;
        self.owned
            .retain(|owned| owned.uses.iter().any(|u| u.n > done[u.lane]));
        let waiting: usize = self.owned.iter().map(|owned| owned.capacity).sum();
        assert!(self.leftovers.bytes() >= waiting as u64);
        assert_eq!(
            self.leftovers.bytes() + leaked,
            self.device.allocated_bytes()
        );
        for owned in &self.owned {
            // SAFETY: the device still uses it, so it is still there.
            unsafe { owned.start.write_bytes(1, owned.bytes) };
        }
        for (lane, submitted) in self.lanes.iter().zip(self.submitted) {
            lane.complete(submitted);
        }
        assert_eq!(self.leftovers.sweep(), 0);
        assert_eq!(self.device.allocated_bytes(), leaked);
    }
}

fn check_access(owned: &mut Owned, done: [u64; LANES]) {
    let Some(block) = owned.block.as_mut() else {
        return;
    };
    let is_pending = |u: &&Use| u.n > done[u.lane];
    let is_used = owned.uses.iter().any(|u| is_pending(&u));
    let is_written = owned
        .uses
        .iter()
        .any(|u| is_pending(&u) && u.writes.is_some());
    assert_eq!(block.try_as_mut_slice().is_err(), is_used);
    match block.try_as_slice() {
        Ok(bytes) => {
            assert!(!is_written);
            assert_eq!(bytes.len(), owned.bytes);
            if let Some(value) = owned.value {
                assert!(bytes.iter().all(|byte| *byte == value));
            }
        }
        Err(PinnedError::InUse { pending }) => assert!(is_written && !pending.is_empty()),
        Err(other) => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bytes_have_one_owner_and_devices_are_waited_for(
        steps in prop::collection::vec(step(), 0..120),
        is_pool_first in any::<bool>(),
    ) {
        let mut machine = Machine::new();
        for step in &steps {
            machine.apply(step);
            machine.check();
        }
        machine.end(is_pool_first);
    }
}
