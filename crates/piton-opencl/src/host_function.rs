//! Host functions: run by threads of their own, one queue's at a time.
//!
//! A function may wait on the host for other queues, whose functions must then run meanwhile: so there is a thread for
//! each function that runs at the same time, started when none is idle and kept. A queue runs one at a time, so there are
//! no more threads than queues.

use crate::{
    device::OpenClDevice,
    queue::{Core, OpenClQueue, Tag},
};
use piton_driver::{
    Admission, DriverError, ErrorKind, HostFunction, HostFunctions, Operation, Origin, Queue,
};
use piton_sync::{Condvar, Mutex, thread};
use std::{
    any::Any,
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

type Job = (Arc<Core>, HostFunction);

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    idle: usize,
    is_closed: bool,
}

#[derive(Default)]
struct Office {
    jobs: Mutex<Jobs>,
    bell: Condvar,
}

/// The threads that run host functions. Dropping it lets them end.
pub(crate) struct Functions(Arc<Office>);

impl Functions {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Office::default()))
    }

    /// Runs a function of a queue's soon, and tells the queue when it has returned.
    pub(crate) fn run(&self, core: Arc<Core>, function: HostFunction) {
        let mut jobs = self.0.jobs.lock();
        jobs.waiting.push_back((core, function));
        let has_idle = jobs.idle >= jobs.waiting.len();
        drop(jobs);
        if has_idle {
            self.0.bell.notify_one();
            return;
        }
        let office = Arc::clone(&self.0);
        let builder = thread::Builder::new().name("piton-opencl-host".to_owned());
        if builder.spawn(move || serve(&office)).is_err() {
            // No thread to be had: better on this one than never.
            let job = self.0.jobs.lock().waiting.pop_back();
            if let Some(job) = job {
                carry_out(job);
            }
        }
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        self.0.jobs.lock().is_closed = true;
        self.0.bell.notify_all();
    }
}

fn serve(office: &Office) {
    let mut jobs = office.jobs.lock();
    loop {
        while let Some(job) = jobs.waiting.pop_front() {
            drop(jobs);
            carry_out(job);
            jobs = office.jobs.lock();
        }
        if jobs.is_closed {
            return;
        }
        jobs.idle += 1;
        office.bell.wait(&mut jobs);
        jobs.idle -= 1;
    }
}

fn carry_out((core, function): Job) {
    let result = catch_unwind(AssertUnwindSafe(function));
    core.function_ended(result.is_err());
}

impl HostFunctions for OpenClDevice {
    fn call(
        &self,
        queue: &dyn Queue,
        function: &mut Option<HostFunction>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        let operation = Operation::CallHost;
        self.alive(operation)?;
        let own = (queue as &dyn Any).downcast_ref::<OpenClQueue>();
        let own = own.filter(|own| std::ptr::eq(&raw const *own.core().device, self));
        let foreign = ErrorKind::ForeignObject {
            given: queue.device(),
        };
        let own = own.ok_or_else(|| DriverError::new(foreign, operation, self.info.id))?;
        let tag = Tag {
            operation,
            origin,
            bytes: 0,
            kernel: None,
            peer: None,
        };
        Ok(own.core().call(function, tag))
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functions").finish_non_exhaustive()
    }
}
