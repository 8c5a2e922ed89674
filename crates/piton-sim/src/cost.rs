//! What things cost in virtual time. Orders of magnitude of a present data-centre device, to make schedules
//! plausible; nothing is tuned to a particular one.

use piton_driver::Grid;

/// Nanoseconds to start anything on a hardware queue (CUDA: 2 to 5 us, launch latency measured by vendors).
pub(crate) const START_NS: u64 = 3_000;
/// Nanoseconds from one copy on an engine to the next that was ready to start.
pub(crate) const BETWEEN_COPIES_NS: u64 = 1_000;
/// Nanoseconds a block takes where its kernel does not say.
pub(crate) const BLOCK_NS: u64 = 2_000;
/// Nanoseconds of a wait, signal, timestamp or host call.
pub(crate) const CONTROL_NS: u64 = 200;
/// Bytes a second within the device's memory.
pub(crate) const MEMORY_BYTES_PER_SECOND: u64 = 1_000_000_000_000;

/// Nanoseconds from when a copy gets its engine, at `start`, until its bytes move. It is made ready from `prepared` on, which
/// may have been while the engine carried another; see `plan::prepared`.
pub(crate) fn lead_ns(prepared: u64, start: u64) -> u64 {
    let ready = prepared.saturating_add(START_NS);
    ready.saturating_sub(start).max(BETWEEN_COPIES_NS)
}

/// Nanoseconds for `bytes` at `bytes_per_second`, rounded up.
pub(crate) fn transfer_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000;
    u64::try_from(ns.div_ceil(u128::from(bytes_per_second.max(1)))).unwrap_or(u64::MAX)
}

/// Nanoseconds for a grid on `units` cores.
pub(crate) fn grid_ns(grid: Grid, units: u32, block_ns: u64) -> u64 {
    let blocks = grid.blocks().unwrap_or(u64::MAX);
    blocks
        .div_ceil(u64::from(units.max(1)))
        .saturating_mul(block_ns)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_ready_before_its_engine_was_free_waits_for_no_start() {
        assert_eq!(lead_ns(50, 50), START_NS);
        assert_eq!(lead_ns(50, 1_050), START_NS - 1_000);
        assert_eq!(lead_ns(50, 1_000_000), BETWEEN_COPIES_NS);
        assert_eq!(lead_ns(u64::MAX, 0), u64::MAX);
    }

    #[test]
    fn a_transfer_takes_bytes_over_bandwidth() {
        assert_eq!(transfer_ns(24_000, 24_000_000_000), 1_000);
        assert_eq!(transfer_ns(1, 1_000_000_000_000), 1);
        assert_eq!(transfer_ns(u64::MAX, 1), u64::MAX);
    }
}
