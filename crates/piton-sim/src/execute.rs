//! Running a queue's commands: one bounded slice at a time.
//!
//! The caller owns the queue's front (see `queue`). A slice ends when the queue is empty, when its front must
//! wait for something, or after [`SLICE`] commands; then the hardware queue goes to the next.

use crate::{
    command::Command,
    graph::{self, Plan},
    grid::GridJob,
    host_function::{self, HostCall},
    machine::DeviceCore,
    movement,
    parameters::Reservation,
    plan,
    progress::Progress,
    queue::{Entry, QueueCore, Watcher},
    resource::Resource,
};
use piton_driver::{ErrorKind, ExecutionRecord, Fault, Operation, Origin, Position};
use std::sync::Arc;

/// Commands of one queue that run before others get the hardware queue.
const SLICE: u32 = 16;

/// What became of the front command.
enum Step {
    /// It ended, or is to be looked at again; the front is still the caller's.
    Ended,
    /// There is none; the queue is nobody's until a command arrives.
    Empty,
    /// It waits; whatever it waits for owns the queue now.
    Waits,
}

/// What the front command waits for before it can start.
enum Obstacle {
    None,
    Queue(Arc<QueueCore>, Position),
    Semaphore(Arc<crate::semaphore::SimSemaphore>, u64),
    Engine(Operation),
    /// Nothing; it is a graph, which runs a node at a time.
    Graph(Arc<Plan>),
}

/// Runs commands of `queue`, whose front the caller owns.
pub(crate) fn run_slice(queue: &Arc<QueueCore>) {
    let device = queue.device.core();
    let Some(hardware) = device.hardware.get(queue.hardware as usize) else {
        return;
    };
    if !hardware.acquire(|| Arc::clone(queue)) {
        return;
    }
    let mut last = Step::Ended;
    for _ in 0..SLICE {
        last = step(queue);
        if !matches!(last, Step::Ended) {
            break;
        }
    }
    release(queue, hardware);
    if matches!(last, Step::Ended) {
        queue.device.machine().engine.schedule(Arc::clone(queue));
    }
}

fn release(queue: &QueueCore, resource: &Resource<Arc<QueueCore>>) {
    if let Some(next) = resource.release() {
        queue.device.machine().engine.schedule(next);
    }
}

fn step(queue: &Arc<QueueCore>) -> Step {
    if queue.retire_if_empty() {
        return Step::Empty;
    }
    let position = Position::new(queue.progress.reached() + 1);
    let obstacle = obstacle(queue);
    // A wait for another queue ends when that has, even where it is skipped: memory freed in this queue's order
    // may be in use by the other until then.
    if let Obstacle::Queue(other, awaited) = &obstacle
        && let Some(waits) = hang(queue, &other.progress, awaited.get(), |_| Step::Waits)
    {
        return waits;
    }
    if let Some(reason) = skip_reason(queue) {
        hand_on_engines(queue);
        return skip(queue, position, reason);
    }
    match obstacle {
        Obstacle::None | Obstacle::Queue(..) => run_front(queue, position, None),
        Obstacle::Semaphore(semaphore, value) => {
            let stay = |ticket| stay_stalled(queue, ticket);
            hang(queue, &semaphore.progress, value, stay)
                .unwrap_or_else(|| run_front(queue, position, None))
        }
        Obstacle::Engine(operation) => {
            let engine = copy_engine(queue.device.core(), operation);
            if !engine.acquire(|| Arc::clone(queue)) {
                return Step::Waits;
            }
            run_front(queue, position, Some(engine))
        }
        Obstacle::Graph(plan) => step_graph(queue, position, plan),
    }
}

