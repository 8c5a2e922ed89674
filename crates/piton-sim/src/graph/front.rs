//! A queue whose front is a replay: one node a step, until all have ended.
//!
//! The state of the replay belongs to the owner of the front (see `queue`) and lies with the queue, since the owner
//! changes: after a slice, while a host function of the graph runs, and while a copy waits for its turn at an engine.

use super::{
    node::{self, Ran},
    plan::{Plan, Work},
    run::{GraphRun, Next},
};
use crate::{execute, host_function::HostCall, queue::QueueCore, resource::Resource};
use piton_driver::{ErrorKind, Operation, Origin, RepeatedHostFunction};
use piton_sync::Mutex;
use std::sync::Arc;

/// What became of a replay's step.
pub(crate) enum Step {
    /// There is more to do, and the front is still the caller's.
    Again,
    /// A host function holds the front, or the list of a copy engine.
    Waits,
    /// By a fault plan: a kernel of the graph never ends.
    Hangs,
    /// It has ended.
    Ended(ReplayEnd),
}

/// How a replay ended.
pub(crate) struct ReplayEnd {
    pub(crate) result: Result<(), ErrorKind>,
    /// What failed, or the replay itself, and where that was put into the program.
    pub(crate) by: (Operation, Option<Origin>),
    /// When, in virtual time.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// What a step has come to, before the replay goes back to its queue.
enum Advance {
    Again,
    Calls(HostCall),
    Hangs,
    Ended(ReplayEnd),
}

/// How a host function of a graph ended, for the step that comes after.
#[derive(Debug, Default)]
pub(crate) struct NodeReturn(Mutex<Option<Result<(), ErrorKind>>>);

impl NodeReturn {
    /// The function has returned.
    pub(crate) fn set(&self, result: Result<(), ErrorKind>) {
        *self.0.lock() = Some(result);
    }

