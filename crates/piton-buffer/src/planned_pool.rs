//! Steps that repeat, with buffers served from a plan.

use crate::{BufferError, DeviceContext, PrivatePool};
use piton_alloc::{MemoryPool, Plan, Planned, PlannedStats, PoolStats, Recorder};
use std::sync::Arc;

/// A pool that records a step of a program, and serves later ones from the [`Plan`] that is made of it: the k-th buffer that is
/// asked for in a step gets the k-th place of one region. What a plan does not know comes from the pool it is served from.
/// [`Planned`] says how. A cheap handle.
///
/// It keeps what it needs of the runtime alive, as buffers do. When the device is lost, it refuses as that does.
#[derive(Clone, Debug)]
pub struct PlannedPool {
    pub(crate) context: Arc<DeviceContext>,
    pub(crate) planned: Arc<Planned>,
}

impl PlannedPool {
    /// Serves from the context's pool, for now without a plan.
    pub fn new(context: &Arc<DeviceContext>) -> Self {
        Self {
            context: Arc::clone(context),
            planned: Arc::new(Planned::new(Arc::clone(context.memory()))),
        }
    }

    /// Serves from a private pool, for now without a plan: what the plan's region takes is then counted there.
    pub fn within(pool: &PrivatePool) -> Self {
        Self {
            context: Arc::clone(&pool.context),
            planned: Arc::new(Planned::new(Arc::clone(&pool.pool))),
        }
    }

    /// Begins to record a step, with the next buffer as its first. What was recorded before is forgotten.
    pub fn start_recording(&self) {
        self.planned.start_recording();
    }

    /// Says that a step begins; see [`Planned::begin_step`]. May call the driver.
    pub fn begin_step(&self) {
        self.planned.begin_step();
    }

    /// What was recorded, to be [planned](Recorder::plan); nothing if nothing was started. It should be two
    /// [`begin_step`](Self::begin_step) later: a buffer whose drop was not seen gets no place.
    pub fn take_recording(&self) -> Option<Recorder> {
        self.planned.take_recording()
    }

    /// Serves steps from this plan from now on. May call the driver.
    ///
    /// # Errors
    /// [`Serve`](BufferError::Serve): as [`Planned::serve`].
    pub fn serve(&self, plan: Arc<Plan>) -> Result<(), BufferError> {
        Ok(self.planned.serve(plan)?)
    }

    /// Serves from no plan any more. Buffers of it stay what they are.
    pub fn stop_serving(&self) {
        self.planned.stop_serving();
    }

    /// What came of the plans so far.
    pub fn planned_stats(&self) -> PlannedStats {
        self.planned.planned_stats()
    }

    /// What the pool below counts, with buffers of a plan in place of its region.
    pub fn stats(&self) -> PoolStats {
        self.planned.stats()
    }
}
