//! What it costs to have locked memory, by the MiB: with large pages and without, asked for together or not.

use crate::subject::median;
use comfy_table::Table;
use piton_driver::{DeviceId, Driver, Locking};
use piton_pinned::{HostPages, PinnedPool, PinnedPoolConfig};
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use piton_timeline::Timeline;
use std::time::Instant;

/// Microseconds a MiB that a fresh pool takes for one block; and whether it came locked.
#[expect(clippy::expect_used, reason = "a benchmark without memory ends")]
fn fresh(pages: HostPages, bytes: usize) -> (f64, bool) {
    let driver = SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default()));
    let device = driver
        .expect("a device")
        .open(DeviceId(0))
        .expect("a device");
    let config = PinnedPoolConfig {
        pages,
        locking: Locking::Preferred,
        ..PinnedPoolConfig::default()
    };
    let pool = PinnedPool::new(device, Timeline::new(), config).expect("a pool");
    let began = Instant::now();
    let block = pool.allocate(bytes).expect("memory");
    let spent = began.elapsed().as_secs_f64();
    let stats = pool.stats();
    drop(block);
    let mebibytes = (bytes >> 20) as f64;
    (
        spent * 1e6 / mebibytes,
        stats.locked_bytes == stats.held_bytes,
    )
}

/// One row a size.
pub(crate) fn table(is_full: bool) -> Table {
    let (samples, sizes) = if is_full {
        (5, &[4, 64, 256, 1024][..])
    } else {
        (1, &[4][..])
    };
    let mut table = Table::new();
    table.set_header([
        "MiB in one request",
        "the driver's pages, us a MiB",
        "large pages, us a MiB",
        "all of it locked",
    ]);
    for mebibytes in sizes {
        let bytes = mebibytes << 20;
        let (mut driver, mut huge, mut is_locked) = (Vec::new(), Vec::new(), true);
        for _ in 0..samples {
            for (pages, figures) in [
                (HostPages::Driver, &mut driver),
                (HostPages::Huge, &mut huge),
            ] {
                let (figure, locked) = fresh(pages, bytes);
                figures.push(figure);
                is_locked &= locked;
            }
        }
        table.add_row([
            mebibytes.to_string(),
            format!("{:.0}", median(&driver)),
            format!("{:.0}", median(&huge)),
            if is_locked { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table
}
