//! The engine that the machines of one process share, and the process that has it.
//!
//! # In a fork
//! A fork has none of the engine's threads, and the locks as they were at that moment. It cannot have new ones either: the
//! locks that threads sleep at share one list of sleepers (`parking_lot`), in which those of the parent still stand, and
//! their memory is given to the fork's threads. So machines whose clock is real are refused in a fork of a process that has
//! had one. In virtual time nobody sleeps.

use super::Engine;
use crate::{config::ClockMode, idle::SPIN};
use piton_driver::{DriverError, ErrorKind, Operation};
use piton_sync::{ForkMark, Mutex};
use std::sync::{Arc, OnceLock, Weak};

/// What a process has of engines.
#[derive(Default)]
pub(super) struct OfProcess {
    mark: ForkMark,
    shared: Mutex<Weak<Engine>>,
}

impl OfProcess {
    /// Of this process, which may have engines with threads.
    ///
    /// # Errors
    /// `Forked`, without touching a lock.
    pub(super) fn get() -> Result<&'static Self, DriverError> {
        // GLOBAL: cores belong to the process. Two machines with threads of their own would have twice as
        // many threads as cores. It holds no configuration, and the engine in it ends with the last machine.
        static OF_PROCESS: OnceLock<OfProcess> = OnceLock::new();
        let own = OF_PROCESS.get_or_init(Self::default);
        if own.mark.is_fork() {
            return Err(DriverError {
                kind: ErrorKind::Forked,
                operation: Operation::Open,
                device: None,
                code: None,
            });
        }
        Ok(own)
    }

    /// The engine all machines of the process share, so that threads match cores whatever the number of
    /// devices.
    pub(super) fn engine(&self) -> Result<Arc<Engine>, DriverError> {
        let mut shared = self.shared.lock();
        if let Some(engine) = shared.upgrade() {
            return Ok(engine);
        }
        let engine = Engine::with_workers(ClockMode::Real, workers(), SPIN)?;
        *shared = Arc::downgrade(&engine);
        Ok(engine)
    }
}

/// As many workers as cores but one, which is for the host; at least one.
pub(super) fn workers() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores.saturating_sub(1).max(1)).unwrap_or(1)
}
