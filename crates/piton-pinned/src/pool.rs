//! The pool, as a program holds it.

use crate::{
    Keeper, Leftovers, PinnedBlock, PinnedClassStats, PinnedError, PinnedInconsistency,
    PinnedPoolConfig, PinnedStats, PinnedThreadStats, Refused, RegisteredMemory, Staging, Tended,
    check,
    core::{self, Core},
    long_way,
    request::Request,
    short_way,
    source::Source,
    thread_cache,
    tickets::Ticket,
};
use bytemuck::Pod;
use piton_driver::{Device, HostMemoryOptions};
use piton_timeline::Timeline;
use std::{io, sync::Arc, time::Duration};

/// A pool of page-locked host memory for one device.
///
/// A handle: clones are the same pool. Every method may be called from any thread. Nothing waits for a device; what
/// may block on the driver says so.
#[derive(Clone, Debug)]
pub struct PinnedPool {
    handle: Arc<Handle>,
}

/// What the handles share: the pool is closed when it goes.
#[derive(Debug)]
struct Handle {
    core: Ticket<Core>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.core.timeline.is_forked() {
            core::close(&self.core);
        }
    }
}

impl PinnedPool {
    /// A pool over the host memory of `device`. Asks the driver for nothing yet.
    ///
    /// # Errors
    /// [`PinnedError::NoHostMemory`] if the device has none; what [`PinnedPoolConfig::validate`] says of `config`.
    pub fn new(
        device: Arc<dyn Device>,
        timeline: Arc<Timeline>,
        config: PinnedPoolConfig,
    ) -> Result<Self, PinnedError> {
        Self::with_leftovers(device, timeline, config, Leftovers::new())
    }

