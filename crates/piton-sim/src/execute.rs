//! Running a queue's commands: one bounded slice at a time.
//!
//! The caller owns the queue's front (see `queue`). A slice ends when the queue is empty, when its front must
//! wait for something, or after [`SLICE`] commands; then the hardware queue goes to the next. A worker that nobody wants
//! elsewhere goes on with the queue, slice by slice.

#![expect(unsafe_code, reason = "the owner of the front is the ring's consumer")]

mod perform;
pub(crate) mod record;
mod stalling;

use crate::{
    command::{Arguments, Command, Entry},
    graph::{self, Plan},
    machine::DeviceCore,
    plan,
    queue::QueueCore,
    resource::Resource,
    runner::Runner,
};
pub(crate) use perform::launch;

use perform::Outcome;
use piton_driver::{ErrorKind, Operation, shield};
use std::sync::Arc;

/// Commands of one queue that run before others get the hardware queue.
const SLICE: u32 = 16;

/// Who takes turns on a copy engine.
type CopyEngine = Resource<Arc<QueueCore>>;

/// What became of the front command.
enum Step {
    /// It ended, or is to be looked at again; the front is still the caller's.
    Ended,
    /// There is none; the queue is nobody's until a command arrives.
    Empty,
    /// It waits; whatever it waits for owns the queue now.
    Waits,
    /// It goes on at a later virtual time; the front is still the caller's.
    Later,
}

/// Runs commands of `queue`, whose front the caller owns.
pub(crate) fn run_slice(queue: &Arc<QueueCore>, runner: &mut Runner<'_>) {
    let device = queue.device.core();
    let Some(hardware) = device.hardware.get(queue.hardware as usize) else {
        return;
    };
    if !hardware.acquire(queue.band(), || Arc::clone(queue)) {
        return;
    }
    let last = run_some(queue, hardware, runner);
    release(queue, hardware);
    match last {
        Step::Ended | Step::Later => queue.engine().schedule(queue),
        Step::Empty | Step::Waits => queue.device.machine().settle_if_abandoned(),
    }
}

/// Runs until the front waits or is gone, or the slice is over and somebody else is to have his turn, or the thread has
/// something better to do.
fn run_some(
    queue: &Arc<QueueCore>,
    hardware: &Resource<Arc<QueueCore>>,
    runner: &mut Runner<'_>,
) -> Step {
    loop {
        match run_turns(queue, runner) {
            Step::Ended if runner.is_free(queue.engine()) && !hardware.is_wanted() => {}
            Step::Ended => return give_back(queue),
            over => return over,
        }
    }
}

/// Others have their turn. A queue that has drained with its slice is nobody's now: nobody need take it once more to
/// find that out.
fn give_back(queue: &QueueCore) -> Step {
    let next = queue.progress.reached() + 1;
    if next > queue.ring.submitted() && queue.ring.retire(next) {
        return Step::Empty;
    }
    Step::Ended
}

/// Gives up the front of a queue of which the caller has run nothing: it is ready if anything was submitted meanwhile, and
/// nobody's else.
pub(crate) fn let_go(queue: &Arc<QueueCore>) {
    match give_back(queue) {
        Step::Empty => queue.device.machine().settle_if_abandoned(),
        _ => queue.engine().schedule_submitted(queue),
    }
}

/// Runs a slice, or the part of it that the thread stays for.
fn run_turns(queue: &Arc<QueueCore>, runner: &mut Runner<'_>) -> Step {
    let engine = queue.engine();
    let mut next = queue.progress.reached() + 1;
    let mut submitted = queue.ring.submitted();
    for turn in 0..SLICE {
        if next > submitted {
            submitted = queue.ring.submitted();
        }
        if next > submitted && runner.linger(queue, next) {
            submitted = queue.ring.submitted();
        }
        if next > submitted {
            if queue.ring.retire(next) {
                return Step::Empty;
            }
            // Somebody else may have run the queue in between.
            (next, submitted) = (queue.progress.reached() + 1, queue.ring.submitted());
            if next > submitted {
                continue;
            }
        }
        if turn > 0 {
            engine.share();
        }
        match step(queue, next, runner) {
            Step::Ended if runner.is_called_away(engine) => return Step::Ended,
            Step::Ended => next = queue.progress.reached() + 1,
            over => return over,
        }
    }
    Step::Ended
}

pub(crate) fn release(queue: &QueueCore, resource: &Resource<Arc<QueueCore>>) {
    if let Some(next) = resource.release() {
        queue.engine().schedule(&next);
    }
}

