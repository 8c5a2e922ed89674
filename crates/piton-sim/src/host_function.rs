//! Host functions: run by a thread of their own, or in virtual time by whoever drives.

use crate::{
    command::Command, device::SimDevice, execute::record, graph::NodeReturn, queue::QueueCore,
    trace::Draft,
};
use piton_driver::{
    Admission, DriverError, ErrorKind, HostFunction, HostFunctions, Operation, Origin, Queue,
    shield,
};
use std::{fmt, sync::Arc};

/// A host function whose turn has come. Its queue stands still until it has run.
pub(crate) struct HostCall {
    pub(crate) function: HostFunction,
    pub(crate) queue: Arc<QueueCore>,
    pub(crate) position: u64,
    pub(crate) origin: Origin,
    /// What the trace will say of it, less its times.
    pub(crate) draft: Option<Draft>,
    /// Where the outcome goes if this is a node of a graph: its command has not ended with it.
    pub(crate) node: Option<Arc<NodeReturn>>,
}

impl fmt::Debug for HostCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostCall")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl HostCall {
    /// Calls the function, ends its command and sets the queue going again.
    pub(crate) fn run(self) {
        let now = || self.queue.engine().now();
        let start = self.draft.map_or(0, |_| now());
        let result = call(self.function);
        let end = self.draft.map_or(0, |_| now());
        record::finish(&self.queue, self.draft, (start, end), None);
        if let Some(node) = self.node {
            node.set(result);
        } else {
            let what = (Operation::CallHost, self.origin);
            if let Some(woken) = self.queue.end(self.position, result, what) {
                woken.engine().schedule(&woken);
            }
        }
        // This thread only calls functions: somebody else goes on with the queue.
        self.queue.engine().schedule(&self.queue);
        self.queue.engine().share();
        shield::discard(self.queue);
    }
}

/// Calls a host function; a panic is the command's failure, not the thread's.
pub(crate) fn call(function: HostFunction) -> Result<(), ErrorKind> {
    shield::run(function).ok_or(ErrorKind::HostFunctionPanicked)
}

impl HostFunctions for SimDevice {
    fn call(
        &self,
        queue: &dyn Queue,
        function: &mut Option<HostFunction>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        let queue = self.own_queue(queue, Operation::CallHost)?;
        self.gate(Operation::CallHost)?;
        Ok(queue.submit_with(origin, || {
            function
                .take()
                .map(|function| Command::CallHost { function })
        }))
    }
}
