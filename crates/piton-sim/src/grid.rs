//! One launch under way: its blocks, run by whichever threads are free.
//!
//! The launch lies on the stack of the thread that runs the queue, its *owner*. Others that are free help: they see it
//! through the engine's list of offers, from which the owner takes it before it goes.
//!
//! # Protocol
//! Which blocks are claimed and how many have ended is the `tally`'s, and so is how long the owner stays.
//! `participants` only bounds how many threads run blocks at once: it orders nothing, and a thread that finds enough
//! others leaves.
//!
//! An abort is looked at before each block but the first, so a launch of many ends with those that have started, and one
//! that is said to have started has.

use crate::{
    block::Block,
    claims::Claims,
    device::SimDevice,
    kernel::SimKernel,
    tally::{Bell, BlockTally},
};
use piton_driver::{ErrorKind, Fault, Grid, shield};
use piton_sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A grid of blocks being run.
#[derive(Debug)]
pub(crate) struct GridJob<'a> {
    pub(crate) kernel: &'a SimKernel,
    pub(crate) device: &'a SimDevice,
    pub(crate) grid: Grid,
    pub(crate) arguments: &'a [u8],
    pub(crate) claims: Claims,
    tally: BlockTally,
    participants: AtomicU32,
    limit: u32,
    position: u64,
    aborted: &'a AtomicU64,
}

impl<'a> GridJob<'a> {
    /// `limit` is how many threads may run blocks at once: the cores the queue may use. The launch is aborted when
    /// `aborted` reaches `position`.
    pub(crate) fn new(
        (kernel, device): (&'a SimKernel, &'a SimDevice),
        grid: Grid,
        arguments: &'a [u8],
        limit: u32,
        (position, aborted): (u64, &'a AtomicU64),
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
            position,
            aborted,
        }
    }

    /// How many more threads could be of use.
    pub(crate) fn wanted(&self) -> u64 {
        let left = self.tally.unclaimed();
        let present = self.participants.load(Ordering::Relaxed);
        left.min(u64::from(self.limit.saturating_sub(present)))
    }

    /// Whether somebody wants the launch to end early.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Relaxed) >= self.position
    }

    /// Runs blocks until none is left to claim. Returns at once where enough threads are at it.
    pub(crate) fn take_part(&self) {
        if self.participants.fetch_add(1, Ordering::Relaxed) < self.limit {
            while let Some(number) = self.tally.claim() {
                if let Err(kind) = self.run_block(number) {
                    self.tally.fail(kind);
                }
            }
        }
        self.participants.fetch_sub(1, Ordering::Relaxed);
    }

    /// Runs all blocks on this thread alone, up to the first that fails. The launch was never on offer.
    pub(crate) fn run_alone(&self) -> Result<(), ErrorKind> {
        (0..self.grid.blocks().unwrap_or(0)).try_for_each(|number| self.run_block(number))
    }

    /// Another thread is about to help; the launch is still on offer.
    pub(crate) fn enter(&self) {
        self.tally.enter();
    }

    /// It is done. The launch may be gone when this returns.
    pub(crate) fn leave(&self, bell: &Bell) {
        self.tally.leave(bell);
    }

    /// Waits for the blocks that other threads still run; returns the first failure. The launch is not on offer.
    pub(crate) fn finish(&self, bell: &Bell) -> Result<(), ErrorKind> {
        self.tally.wait(bell)
    }

    /// Runs a block, unless the launch is aborted. The first always runs: the launch has started.
    fn run_block(&self, number: u64) -> Result<(), ErrorKind> {
        if number > 0 && self.is_aborted() {
            return Err(ErrorKind::Aborted);
        }
        let block = Block::new(self, number);
        let outcome = shield::run(|| self.kernel.definition.run(&block));
        outcome
            .unwrap_or(Err(Fault::Panicked))
            .map_err(ErrorKind::KernelFault)
    }
}