/// Runs the next node of the graph at the front; ends the command behind the last.
fn step_graph(queue: &Arc<QueueCore>, position: Position, plan: Arc<Plan>) -> Step {
    let is_virtual = queue.device.machine().engine.is_virtual();
    let start = if is_virtual {
        queue.ready_at()
    } else {
        now_if_traced(queue)
    };
    let mut end = match graph::step(queue, position, &plan, start) {
        graph::Step::Again => return Step::Ended,
        graph::Step::HeldByHost => return Step::Waits,
        graph::Step::Hangs => {
            let ticket = queue.begin_stall();
            return stay_stalled(queue, ticket);
        }
        graph::Step::Ended(end) => end,
    };
    let Some(entry) = queue.state.lock().ring.pop_front() else {
        return Step::Empty;
    };
    let (operation, origin) = end.by;
    let by = (operation, origin.or(Some(entry.origin)));
    if is_virtual {
        queue.note_end(position, end.end);
        queue.device.machine().engine.pass_time(end.end);
    } else {
        end.end = now_if_traced(queue);
    }
    if let Some(mut record) = record(queue, position, &entry) {
        (record.start_ns, record.end_ns) = (end.start, end.end);
        queue.device.core().trace.push(record);
    }
    // What the graph keeps goes before the position is said to have ended.
    drop((plan, entry));
    queue.end(position, end.result, by);
    Step::Ended
}

/// Why nothing of the queue runs any more: it has failed, or its device is lost.
fn skip_reason(queue: &QueueCore) -> Option<Result<(), ErrorKind>> {
    if queue.failure().is_some() {
        return Some(Ok(()));
    }
    queue
        .device
        .core()
        .is_lost()
        .then_some(Err(ErrorKind::DeviceLost))
}

/// A queue that waited for a copy engine and now skips its copies does not take the engine, so nobody would
/// release it to who waits behind: all of them ask again, and skip in their turn.
fn hand_on_engines(queue: &QueueCore) {
    let device = queue.device.core();
    if !device.is_lost() {
        return;
    }
    for engine in [&device.copy_in, &device.copy_out, &device.copy_peer] {
        for waiting in engine.take_waiting() {
            queue.device.machine().engine.schedule(waiting);
        }
    }
}

fn skip(queue: &Arc<QueueCore>, position: Position, result: Result<(), ErrorKind>) -> Step {
    let mut state = queue.state.lock();
    let entry = state.ring.pop_front();
    if let Some(Command::Launch { arguments, .. }) = entry.as_ref().map(|entry| &entry.command) {
        state.parameters.reclaim(arguments.end);
    }
    let time = state.time;
    drop(state);
    let what = entry.as_ref().map_or((Operation::Flush, None), |entry| {
        (entry.command.operation(), Some(entry.origin))
    });
    queue.note_end(position, time);
    // A replay under way goes too; out of its place first, since what it keeps is the program's.
    let replay = queue.replay.lock().take();
    drop(replay);
    // What the command owned (a host function) goes before the position is said to have ended.
    drop(entry);
    queue.end(position, result, what);
    Step::Ended
}

fn obstacle(queue: &QueueCore) -> Obstacle {
    let state = queue.state.lock();
    match state.ring.front().map(|entry| &entry.command) {
        Some(Command::WaitQueue {
            queue: other,
            position,
        }) => Obstacle::Queue(Arc::clone(other), *position),
        Some(Command::WaitSemaphore { semaphore, value }) => {
            Obstacle::Semaphore(Arc::clone(semaphore), *value)
        }
        Some(Command::RunGraph { plan }) => Obstacle::Graph(Arc::clone(plan)),
        Some(command) => match command.operation() {
            copy @ (Operation::CopyToDevice | Operation::CopyToHost | Operation::CopyPeer) => {
                Obstacle::Engine(copy)
            }
            _ => Obstacle::None,
        },
        None => Obstacle::None,
    }
}

pub(crate) fn copy_engine(device: &DeviceCore, operation: Operation) -> &Resource<Arc<QueueCore>> {
    match operation {
        Operation::CopyToDevice => &device.copy_in,
        Operation::CopyToHost => &device.copy_out,
        _ => &device.copy_peer,
    }
}

/// Hangs the queue on a counter; `None` if the counter is there already and the queue still the caller's.
fn hang(
    queue: &Arc<QueueCore>,
    awaited: &Progress<Watcher>,
    number: u64,
    stay: impl FnOnce(u64) -> Step,
) -> Option<Step> {
    if awaited.reached() >= number {
        return None;
    }
    let ticket = queue.begin_stall();
    match awaited.watch(number, Watcher::Queue(Arc::clone(queue), ticket)) {
        Ok(()) => Some(stay(ticket)),
        Err(_) if queue.cancel_stall(ticket) => None,
        Err(_) => Some(Step::Waits),
    }
}