fn step(queue: &Arc<QueueCore>, position: u64, runner: &mut Runner<'_>) -> Step {
    // SAFETY: the front is the caller's and the position published; nothing takes the command out before the last use
    // of the reference, which is before `end` and `skip` do.
    let entry = unsafe { queue.ring.peek(position) };
    let operation = entry.command.operation();
    queue.consumer.front.note(position, operation, entry.origin);
    // A wait for another queue ends when that has, even where it is skipped: memory freed in this queue's order
    // may be in use by the other until then.
    if let Command::WaitQueue {
        queue: other,
        position: awaited,
        ..
    } = &entry.command
        && let Some(waits) = stalling::on_queue(queue, other, *awaited)
    {
        return waits;
    }
    if let Some(reason) = skip_reason(queue, position) {
        hand_on_engines(queue);
        return skip(queue, position, reason, runner);
    }
    match &entry.command {
        Command::WaitSemaphore { semaphore, value } => {
            stalling::on_semaphore(queue, position, semaphore, *value)
                .unwrap_or_else(|| run_front(queue, position, entry, None, runner))
        }
        Command::WaitMemory(wait) => stalling::on_memory(queue, position, *wait)
            .unwrap_or_else(|| run_front(queue, position, entry, None, runner)),
        Command::CopyToDevice { .. } | Command::CopyToHost { .. } | Command::CopyPeer { .. } => {
            let engine = copy_engine(queue.device.core(), operation);
            step_copy(queue, position, entry, engine, runner)
        }
        Command::RunGraph { plan } => {
            runner.hand_over();
            step_graph(queue, position, entry, plan, runner)
        }
        Command::WaitQueue { .. } => run_front(queue, position, entry, None, runner),
        _ => {
            runner.hand_over();
            run_front(queue, position, entry, None, runner)
        }
    }
}

/// Runs the copy at the front; where copies share links, begins it, or ends it when its time has come.
fn step_copy(
    queue: &Arc<QueueCore>,
    position: u64,
    entry: &Entry,
    engine: &Resource<Arc<QueueCore>>,
    runner: &mut Runner<'_>,
) -> Step {
    let machine = queue.device.machine();
    let under_way = queue.flow();
    if let (Some(flowing), Some(traffic)) = (under_way, &machine.traffic) {
        let Some(end) = traffic.finish(flowing.flow) else {
            return Step::Later;
        };
        queue.set_flow(None);
        let times = Some((flowing.start, end));
        return run_front_at(queue, position, entry, (Some(engine), times), runner);
    }
    if !engine.acquire(queue.band(), || Arc::clone(queue)) {
        return Step::Waits;
    }
    runner.hand_over();
    if let Some(traffic) = &machine.traffic {
        let earliest = queue.ready_at(entry.submitted_at);
        let slowness = plan::slowness(queue, &entry.command);
        let memory = entry.command.host_memory();
        let home = memory.and_then(|address| machine.host.lock().home(address));
        let ends = (queue.device.id(), home);
        let prepared = queue.prepared_at(entry.submitted_at);
        let flowing = traffic.start(ends, &entry.command, (prepared, earliest), slowness);
        if flowing.is_some() {
            queue.set_flow(flowing);
            return Step::Later;
        }
    }
    run_front(queue, position, entry, Some(engine), runner)
}

/// Runs the next node of the graph at the front; ends the command behind the last.
fn step_graph(
    queue: &Arc<QueueCore>,
    position: u64,
    entry: &Entry,
    plan: &Arc<Plan>,
    runner: &mut Runner<'_>,
) -> Step {
    let is_virtual = queue.engine().is_virtual();
    let start = if is_virtual {
        queue.ready_at(entry.submitted_at)
    } else {
        record::now(queue)
    };
    let mut end = match graph::step(queue, position, plan, start) {
        graph::Step::Again => return Step::Ended,
        graph::Step::Waits => return Step::Waits,
        graph::Step::Hangs => return stalling::for_ever(queue, position),
        graph::Step::Ended(end) => end,
    };
    if is_virtual {
        queue.note_end(position, (end.end, end.end));
        queue.engine().pass_time(end.end);
    } else {
        end.end = record::now(queue);
    }
    let draft = record::begin(queue, position, entry);
    record::finish(queue, draft, (end.start, end.end), None);
    let (operation, origin) = end.by;
    let by = (operation, origin.unwrap_or(entry.origin));
    // What the graph keeps goes before the position is said to have ended.
    // SAFETY: the front is the caller's; `entry` and `plan` are not used any more, nor the position asked for again.
    shield::discard(unsafe { queue.ring.take(position) });
    runner.take_on(queue.end(position, end.result, by));
    Step::Ended
}

/// Why nothing of the queue runs any more: it has failed, was aborted, or its device is lost.
fn skip_reason(queue: &QueueCore, position: u64) -> Option<Result<(), ErrorKind>> {
    if let Some(verdict) = queue.trouble.verdict(position) {
        return Some(verdict);
    }
    queue
        .device
        .core()
        .is_lost()
        .then_some(Err(ErrorKind::DeviceLost))
}

