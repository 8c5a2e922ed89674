//! One launch under way: its blocks, run by whichever threads are free.
//!
//! # Protocol
//! Blocks are claimed by `fetch_add` on `next`. A participant adds to `finished` (AcqRel) after each block; the
//! owner, which runs blocks too, waits under `all_done` until `finished` equals the number of blocks, so it sees
//! what every block wrote before the launch is said to have ended.

use crate::{block::Block, claims::Claims, device::SimDevice, kernel::SimKernel};
use piton_driver::{Fault, Grid};
use piton_sync::{
    Condvar, Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};
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
    blocks: u64,
    next: AtomicU64,
    finished: AtomicU64,
    participants: AtomicU32,
    limit: u32,
    fault: Mutex<Option<Fault>>,
    all_done: Condvar,
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
            blocks: grid.blocks().unwrap_or(0),
            next: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            participants: AtomicU32::new(0),
            limit,
            fault: Mutex::new(None),
            all_done: Condvar::new(),
        }
    }

    /// How many more threads could be of use.
    pub(crate) fn wanted(&self) -> u64 {
        let left = self
            .blocks
            .saturating_sub(self.next.load(Ordering::Relaxed));
        let present = self.participants.load(Ordering::Relaxed);
        left.min(u64::from(self.limit.saturating_sub(present)))
    }

    /// Runs blocks until none is left to claim. Returns at once where enough threads are at it.
    pub(crate) fn take_part(&self) {
        if self.participants.fetch_add(1, Ordering::Relaxed) < self.limit {
            while let Some(number) = self.claim() {
                self.run_block(number);
            }
        }
        self.participants.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits for the blocks that other threads still run; returns the first fault.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        let mut fault = self.fault.lock();
        while self.finished.load(Ordering::Acquire) < self.blocks {
            self.all_done.wait(&mut fault);
        }
        fault.map_or(Ok(()), Err)
    }

    fn claim(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.blocks).then_some(number)
    }

    fn run_block(&self, number: u64) {
        let is_running = self.fault.lock().is_none();
        if is_running {
            let block = Block::new(self, number);
            let body = AssertUnwindSafe(|| self.kernel.definition.run(&block));
            let result = catch_unwind(body).unwrap_or(Err(Fault::Panicked));
            if let Err(fault) = result {
                self.fault.lock().get_or_insert(fault);
            }
        }
        if self.finished.fetch_add(1, Ordering::AcqRel) + 1 == self.blocks {
            let fault = self.fault.lock();
            self.all_done.notify_all();
            drop(fault);
        }
    }
}