/// Loss of the device wakes every stalled queue. One that stalled just after that wakes itself.
fn stay_stalled(queue: &QueueCore, ticket: u64) -> Step {
    if queue.device.core().is_lost() && queue.cancel_stall(ticket) {
        return Step::Ended;
    }
    Step::Waits
}

fn run_front(
    queue: &Arc<QueueCore>,
    position: Position,
    engine: Option<&Resource<Arc<QueueCore>>>,
) -> Step {
    let Some(entry) = queue.state.lock().ring.pop_front() else {
        return Step::Empty;
    };
    let (operation, origin) = (entry.command.operation(), entry.origin);
    let mut record = record(queue, position, &entry);
    let schedule = plan::plan(queue, &entry.command, entry.submitted_at);
    let start = schedule.map_or_else(|| now_if_traced(queue), |(start, _)| start);
    let outcome = run(queue, position, entry, &mut record);
    if let Some(engine) = engine {
        release(queue, engine);
    }
    let result = match outcome {
        Outcome::Ended(result) => result,
        Outcome::HeldByHost => return Step::Waits,
        Outcome::Hangs => {
            // The launch never ends: it goes back to the front, and only loss of the device ends the stall.
            let ticket = queue.begin_stall();
            return stay_stalled(queue, ticket);
        }
    };
    let end = schedule.map_or_else(|| now_if_traced(queue), |(_, end)| end);
    if schedule.is_some() {
        queue.note_end(position, end);
        queue.device.machine().engine.pass_time(end);
    }
    if let Some(record) = &mut record {
        (record.start_ns, record.end_ns) = (start, end);
        queue.device.core().trace.push(record.clone());
    }
    queue.end(position, result, (operation, Some(origin)));
    Step::Ended
}

enum Outcome {
    Ended(Result<(), ErrorKind>),
    /// A host function runs elsewhere; it ends the command.
    HeldByHost,
    /// By a fault plan: never ends.
    Hangs,
}

fn run(
    queue: &Arc<QueueCore>,
    position: Position,
    entry: Entry,
    record: &mut Option<ExecutionRecord>,
) -> Outcome {
    let origin = entry.origin;
    Outcome::Ended(match entry.command {
        Command::Launch {
            kernel,
            grid,
            arguments,
        } => {
            return launch(queue, kernel, grid, arguments, origin);
        }
        Command::CopyToDevice { dst, src } => movement::copy_in(queue, dst, src),
        Command::CopyToHost { dst, src } => movement::copy_out(queue, dst, src),
        Command::CopyOnDevice { dst, src } => movement::copy_within(queue, dst, src),
        Command::CopyPeer { dst, src, bytes } => movement::copy_peer(queue, dst, src, bytes),
        Command::Fill { dst, pattern } => movement::fill(queue, dst, pattern),
        Command::WaitQueue {
            queue: other,
            position,
        } => inherit_failure(&other, position),
        Command::WaitSemaphore { .. } => Ok(()),
        Command::SignalSemaphore { semaphore, value } => {
            // The lock goes first: raising wakes other queues, under theirs.
            let time = queue.state.lock().time;
            semaphore.raise(value, time);
            Ok(())
        }
        Command::WriteTimestamp { pool, index } => {
            pool.write(index, device_time(queue));
            Ok(())
        }
        // Runs a node at a time instead: see `step_graph`.
        Command::RunGraph { .. } => Ok(()),
        Command::CallHost { function } => {
            return call_host(queue, (position, origin), function, record);
        }
    })
}

fn device_time(queue: &QueueCore) -> u64 {
    let engine = &queue.device.machine().engine;
    if engine.is_virtual() {
        queue.state.lock().time
    } else {
        engine.now()
    }
}