    fn take(&self) -> Result<(), ErrorKind> {
        self.0.lock().take().unwrap_or(Ok(()))
    }
}

/// Runs the next node of the replay at the front of `queue`, whose front the caller owns. `start` is when it may
/// start, in virtual time.
pub(crate) fn step(queue: &Arc<QueueCore>, position: u64, plan: &Arc<Plan>, start: u64) -> Step {
    let Ok(engine) = take_engine(queue) else {
        return Step::Waits;
    };
    // Taken out of its place: nodes are the program's code, which runs under no lock.
    let held = queue.replay.take();
    let mut run = held.unwrap_or_else(|| GraphRun::new(Arc::clone(plan), start));
    let advance = match run.copy.take() {
        Some(number) => carry_out(queue, position, &mut run, number),
        None => advance(queue, position, &mut run),
    };
    if let Some(engine) = engine {
        execute::release(queue, engine);
    }
    if let Advance::Ended(end) = advance {
        return Step::Ended(end);
    }
    queue.replay.put(run);
    match advance {
        // Only now: the function may return, and the next step begin, at once.
        Advance::Calls(call) => start_call(queue, call),
        Advance::Hangs => Step::Hangs,
        Advance::Again | Advance::Ended(_) => Step::Again,
    }
}

/// A copy engine, as queues take turns on it.
type CopyEngine = Resource<Arc<QueueCore>>;

/// Takes the engine of the copy that is next, if a copy is. Where it is another queue's turn, the engine has the front from
/// then on: so the replay is in its place already, with the copy noted in it.
fn take_engine(queue: &Arc<QueueCore>) -> Result<Option<&CopyEngine>, Busy> {
    let copy = |run: &GraphRun| run.copy.map(|number| run.work(number).operation());
    let Some(operation) = queue.replay.look(copy) else {
        return Ok(None);
    };
    let engine = execute::copy_engine(queue.device.core(), operation);
    if engine.acquire(queue.band(), || Arc::clone(queue)) {
        return Ok(Some(engine));
    }
    Err(Busy)
}

/// It is another queue's turn.
struct Busy;

fn start_call(queue: &QueueCore, call: HostCall) -> Step {
    let returned = call.node.clone();
    match queue.device.machine().engine.call_host(call) {
        Ok(()) => Step::Waits,
        Err(error) => {
            if let Some(returned) = returned {
                returned.set(Err(error.kind));
            }
            Step::Again
        }
    }
}

fn advance(queue: &Arc<QueueCore>, position: u64, run: &mut GraphRun) -> Advance {
    if let Some((number, returned)) = run.host.take() {
        let result = returned.take();
        return settle(run, number, Ran { result, end: 0 });
    }
    let engine = &queue.device.machine().engine;
    let next = run.next(|ready, ready_at| {
        engine.choose(ready.len(), |index| ready_at[ready[index] as usize])
    });
    match next {
        Next::Ended { end } => Advance::Ended(ReplayEnd {
            result: Ok(()),
            by: (Operation::RunGraph, None),
            start: run.start,
            end,
        }),
        Next::BodyEnded { owner, end } => look(queue, run, owner, end, true),
        Next::Node(number) => begin(queue, position, run, number),
    }
}

/// Runs a node that was taken, or starts it.
fn begin(queue: &Arc<QueueCore>, position: u64, run: &mut GraphRun, number: u32) -> Advance {
    let at = run.ready_at(number);
    match run.work(number) {
        Work::If { .. } | Work::While { .. } => look(queue, run, number, at, false),
        Work::CallHost(function) if !queue.device.machine().engine.is_virtual() => {
            let function = Arc::clone(function);
            Advance::Calls(host_call(queue, position, run, number, function))
        }
        Work::CopyToDevice { .. } | Work::CopyToHost { .. } | Work::CopyPeer { .. }
            if !queue.device.machine().engine.is_virtual() =>
        {
            run.copy = Some(number);
            Advance::Again
        }
        _ => carry_out(queue, position, run, number),
    }
}

fn carry_out(queue: &Arc<QueueCore>, position: u64, run: &mut GraphRun, number: u32) -> Advance {
    match node::run(queue, position, run, number) {
        Some(ran) => settle(run, number, ran),
        None => Advance::Hangs,
    }
}

/// Looks at a condition, and opens the body or ends the node.
fn look(queue: &QueueCore, run: &mut GraphRun, number: u32, at: u64, has_run: bool) -> Advance {
    let (condition, is_over) = match run.work(number) {
        Work::While { condition } => (*condition, false),
        Work::If { condition } => (*condition, has_run),
        _ => return Advance::Again,
    };
    if is_over {
        return settle(
            run,
            number,
            Ran {
                result: Ok(()),
                end: at,
            },
        );
    }
    match node::condition(queue, condition, at) {
        (Ok(true), end) => {
            run.enter_body(number, end);
            Advance::Again
        }
        (Ok(false), end) => settle(
            run,
            number,
            Ran {
                result: Ok(()),
                end,
            },
        ),
        (Err(kind), end) => settle(
            run,
            number,
            Ran {
                result: Err(kind),
                end,
            },
        ),
    }
}

fn settle(run: &mut GraphRun, number: u32, ran: Ran) -> Advance {
    match ran.result {
        Ok(()) => {
            run.ended(number, ran.end);
            Advance::Again
        }
        Err(kind) => {
            let operation = run.work(number).operation();
            let origin = run.plan.shapes[number as usize].origin;
            Advance::Ended(ReplayEnd {
                result: Err(kind),
                by: (operation, Some(origin)),
                start: run.start,
                end: ran.end,
            })
        }
    }
}

fn host_call(
    queue: &Arc<QueueCore>,
    position: u64,
    run: &mut GraphRun,
    number: u32,
    function: RepeatedHostFunction,
) -> HostCall {
    let returned = Arc::new(NodeReturn::default());
    run.host = Some((number, Arc::clone(&returned)));
    HostCall {
        function: Box::new(move || function()),
        queue: Arc::clone(queue),
        position,
        origin: run.plan.shapes[number as usize].origin,
        draft: node::draft(queue, position, run, number),
        node: Some(returned),
    }
}
