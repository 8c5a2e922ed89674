//! When a command starts and ends in virtual time.
//!
//! A command starts when its queue, its submission and what it needs (cores, a copy engine, what it waits for)
//! allow, and takes as long as `cost` says. Nothing here runs anything.

use crate::{command::Command, cost, execute::copy_engine, kernel::SimKernel, queue::QueueCore};
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
            cost::START_NS + cost::transfer_ns(command.bytes(), host)
        }
        Command::CopyPeer { dst, src, bytes } => {
            cost::START_NS + peer_ns(queue, *dst, *src, *bytes)
        }
        Command::CopyOnDevice { .. } | Command::Fill { .. } => {
            let rate = cost::MEMORY_BYTES_PER_SECOND;
            cost::START_NS + cost::transfer_ns(command.bytes(), rate)
        }
        _ => cost::CONTROL_NS,
    };
    let start = match command.operation() {
        copy @ (Operation::CopyToDevice | Operation::CopyToHost | Operation::CopyPeer) => {
            copy_engine(device, copy).occupy(earliest, duration)
        }
        _ => earliest,
    };
    Some((start, start.saturating_add(duration)))
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
