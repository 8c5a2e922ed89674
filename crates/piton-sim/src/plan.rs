//! When a command starts and ends in virtual time.
//!
//! A command starts when its queue, its submission and what it needs (cores, a copy engine, what it waits for)
//! allow, and takes as long as `cost` says. Nothing here runs anything.
//!
//! A copy is made ready while the copy before it is carried, by its own queue or by the engine for another: what it costs to start
//! is time from when it could be looked at, and keeps no engine busy.

use crate::{
    command::{Command, Entry},
    cost,
    execute::copy_engine,
    kernel::SimKernel,
    queue::QueueCore,
};
use piton_driver::{Grid, Operation, PeerAddress};

/// When a command starts and ends, in virtual time; `None` in real time.
pub(crate) fn plan(queue: &QueueCore, command: &Command, submitted_at: u64) -> Option<(u64, u64)> {
    let machine = queue.device.machine();
    if !machine.engine.is_virtual() {
        return None;
    }
    let device = queue.device.core();
    let earliest = queue.ready_at(submitted_at);
    let host = device.config.host_bytes_per_second;
    let duration = match command {
        Command::Launch { kernel, grid, .. } => {
            #[expect(unsafe_code, reason = "a counted reference, without the count")]
            // SAFETY: a command that can be borrowed has not ended.
            let kernel = unsafe { kernel.get() };
            let ns = grid_ns(queue, kernel, *grid);
            let ready = earliest.saturating_add(cost::START_NS);
            let start = device.cores.occupy(ready, ns);
            return Some((start, start.saturating_add(ns)));
        }
        Command::WaitQueue {
            queue: other,
            position,
            ..
        } => {
            let met = other.ended_at(*position).max(earliest);
            return Some((met, met));
        }
        Command::WaitSemaphore { semaphore, value } => {
            let met = semaphore.raised_at(*value).max(earliest);
            return Some((met, met));
        }
        Command::CopyToDevice { .. } | Command::CopyToHost { .. } => {
            cost::transfer_ns(command.bytes(), host)
        }
        Command::CopyPeer { dst, src, bytes } => peer_ns(queue, *dst, *src, *bytes),
        Command::CopyOnDevice { .. } | Command::Fill { .. } => {
            let rate = cost::MEMORY_BYTES_PER_SECOND;
            cost::START_NS + cost::transfer_ns(command.bytes(), rate)
        }
        _ => cost::CONTROL_NS,
    };
    if let copy @ (Operation::CopyToDevice | Operation::CopyToHost | Operation::CopyPeer) =
        command.operation()
    {
        let lead = cost::lead_ns(queue.prepared_at(submitted_at), earliest);
        let ready = earliest.saturating_add(lead);
        // Whoever is next on the engine comes no sooner.
        let busy = duration.saturating_add(cost::BETWEEN_COPIES_NS);
        let moves = copy_engine(device, copy).occupy(ready, busy);
        let waited = if moves > ready {
            cost::BETWEEN_COPIES_NS
        } else {
            lead
        };
        return Some((moves - waited, moves.saturating_add(duration)));
    }
    Some((earliest, earliest.saturating_add(duration)))
}

/// From when on the queue's next command is made ready, where this one began and ended so: beside a copy from when its bytes move,
/// behind a wait from when what is awaited was there, and otherwise when this one has ended. So no two copies of a queue begin to
/// move bytes in less than a start, however short they are.
pub(crate) fn prepared(queue: &QueueCore, entry: &Entry, (start, end): (u64, u64)) -> u64 {
    let awaited = |met: u64| queue.prepared_at(met);
    match &entry.command {
        Command::CopyToDevice { .. } | Command::CopyToHost { .. } | Command::CopyPeer { .. } => {
            let lead = cost::lead_ns(queue.prepared_at(entry.submitted_at), start);
            start.saturating_add(lead)
        }
        Command::WaitQueue {
            queue: other,
            position,
            ..
        } => awaited(other.ended_at(*position)),
        Command::WaitSemaphore { semaphore, value } => awaited(semaphore.raised_at(*value)),
        _ => end,
    }
}

/// How long a kernel runs on the cores that the queue may use.
pub(crate) fn grid_ns(queue: &QueueCore, kernel: &SimKernel, grid: Grid) -> u64 {
    let cores = queue.device.core().config.compute_units;
    let units = queue.units.map_or(cores, |units| units.count());
    cost::grid_ns(grid, units, kernel.definition.block_ns())
}

/// How long bytes take between two devices: over their link, or as fast as to the host where there is none.
pub(crate) fn peer_ns(queue: &QueueCore, dst: PeerAddress, src: PeerAddress, bytes: u64) -> u64 {
    let host = queue.device.core().config.host_bytes_per_second;
    let link = queue.device.machine().link(dst.device, src.device);
    let (rate, latency) = link.map_or((host, 0), |link| (link.bytes_per_second, link.latency_ns));
    let slowness = slowness_between(queue, dst, src);
    (latency + cost::transfer_ns(bytes, rate)).saturating_mul(slowness)
}

/// How many times as long as it should a copy takes, by the fault plan.
pub(crate) fn slowness(queue: &QueueCore, command: &Command) -> u64 {
    match command {
        Command::CopyPeer { dst, src, .. } => slowness_between(queue, *dst, *src),
        _ => 1,
    }
}

fn slowness_between(queue: &QueueCore, dst: PeerAddress, src: PeerAddress) -> u64 {
    let faults = &queue.device.machine().faults;
    faults.slowness(dst.device, src.device)
}