/// A wait for something that failed fails.
fn inherit_failure(other: &QueueCore, position: Position) -> Result<(), ErrorKind> {
    match other.failure() {
        Some(failure) if failure.position <= position => Err(ErrorKind::DependencyFailed {
            queue: other.id,
            position,
        }),
        _ => Ok(()),
    }
}

fn call_host(
    queue: &Arc<QueueCore>,
    (position, origin): (Position, Origin),
    function: piton_driver::HostFunction,
    record: &mut Option<ExecutionRecord>,
) -> Outcome {
    let engine = &queue.device.machine().engine;
    if engine.is_virtual() {
        return Outcome::Ended(engine.as_host(|| host_function::call(function)));
    }
    let call = HostCall {
        function,
        queue: Arc::clone(queue),
        position,
        origin,
        record: record.take(),
        node: None,
    };
    match engine.call_host(call) {
        Ok(()) => Outcome::HeldByHost,
        Err(error) => Outcome::Ended(Err(error.kind)),
    }
}

fn launch(
    queue: &Arc<QueueCore>,
    kernel: Arc<crate::kernel::SimKernel>,
    grid: piton_driver::Grid,
    reservation: Reservation,
    origin: Origin,
) -> Outcome {
    use crate::fault::KernelFate;
    let machine = queue.device.machine();
    match machine.faults.kernel() {
        KernelFate::Runs => {}
        KernelFate::Traps(code) => {
            queue.state.lock().parameters.reclaim(reservation.end);
            return Outcome::Ended(Err(ErrorKind::KernelFault(Fault::Trapped { code })));
        }
        KernelFate::Hangs => {
            let command = Command::Launch {
                kernel,
                grid,
                arguments: reservation,
            };
            let submitted_at = machine.engine.host_now();
            let entry = Entry {
                command,
                submitted_at,
                origin,
            };
            queue.state.lock().ring.push_front(entry);
            return Outcome::Hangs;
        }
    }
    let arguments: Box<[u8]> = queue.state.lock().parameters.get(reservation).into();
    let result = run_grid(queue, kernel, grid, arguments);
    queue.state.lock().parameters.reclaim(reservation.end);
    Outcome::Ended(result)
}

/// Runs a launch's blocks, on idle threads too, and waits for all of them.
pub(crate) fn run_grid(
    queue: &QueueCore,
    kernel: Arc<crate::kernel::SimKernel>,
    grid: piton_driver::Grid,
    arguments: Box<[u8]>,
) -> Result<(), ErrorKind> {
    let machine = queue.device.machine();
    let cores = queue.device.core().config.compute_units;
    let limit = queue.units.map_or(cores, |units| units.count()).max(1);
    let device = queue.device.clone();
    let job = Arc::new(GridJob::new(kernel, device, grid, arguments, limit));
    let is_shared = job.wanted() > 1 && !machine.engine.is_virtual();
    if is_shared {
        machine.engine.offer(&job);
    }
    job.take_part();
    if is_shared {
        machine.engine.withdraw(&job);
    }
    job.finish().map_err(ErrorKind::KernelFault)
}

fn now_if_traced(queue: &QueueCore) -> u64 {
    if queue.device.core().trace.is_on() {
        queue.device.machine().engine.now()
    } else {
        0
    }
}

/// What the trace will say of a command, less its times; `None` while nobody traces.
fn record(queue: &QueueCore, position: Position, entry: &Entry) -> Option<ExecutionRecord> {
    if !queue.device.core().trace.is_on() {
        return None;
    }
    let own = queue.device.id();
    let command = &entry.command;
    Some(ExecutionRecord {
        queue: queue.id,
        label: queue.label.clone(),
        position,
        operation: command.operation(),
        start_ns: 0,
        end_ns: 0,
        bytes: command.bytes(),
        kernel: match command {
            Command::Launch { kernel, .. } => Some(kernel.definition.shared_name()),
            _ => None,
        },
        peer: match command {
            Command::CopyPeer { dst, src, .. } => Some(if src.device == own {
                dst.device
            } else {
                src.device
            }),
            _ => None,
        },
        origin: Some(entry.origin),
        awaited: match command {
            Command::WaitQueue { queue, position } => Some((queue.id, *position)),
            _ => None,
        },
    })
}