/// A queue that waited for a copy engine and now skips its copies does not take the engine, so nobody would
/// release it to who waits behind: all of them ask again, and skip in their turn.
#[cold]
fn hand_on_engines(queue: &QueueCore) {
    for engine in queue.device.core().copy_engines() {
        for waiting in engine.take_waiting() {
            queue.engine().schedule(&waiting);
        }
    }
}

#[cold]
fn skip(
    queue: &Arc<QueueCore>,
    position: u64,
    result: Result<(), ErrorKind>,
    runner: &mut Runner<'_>,
) -> Step {
    // SAFETY: the front is the caller's, and the position is asked for once more only.
    let entry = unsafe { queue.ring.take(position) };
    let what = (entry.command.operation(), entry.origin);
    give_up_flow(queue, what.0);
    match &entry.command {
        Command::Launch {
            arguments: Arguments::Ring(reservation),
            ..
        } => queue.consumer.parameters.release(*reservation),
        Command::SignalSemaphore { semaphore, .. } => semaphore.settle(queue, position, false),
        _ => {}
    }
    if queue.engine().is_virtual() {
        queue.note_end(position, (queue.time(), queue.time()));
    }
    // A replay under way goes too; out of its place first, since what it keeps is the program's.
    let replay = queue.replay.take();
    shield::discard(replay);
    // What the command owned (a host function) goes before the position is said to have ended. That is the program's
    // code too.
    if queue.engine().is_virtual() {
        queue
            .engine()
            .as_host(queue.time(), || shield::discard(entry));
    } else {
        shield::discard(entry);
    }
    runner.take_on(queue.end(position, result, what));
    Step::Ended
}

/// A copy under way is given up: its flow goes, and its engine is another's.
fn give_up_flow(queue: &QueueCore, operation: Operation) {
    let under_way = queue.flow();
    if let (Some(flowing), Some(traffic)) = (under_way, &queue.device.machine().traffic) {
        queue.set_flow(None);
        traffic.cancel(flowing.flow);
        release(queue, copy_engine(queue.device.core(), operation));
    }
}

pub(crate) fn copy_engine(device: &DeviceCore, operation: Operation) -> &Resource<Arc<QueueCore>> {
    match operation {
        Operation::CopyToDevice => &device.copy_in,
        Operation::CopyToHost => &device.copy_out,
        _ => &device.copy_peer,
    }
}

fn run_front(
    queue: &Arc<QueueCore>,
    position: u64,
    entry: &Entry,
    engine: Option<&Resource<Arc<QueueCore>>>,
    runner: &mut Runner<'_>,
) -> Step {
    let times = plan::plan(queue, &entry.command, entry.submitted_at);
    run_front_at(queue, position, entry, (engine, times), runner)
}

/// Runs the front, whose times are known if time is virtual.
fn run_front_at(
    queue: &Arc<QueueCore>,
    position: u64,
    entry: &Entry,
    (engine, schedule): (Option<&CopyEngine>, Option<(u64, u64)>),
    runner: &mut Runner<'_>,
) -> Step {
    let what = (entry.command.operation(), entry.origin);
    let draft = record::begin(queue, position, entry);
    let kernel = draft.and_then(|_| entry.command.kernel());
    let start = schedule.map_or_else(|| record::now(queue), |(start, _)| start);
    let outcome = perform::perform(queue, position, entry, draft.as_ref());
    if let Some(engine) = engine {
        release(queue, engine);
    }
    // Success apart, though it says the same: moving a whole result of which only the tag was written costs more than
    // telling the two.
    let result = match outcome {
        Outcome::Ended(Ok(())) => Ok(()),
        Outcome::Ended(failed) => failed,
        Outcome::HeldByHost => return Step::Waits,
        Outcome::Hangs => return stalling::for_ever(queue, position),
    };
    let end = schedule.map_or_else(|| record::now(queue), |(_, end)| end);
    if schedule.is_some() {
        let prepared = plan::prepared(queue, entry, (start, end));
        queue.note_end(position, (prepared, end));
        queue.engine().pass_time(end);
    }
    record::finish(queue, draft, (start, end), kernel);
    if !matches!(entry.command, Command::CallHost { .. }) {
        // SAFETY: the front is the caller's; `entry` is not used any more, nor the position asked for again. A host
        // function was taken out when it was called.
        drop(unsafe { queue.ring.take(position) });
    }
    runner.take_on(queue.end(position, result, what));
    Step::Ended
}

/// When the queue's next command could start, in virtual time. The queue is on the ready list.
pub(crate) fn ready_at(queue: &QueueCore) -> u64 {
    let under_way = queue.flow();
    if let (Some(flowing), Some(traffic)) = (under_way, &queue.device.machine().traffic) {
        return traffic.next_change(flowing.flow);
    }
    let next = queue.progress.reached() + 1;
    if next > queue.ring.submitted() {
        return queue.time();
    }
    // SAFETY: the ready list owns the front, and the caller holds the list's lock.
    let submitted_at = unsafe { queue.ring.peek(next) }.submitted_at;
    queue.ready_at(submitted_at)
}
