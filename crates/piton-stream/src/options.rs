//! How a stream is to be made.

use piton_driver::{ComputeUnitSet, OnFailure, Placement, Priority, QueueOptions};
use std::{sync::Arc, time::Duration};

/// What a submitting call does when the stream has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It parks the calling thread until there is room.
    #[default]
    Park,
    /// It returns [`StreamError::Full`](crate::StreamError::Full); nothing was submitted.
    Refuse,
}

/// How a stream is to be made. The default is a stream of the lowest priority on the least loaded queue.
#[derive(Clone, Debug, Default)]
pub struct StreamOptions {
    /// Whose work goes first when the device must choose. Smaller is higher, as in CUDA.
    pub priority: Priority,
    /// Which hardware queue it goes on. It stays there.
    pub placement: Placement,
    /// The cores its kernels may use; all of them if none are named.
    pub compute_units: Option<ComputeUnitSet>,
    /// A name for errors, traces and dumps.
    pub label: Option<Arc<str>>,
    /// What a submitting call does when the stream has no room.
    pub when_full: WhenFull,
    /// How many commands it holds, at most what the device allows
    /// ([`Limits::queue_commands`](piton_driver::Limits::queue_commands)); the device chooses if nothing is said. Memory a stream
    /// takes grows with it.
    pub commands: Option<u32>,
    /// How long a command may take before a [`Watchdog`](crate::Watchdog) tells; as the watchdog says if none is named.
    pub command_deadline: Option<Duration>,
    /// What becomes of commands behind one that failed.
    pub on_failure: OnFailure,
}

impl StreamOptions {
    /// The default options with a name.
    pub fn labelled(label: &str) -> Self {
        Self {
            label: Some(Arc::from(label)),
            ..Self::default()
        }
    }

    pub(crate) fn for_queue(&self) -> QueueOptions {
        QueueOptions {
            priority: self.priority,
            placement: self.placement,
            compute_units: self.compute_units,
            label: self.label.clone(),
            commands: self.commands,
            on_failure: self.on_failure,
        }
    }
}
