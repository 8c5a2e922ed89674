//! Records of what ran, while somebody traces.

use crate::{
    command::{Command, Entry},
    kernel::SimKernel,
    queue::QueueCore,
    trace::Draft,
};
use piton_driver::{DeviceId, PeerAddress, Signal};

/// The time, while somebody traces; one branch otherwise.
pub(super) fn now(queue: &QueueCore) -> u64 {
    if queue.device.core().trace.is_on() {
        queue.engine().now()
    } else {
        0
    }
}

/// What the trace will say of a command; `None` while nobody traces.
pub(super) fn begin(queue: &QueueCore, position: u64, entry: &Entry) -> Option<Draft> {
    queue
        .device
        .core()
        .trace
        .is_on()
        .then(|| describe(queue, position, entry))
}

#[cold]
fn describe(queue: &QueueCore, position: u64, entry: &Entry) -> Draft {
    let command = &entry.command;
    let draft = Draft::new(queue.id, position, command.operation(), entry.origin)
        .moving(command.bytes())
        .launching(command.kernel().map_or(0, identity));
    match command {
        Command::CopyPeer { dst, src, .. } => draft.with(other_end(queue, *dst, *src)),
        Command::WaitQueue {
            queue: other,
            position,
            ..
        } => draft.awaiting(other.id, *position),
        Command::WaitSemaphore { semaphore, value }
        | Command::SignalSemaphore { semaphore, value } => {
            draft.signalling(Signal::Semaphore(semaphore.id, *value))
        }
        Command::WaitMemory(wait) => draft.signalling(Signal::MemoryWait(*wait)),
        Command::WriteMemory { at, value } => {
            draft.signalling(Signal::MemoryWrite(at.start, *value))
        }
        _ => draft,
    }
}

/// What tells a kernel from others: where its name is, which the trace keeps, so no other comes to lie there.
pub(crate) fn identity(kernel: &SimKernel) -> usize {
    kernel.definition.name().as_ptr().addr()
}

/// The device at the other end of a copy between two.
pub(crate) fn other_end(queue: &QueueCore, dst: PeerAddress, src: PeerAddress) -> Option<DeviceId> {
    let is_sender = src.device == queue.device.id();
    Some(if is_sender { dst.device } else { src.device })
}

/// Keeps the record of a command, of a launch of `kernel` if it is one.
pub(crate) fn finish(
    queue: &QueueCore,
    draft: Option<Draft>,
    times: (u64, u64),
    kernel: Option<&SimKernel>,
) {
    if let Some(draft) = draft {
        let names = || {
            let kernel = kernel.map(|kernel| kernel.definition.shared_name());
            (queue.label.clone(), kernel)
        };
        queue.device.core().trace.push(&draft, times, names);
    }
}
