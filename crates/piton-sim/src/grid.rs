//! One launch under way: its blocks, run by whichever threads are free.
//!
//! # Protocol
//! Which blocks are claimed and how many have ended is the `tally`'s. `participants` only bounds how many threads
//! run blocks at once: it orders nothing, and a thread that finds enough others leaves.

use crate::{
    block::Block, claims::Claims, device::SimDevice, kernel::SimKernel, tally::BlockTally,
};
use piton_driver::{Fault, Grid};
use piton_sync::atomic::{AtomicU32, Ordering};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// A grid of blocks being run.
#[derive(Debug)]
pub(crate) struct GridJob {
    pub(crate) kernel: Arc<SimKernel>,
    pub(crate) device: SimDevice,
    pub(crate) grid: Grid,
    pub(crate) arguments: Box<[u8]>,
    pub(crate) claims: Claims,
    tally: BlockTally,
    participants: AtomicU32,
    limit: u32,
}

impl GridJob {
    /// `limit` is how many threads may run blocks at once: the cores the queue may use.
    pub(crate) fn new(
        kernel: Arc<SimKernel>,
        device: SimDevice,
        grid: Grid,
        arguments: Box<[u8]>,
        limit: u32,
    ) -> Self {
        Self {
            kernel,
            device,
            grid,
            arguments,
            claims: Claims::default(),
            tally: BlockTally::new(grid.blocks().unwrap_or(0)),
            participants: AtomicU32::new(0),
            limit,
        }
    }

    /// How many more threads could be of use.
    pub(crate) fn wanted(&self) -> u64 {
        let left = self.tally.unclaimed();
        let present = self.participants.load(Ordering::Relaxed);
        left.min(u64::from(self.limit.saturating_sub(present)))
    }

    /// Runs blocks until none is left to claim. Returns at once where enough threads are at it.
    pub(crate) fn take_part(&self) {
        if self.participants.fetch_add(1, Ordering::Relaxed) < self.limit {
            while let Some(number) = self.tally.claim() {
                self.run_block(number);
            }
        }
        self.participants.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits for the blocks that other threads still run; returns the first fault.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        self.tally.wait()
    }

    fn run_block(&self, number: u64) {
        if self.tally.has_fault() {
            return self.tally.finish_one(Ok(()));
        }
        let block = Block::new(self, number);
        let body = AssertUnwindSafe(|| self.kernel.definition.run(&block));
        let result = catch_unwind(body).unwrap_or(Err(Fault::Panicked));
        self.tally.finish_one(result);
    }
}
