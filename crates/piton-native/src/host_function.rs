//! Host functions: run by threads of their own, one queue's at a time.
//!
//! A function may wait on the host for other queues, whose functions must then run meanwhile: so there is a thread for
//! each function that runs at the same time, started when none is idle and kept. A queue runs one at a time, so there are
//! no more threads than queues.

use crate::{
    backend::NativeDevice,
    queue::{Core, InOrderQueue, Tag},
};
use piton_driver::{
    Admission, DriverError, ErrorKind, HostFunction, Operation, Origin, Queue, shield,
};
use piton_sync::{Condvar, Mutex, thread};
use std::{any::Any, collections::VecDeque, fmt, sync::Arc};

type Job<D> = (Arc<Core<D>>, HostFunction);

struct Jobs<D: NativeDevice> {
    waiting: VecDeque<Job<D>>,
    idle: usize,
    is_closed: bool,
}

struct Office<D: NativeDevice> {
    jobs: Mutex<Jobs<D>>,
    bell: Condvar,
}

/// The threads that run host functions. Dropping it lets them end.
pub(crate) struct Functions<D: NativeDevice>(Arc<Office<D>>);

impl<D: NativeDevice> Functions<D> {
    pub(crate) fn new() -> Self {
        let jobs = Jobs {
            waiting: VecDeque::new(),
            idle: 0,
            is_closed: false,
        };
        Self(Arc::new(Office {
            jobs: Mutex::new(jobs),
            bell: Condvar::new(),
        }))
    }

    /// Runs a function of a queue's soon, and tells the queue when it has returned.
    pub(crate) fn run(&self, core: Arc<Core<D>>, function: HostFunction) {
        let mut jobs = self.0.jobs.lock();
        jobs.waiting.push_back((core, function));
        let has_idle = jobs.idle >= jobs.waiting.len();
        drop(jobs);
        if has_idle {
            self.0.bell.notify_one();
            return;
        }
        let office = Arc::clone(&self.0);
        let builder = thread::Builder::new().name(format!("piton-{}-host", D::NAME));
        if builder.spawn(move || serve(&office)).is_err() {
            // No thread to be had: better on this one than never.
            let job = self.0.jobs.lock().waiting.pop_back();
            if let Some(job) = job {
                carry_out(job);
            }
        }
    }
}

impl<D: NativeDevice> Drop for Functions<D> {
    fn drop(&mut self) {
        self.0.jobs.lock().is_closed = true;
        self.0.bell.notify_all();
    }
}

fn serve<D: NativeDevice>(office: &Office<D>) {
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

fn carry_out<D: NativeDevice>((core, function): Job<D>) {
    let has_returned = shield::run(function).is_some();
    core.function_ended(!has_returned);
}

/// The body of [`piton_driver::HostFunctions::call`] on a device.
///
/// # Errors
/// As the contract says.
pub fn call_host<D: NativeDevice>(
    device: &D,
    queue: &dyn Queue,
    function: &mut Option<HostFunction>,
    origin: Origin,
) -> Result<Admission, DriverError> {
    let operation = Operation::CallHost;
    device.standing().alive(operation)?;
    let own = (queue as &dyn Any).downcast_ref::<InOrderQueue<D>>();
    let own = own.filter(|own| std::ptr::eq(&raw const *own.core().device, device));
    let foreign = ErrorKind::ForeignObject {
        given: queue.device(),
    };
    let own = own.ok_or_else(|| device.refusal(foreign, operation))?;
    let tag = Tag {
        operation,
        origin,
        bytes: 0,
        kernel: None,
        peer: None,
    };
    Ok(own.core().call(function, tag))
}

impl<D: NativeDevice> fmt::Debug for Functions<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functions").finish_non_exhaustive()
    }
}
