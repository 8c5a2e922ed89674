//! The tables of a demonstration's page.

use std::time::Duration;

use piton::{PinnedStats, PoolStats};

use crate::demo::{Copying, Outcome, PinnedParts};
use crate::quantity;
use crate::report::{Column, Table};

use super::share;

pub(super) fn of(outcome: &Outcome) -> Vec<Table> {
    let mut tables: Vec<Table> = outcome.copying.iter().map(copying).collect();
    tables.extend([
        pools(&outcome.pools),
        pinned(&outcome.pinned),
        pinned_classes(&outcome.pinned_parts),
        pinned_threads(&outcome.pinned_parts),
    ]);
    tables
}

/// Copies in real time beside a `memcpy`.
fn copying(copying: &Copying) -> Table {
    let [straight, staged] = copying.of_memcpy();
    let rows = [
        ("memcpy", copying.memcpy, 1.0),
        ("straight from device to device", copying.straight, straight),
        ("through page-locked host memory", copying.staged, staged),
    ];
    let row = |(name, took, share): (&str, Duration, f64)| {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        vec![
            name.to_owned(),
            quantity::duration(nanos),
            format!("{share:.2}"),
        ]
    };
    table(
        "Copies between two simulated devices in real time",
        &format!(
            "{} each, the quickest of a few in turn; both ends are this machine's memory.",
            quantity::bytes(copying.bytes)
        ),
        &["copy", "took", "of the memcpy's rate"],
        rows.into_iter().map(row).collect(),
    )
}

fn pools(pools: &[PoolStats]) -> Table {
    let names = [
        "pool",
        "hits",
        "misses",
        "waits",
        "driver calls",
        "live",
        "held",
        "peak live",
        "peak held",
        "peak held / live",
    ];
    let row = |(index, pool): (usize, &PoolStats)| {
        vec![
            format!("device {index}"),
            quantity::count(pool.hits),
            quantity::count(pool.misses),
            quantity::count(pool.waits),
            quantity::count(pool.source_calls()),
            quantity::bytes(pool.live_bytes),
            quantity::bytes(pool.held_bytes),
            quantity::bytes(pool.peak_live_bytes),
            quantity::bytes(pool.peak_held_bytes),
            format!("{:.2}", share(pool.peak_held_bytes, pool.peak_live_bytes)),
        ]
    };
    table(
        "Device memory pools",
        "Hits were served from what the pool held; waits were handed out behind another stream's work.",
        &names,
        pools.iter().enumerate().map(row).collect(),
    )
}

fn pinned(pools: &[PinnedStats]) -> Table {
    let names = [
        "pool",
        "hits",
        "cut from slabs",
        "misses",
        "driver calls",
        "live",
        "pending",
        "held",
        "locked",
        "staged to it",
        "staged from it",
    ];
    let row = |(index, pool): (usize, &PinnedStats)| {
        vec![
            format!("device {index}"),
            quantity::count(pool.hits),
            quantity::count(pool.cuts),
            quantity::count(pool.misses),
            quantity::count(pool.driver_allocations + pool.driver_frees),
            quantity::bytes(pool.live_bytes),
            quantity::bytes(pool.pending_bytes),
            quantity::bytes(pool.held_bytes),
            quantity::bytes(pool.locked_bytes),
            pool.staging.to_device.way.to_string(),
            pool.staging.to_host.way.to_string(),
        ]
    };
    table(
        "Page-locked host memory pools",
        "",
        &names,
        pools.iter().enumerate().map(row).collect(),
    )
}

/// Classes of which a block was handed out.
fn pinned_classes(pools: &[PinnedParts]) -> Table {
    let names = [
        "pool",
        "block",
        "handed out",
        "live",
        "asked for, live",
        "kept by threads",
        "free for all",
    ];
    let mut rows = Vec::new();
    for (index, pool) in pools.iter().enumerate() {
        for class in pool.classes.iter().filter(|class| class.handed_out > 0) {
            let block = match class.block_bytes {
                0 => "exact".to_owned(),
                bytes => quantity::bytes(bytes),
            };
            rows.push(vec![
                format!("device {index}"),
                block,
                quantity::count(class.handed_out),
                quantity::count(class.live_blocks),
                quantity::bytes(class.requested_bytes),
                quantity::count(class.thread_blocks),
                quantity::count(class.depot_blocks),
            ]);
        }
    }
    table("Page-locked host memory by size class", "", &names, rows)
}

fn pinned_threads(pools: &[PinnedParts]) -> Table {
    let names = ["pool", "thread", "took", "dropped", "keeps", "bytes kept"];
    let mut rows = Vec::new();
    for (index, pool) in pools.iter().enumerate() {
        for (number, thread) in (1_u64..).zip(&pool.threads) {
            rows.push(vec![
                format!("device {index}"),
                quantity::count(number),
                quantity::count(thread.handed_out),
                quantity::count(thread.taken_back),
                quantity::count(thread.kept_blocks),
                quantity::bytes(thread.kept_bytes),
            ]);
        }
    }
    table(
        "Page-locked host memory by thread",
        "Threads that made calls and had not ended, the first one first. Any thread may drop what another took.",
        &names,
        rows,
    )
}

fn table(title: &str, note: &str, names: &[&str], rows: Vec<Vec<String>>) -> Table {
    let column = |(index, name): (usize, &&str)| {
        if index == 0 {
            Column::text(name)
        } else {
            Column::number(name)
        }
    };
    Table {
        title: title.to_owned(),
        note: note.to_owned(),
        columns: names.iter().enumerate().map(column).collect(),
        rows,
    }
}
