//! Running one node: what it does, and when it starts and ends.

use super::{plan::Work, run::GraphRun};
use crate::{
    cost,
    execute::{self, record},
    host_function,
    movement::{self, Moved},
    plan,
    queue::QueueCore,
    trace::Draft,
    word,
};
use piton_driver::{DeviceRange, ErrorKind, Operation};
use std::sync::Arc;

/// Nanoseconds from a node's being ready to its start: the device starts it, no host is asked.
const NODE_NS: u64 = 500;

/// How a node ended.
pub(super) struct Ran {
    pub(super) result: Result<(), ErrorKind>,
    /// When, in virtual time.
    pub(super) end: u64,
}

/// Runs a node; `None` if by a fault plan it never ends.
pub(super) fn run(
    queue: &Arc<QueueCore>,
    position: u64,
    run: &GraphRun,
    number: u32,
) -> Option<Ran> {
    let engine = &queue.device.machine().engine;
    let draft = draft(queue, position, run, number);
    let (start, end) = if engine.is_virtual() {
        times(queue, run.work(number), run.ready_at(number))
    } else {
        (draft.map_or(0, |_| engine.now()), 0)
    };
    let result = carry_out(queue, position, run, run.work(number))?;
    queue.device.machine().memory_waits.written();
    let ended = if engine.is_virtual() {
        end
    } else {
        draft.map_or(0, |_| engine.now())
    };
    let kernel = match run.work(number) {
        Work::Launch { kernel, .. } => Some(&**kernel),
        _ => None,
    };
    record::finish(queue, draft, (start, ended), kernel);
    Some(Ran { result, end })
}

fn carry_out(
    queue: &Arc<QueueCore>,
    position: u64,
    run: &GraphRun,
    work: &Work,
) -> Option<Result<(), ErrorKind>> {
    Some(match work {
        Work::Launch {
            kernel,
            grid,
            arguments,
        } => {
            let arguments = run.plan.arguments(arguments);
            return execute::launch(queue, position, (kernel, *grid), arguments);
        }
        Work::CopyToDevice { dst, src } => movement::copy_in(queue, *dst, *src),
        Work::CopyToHost { dst, src } => movement::copy_out(queue, *dst, *src),
        Work::CopyOnDevice { dst, src } => movement::copy_within(queue, *dst, *src),
        Work::CopyPeer { dst, src, bytes } => {
            match movement::copy_peer(queue, *dst, *src, *bytes) {
                Ok(Moved::All) => Ok(()),
                Ok(Moved::Never) => return None,
                Err(kind) => Err(kind),
            }
        }
        Work::Fill { dst, pattern } => movement::fill(queue, *dst, *pattern),
        Work::CallHost(function) => {
            let function = Arc::clone(function);
            let engine = &queue.device.machine().engine;
            engine.as_host(queue.time(), || {
                host_function::call(Box::new(move || function()))
            })
        }
        Work::Empty | Work::If { .. } | Work::While { .. } => Ok(()),
    })
}

/// When a node that is ready at `at` starts and ends, in virtual time.
fn times(queue: &QueueCore, work: &Work, at: u64) -> (u64, u64) {
    let device = queue.device.core();
    let begin = at.saturating_add(NODE_NS);
    let (start, duration) = match work {
        Work::Launch { kernel, grid, .. } => {
            let ns = plan::grid_ns(queue, kernel, *grid);
            (device.cores.occupy(begin, ns), ns)
        }
        Work::CopyToDevice { .. } | Work::CopyToHost { .. } | Work::CopyPeer { .. } => {
            let ns = transfer_ns(queue, work);
            let engine = execute::copy_engine(device, work.operation());
            (engine.occupy(begin, ns), ns)
        }
        Work::CopyOnDevice { .. } | Work::Fill { .. } => (
            begin,
            cost::transfer_ns(work.bytes(), cost::MEMORY_BYTES_PER_SECOND),
        ),
        Work::CallHost(_) => (begin, cost::CONTROL_NS),
        Work::Empty | Work::If { .. } | Work::While { .. } => (at, 0),
    };
    (start, start.saturating_add(duration))
}

fn transfer_ns(queue: &QueueCore, work: &Work) -> u64 {
    match work {
        Work::CopyPeer { dst, src, bytes } => plan::peer_ns(queue, *dst, *src, *bytes),
        _ => {
            let host = queue.device.core().config.host_bytes_per_second;
            cost::transfer_ns(work.bytes(), host)
        }
    }
}

/// Whether the word at `range` is not zero, looked at from `at` on; and when that was known, in virtual time.
pub(super) fn condition(
    queue: &QueueCore,
    range: DeviceRange,
    at: u64,
) -> (Result<bool, ErrorKind>, u64) {
    let is_set = word::read_u32(&queue.device, range).map(|word| word != 0);
    (is_set, at.saturating_add(cost::CONTROL_NS))
}

/// What the trace will say of a node; `None` while nobody traces, and for nodes that only order.
pub(super) fn draft(
    queue: &QueueCore,
    position: u64,
    run: &GraphRun,
    number: u32,
) -> Option<Draft> {
    let work = run.work(number);
    if !queue.device.core().trace.is_on() || work.operation() == Operation::RunGraph {
        return None;
    }
    let origin = run.plan.shapes[number as usize].origin;
    let draft = Draft::new(queue.id, position, work.operation(), origin).moving(work.bytes());
    Some(match work {
        Work::Launch { kernel, .. } => draft.launching(record::identity(kernel)),
        Work::CopyPeer { dst, src, .. } => draft.with(record::other_end(queue, *dst, *src)),
        _ => draft,
    })
}
