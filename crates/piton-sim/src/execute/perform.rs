//! What each command does when its turn has come.

#![expect(
    unsafe_code,
    reason = "commands carry references that the queue keeps alive"
)]

use crate::{
    command::{Arguments, Command, Entry},
    fault::KernelFate,
    grid::GridJob,
    host_function::{self, HostCall},
    kernel::SimKernel,
    memory_wait,
    movement::{self, Moved},
    queue::QueueCore,
    trace::Draft,
    word,
};
use piton_driver::{ErrorKind, Fault, Grid, Position};
use std::sync::Arc;

pub(super) enum Outcome {
    Ended(Result<(), ErrorKind>),
    /// A host function runs elsewhere; it ends the command.
    HeldByHost,
    /// By a fault plan: never ends.
    Hangs,
}

/// Does what the command says; `draft` is what the trace will say of it. The caller owns the queue's front.
pub(super) fn perform(
    queue: &Arc<QueueCore>,
    position: u64,
    entry: &Entry,
    draft: Option<&Draft>,
) -> Outcome {
    let result = match &entry.command {
        Command::Launch {
            kernel,
            grid,
            arguments,
        } => {
            let bytes = match arguments {
                Arguments::Inline { length, words } => {
                    &bytemuck::cast_slice(words)[..usize::from(*length)]
                }
                // SAFETY: the front is the caller's, and the reservation is released after the last use of the bytes.
                Arguments::Ring(reservation) => unsafe {
                    queue.consumer.parameters.get(*reservation)
                },
                Arguments::Own(bytes) => bytes,
            };
            // SAFETY: the command has not ended.
            let kernel = unsafe { kernel.get() };
            let result = launch(queue, position, (kernel, *grid), bytes);
            if let (Some(_), Arguments::Ring(reservation)) = (&result, arguments) {
                queue.consumer.parameters.release(*reservation);
            }
            // Success apart: to move a result of which only the tag was written costs more than the kernel's call.
            match result {
                Some(Ok(())) => Ok(()),
                Some(failed) => failed,
                None => return Outcome::Hangs,
            }
        }
        Command::CallHost { .. } => return call_host(queue, position, draft),
        Command::WaitQueue {
            queue: other,
            position,
            inherits: true,
        } => inherit_failure(other, *position),
        Command::WaitQueue { .. } => Ok(()),
        Command::WaitMemory(wait) => memory_wait::is_met(&queue.device, *wait).map(drop),
        Command::WaitSemaphore { .. } => Ok(()),
        Command::SignalSemaphore { semaphore, value } => {
            semaphore.raise(*value, queue.time_if_virtual());
            semaphore.settle(queue, position, true);
            Ok(())
        }
        Command::WriteTimestamp { pool, index } => {
            pool.write(*index, device_time(queue));
            Ok(())
        }
        Command::CopyPeer { dst, src, bytes } => {
            match movement::copy_peer(queue, *dst, *src, *bytes) {
                Ok(Moved::All) => Ok(()),
                Ok(Moved::Never) => return Outcome::Hangs,
                Err(kind) => Err(kind),
            }
        }
        moves => move_bytes(queue, moves),
    };
    if entry.command.may_write_memory() {
        queue.device.machine().memory_waits.written();
    }
    Outcome::Ended(result)
}

fn move_bytes(queue: &QueueCore, command: &Command) -> Result<(), ErrorKind> {
    match command {
        Command::CopyToDevice { dst, src } => movement::copy_in(queue, *dst, *src),
        Command::CopyToHost { dst, src } => movement::copy_out(queue, *dst, *src),
        Command::CopyOnDevice { dst, src } => movement::copy_within(queue, *dst, *src),
        Command::Fill { dst, pattern } => movement::fill(queue, *dst, *pattern),
        Command::WriteMemory { at, value } => word::write(&queue.device, *at, *value),
        _ => Ok(()),
    }
}

fn device_time(queue: &QueueCore) -> u64 {
    let engine = queue.engine();
    if engine.is_virtual() {
        queue.time()
    } else {
        engine.now()
    }
}

/// A wait for something that failed fails.
fn inherit_failure(other: &QueueCore, position: u64) -> Result<(), ErrorKind> {
    if other.trouble.spoils(position) {
        return Err(ErrorKind::DependencyFailed {
            queue: other.id,
            position: Position::new(position),
        });
    }
    Ok(())
}

fn call_host(queue: &Arc<QueueCore>, position: u64, draft: Option<&Draft>) -> Outcome {
    // SAFETY: the front is the caller's, and a host function is taken out of the ring here and nowhere else.
    let entry = unsafe { queue.ring.take(position) };
    let origin = entry.origin;
    let Command::CallHost { function } = entry.command else {
        return Outcome::Ended(Ok(()));
    };
    let engine = queue.engine();
    if engine.is_virtual() {
        let result = engine.as_host(queue.time(), || host_function::call(function));
        return Outcome::Ended(result);
    }
    let call = HostCall {
        function,
        queue: Arc::clone(queue),
        position,
        origin,
        draft: draft.copied(),
        node: None,
    };
    match engine.call_host(call) {
        Ok(()) => Outcome::HeldByHost,
        Err(error) => Outcome::Ended(Err(error.kind)),
    }
}

/// Runs a kernel, of a command or of a graph's node, as the fault plan lets it; `None` if it never ends.
pub(crate) fn launch(
    queue: &QueueCore,
    position: u64,
    kernel: (&SimKernel, Grid),
    arguments: &[u8],
) -> Option<Result<(), ErrorKind>> {
    match queue.device.machine().faults.kernel() {
        KernelFate::Runs => Some(run_grid(queue, position, kernel, arguments)),
        KernelFate::Traps(code) => Some(Err(ErrorKind::KernelFault(Fault::Trapped { code }))),
        KernelFate::Hangs => None,
    }
}

/// Runs a launch's blocks, on idle threads too, and waits for all of them.
fn run_grid(
    queue: &QueueCore,
    position: u64,
    (kernel, grid): (&SimKernel, Grid),
    arguments: &[u8],
) -> Result<(), ErrorKind> {
    let engine = queue.engine();
    let cores = queue.device.core().config.compute_units;
    let limit = queue.units.map_or(cores, |units| units.count()).max(1);
    let job = GridJob::new(
        (kernel, &queue.device),
        grid,
        arguments,
        limit,
        (position, queue.trouble.aborted()),
    );
    let is_shared = job.wanted() > 1 && !engine.is_virtual();
    if is_shared {
        engine.run_shared(&job)
    } else {
        job.run_alone()
    }
}