    /// As [`new`](Self::new), with a place for memory that a device still uses when the pool's last handle goes.
    /// The pool also frees what earlier pools left there, before it asks its driver for more.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_leftovers(
        device: Arc<dyn Device>,
        timeline: Arc<Timeline>,
        config: PinnedPoolConfig,
        leftovers: Leftovers,
    ) -> Result<Self, PinnedError> {
        config.validate()?;
        let options = HostMemoryOptions {
            locking: config.locking,
            numa_node: config.numa_node,
        };
        let source = Source::new(device, options, config.pages)?;
        let core = Ticket::new(Core::new(source, timeline, config, leftovers)?);
        let handle = Arc::new(Handle { core });
        Ok(Self { handle })
    }

    /// A block of at least `bytes` bytes at a multiple of 64. Blocks on the driver when nothing the pool holds
    /// fits.
    ///
    /// # Errors
    /// [`PinnedError::InvalidSize`], [`PinnedError::CapReached`], [`PinnedError::NodeRefused`], [`PinnedError::Driver`]. In a
    /// fork of the process, nothing is had. That the device is lost is told where neither the thread nor the depot
    /// has a block: what they have is host memory, as good as before.
    // Always: what it does is less than what a call of it would save and restore, and the handle would go through memory.
    #[inline(always)]
    pub fn allocate(&self, bytes: usize) -> Result<PinnedBlock, PinnedError> {
        let block = match short_way::take(self.core(), bytes) {
            Some(block) => block,
            None => self.allocate_slowly(bytes)?,
        };
        Ok(block)
    }

    /// As [`allocate`](Self::allocate), where the short way ends.
    #[cold]
    fn allocate_slowly(&self, bytes: usize) -> Result<PinnedBlock, PinnedError> {
        self.allocate_aligned(bytes, 1)
    }

    /// As [`allocate`](Self::allocate), at a multiple of `alignment` bytes: a power of two up to 4096. More than 64
    /// passes the free lists by.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), and [`PinnedError::InvalidAlignment`].
    pub fn allocate_aligned(
        &self,
        bytes: usize,
        alignment: usize,
    ) -> Result<PinnedBlock, PinnedError> {
        if self.core().timeline.is_forked() {
            return Err(self.core().source.refuse_in_fork());
        }
        let request = Request::new(bytes, alignment, &self.core().config)?;
        let taken = long_way::take(self.core(), &request)?;
        Ok(PinnedBlock::new(taken, request.label()))
    }

    /// Bytes that a block for a request of `bytes` bytes has.
    ///
    /// # Errors
    /// [`PinnedError::InvalidSize`].
    pub fn rounded(&self, bytes: usize) -> Result<usize, PinnedError> {
        let request = Request::new(bytes, 1, self.config())?;
        // A size class may be larger than what was asked for, but no larger than memory can be.
        Ok(usize::try_from(request.bytes).unwrap_or(usize::MAX))
    }

    /// Makes memory the program owns usable in copies of the device, until the guard is dropped: a `Vec` or a boxed slice. It
    /// stays where it is, but for a `Vec` with room to spare, which gives that up first. May block on the driver.
    ///
    /// # Errors
    /// [`PinnedError::InvalidSize`] for none, [`PinnedError::Driver`]; the memory comes back with the error.
    pub fn register<T: Pod>(
        &self,
        memory: impl Into<Box<[T]>>,
    ) -> Result<RegisteredMemory<T>, Refused<Box<[T]>>> {
        let (source, timeline) = self.shared();
        RegisteredMemory::new(memory.into(), source, timeline, self.leftovers())
    }

    /// Makes blocks whose last uses have become complete available. Happens by itself when a request finds its
    /// free list empty.
    pub fn collect(&self) {
        self.core().collect();
    }

    /// Gives memory of which no byte is in use back to the driver, until at most `keep_bytes` are held. Returns the bytes
    /// given back. What a thread keeps that is in a call of the pool it gives up at its next, for the next trim to find. Calls
    /// the driver, which may block; its refusals go to the device's error slot.
    pub fn trim(&self, keep_bytes: u64) -> u64 {
        self.core().leftovers.sweep();
        core::trim(self.core(), keep_bytes)
    }

    /// A round: memory that has not been needed for [`decay_rounds`](PinnedPoolConfig::decay_rounds) of them goes back to the
    /// driver, and the driver is asked for what is to be ready ahead of need. Calls the driver, which may block; no
    /// other call waits for it.
    ///
    /// # Errors
    /// [`PinnedError::Driver`] if it refused memory.
    pub fn tend(&self) -> Result<Tended, PinnedError> {
        self.core().tend()
    }

    /// Starts a thread that tends the pool each `period`, and as soon as less than half of what is to be ready is there.
    /// What it is refused is counted in [`PinnedStats::tend_failures`].
    ///
    /// # Errors
    /// The system's, if it has no thread.
    pub fn keeper(&self, period: Duration) -> io::Result<Keeper> {
        Keeper::spawn(self.core(), period)
    }

    /// The numbers. Costs a walk over slabs and pending blocks.
    pub fn stats(&self) -> PinnedStats {
        self.core().stats()
    }

    /// The numbers of each size class, smallest first, and of all exact sizes last.
    pub fn class_stats(&self) -> Vec<PinnedClassStats> {
        self.core().class_stats()
    }

    /// The numbers of each thread that has made calls and not ended, the one that came first first.
    pub fn thread_stats(&self) -> Vec<PinnedThreadStats> {
        self.core().thread_stats()
    }

    /// Gives what this thread keeps to the blocks that any thread may take, as it happens by itself when the thread
    /// ends. For a thread that has done its share and goes on living.
    pub fn flush_thread(&self) {
        thread_cache::flush(self.core());
    }

    /// Walks everything the pool holds, after what threads keep was taken from them. Exact only while no other thread is in a
    /// call of the pool; what threads keep is counted and not walked where the system cannot tell whether they are.
    ///
    /// # Errors
    /// What does not add up.
    pub fn check(&self) -> Result<(), PinnedInconsistency> {
        check::check(self.core())
    }

    /// How the pool was configured.
    pub fn config(&self) -> &PinnedPoolConfig {
        &self.core().config
    }

    /// The ways of copies through chunks of the pool, and what it has measured of them.
    pub fn staging(&self) -> &Staging {
        &self.core().staging
    }

    /// Whether the pool maps its pages itself, large ones where the system has them: what [`HostPages`](crate::HostPages)
    /// came to.
    pub fn maps_pages(&self) -> bool {
        self.core().source.are_own()
    }

    /// The device whose host memory this is.
    pub fn device(&self) -> &Arc<dyn Device> {
        self.core().source.device()
    }

    /// Where memory goes that a device still uses when the pool's last handle is dropped.
    pub fn leftovers(&self) -> Leftovers {
        self.core().leftovers.clone()
    }

    /// What memory of the program's own needs while a device knows it.
    pub(crate) fn shared(&self) -> (Arc<Source>, Arc<Timeline>) {
        let core = self.core();
        (Arc::clone(&core.source), Arc::clone(&core.timeline))
    }

    #[inline]
    pub(crate) fn core(&self) -> &Ticket<Core> {
        &self.handle.core
    }
}
