//! Host functions in a queue's order.

use crate::{Admission, DriverError, Origin, Queue};

/// A function of the host that runs once.
pub type HostFunction = Box<dyn FnOnce() + Send + 'static>;

/// Runs host functions between a queue's commands.
pub trait HostFunctions: Send + Sync {
    /// Runs a function when all earlier commands of `queue` have ended; later ones wait for its return.
    ///
    /// The function runs on a thread of the backend, under no lock, so it may submit to any queue. It must
    /// not wait on the host for its own queue: that would wait for itself. If it panics, the command fails
    /// with [`HostFunctionPanicked`](crate::ErrorKind::HostFunctionPanicked). After a failure of the queue it
    /// is dropped without being called.
    ///
    /// `function` is taken when the answer is [`Admission::Accepted`], and left when it is not.
    ///
    /// # Errors
    /// [`ForeignObject`](crate::ErrorKind::ForeignObject), [`DeviceLost`](crate::ErrorKind::DeviceLost).
    fn call(
        &self,
        queue: &dyn Queue,
        function: &mut Option<HostFunction>,
        origin: Origin,
    ) -> Result<Admission, DriverError>;
}
