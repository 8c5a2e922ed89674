//! Real page locking, under a small limit and without privileges.

#![cfg(not(loom))]
#![expect(unsafe_code, reason = "lowering limits of a process is the system's")]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

use piton_driver::{DeviceId, Driver, ErrorKind, Locking};
use piton_pinned::{HostPages, PinnedError, PinnedPool, PinnedPoolConfig};
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use piton_timeline::Timeline;
use std::process::Command;

const LIMIT: u64 = 64 << 10;
const SLAB: u64 = 32 << 10;
/// Says that this process is the child, in which the limit is lowered.
const MARK: &str = "PITON_PINNED_SMALL_LIMIT";

fn pool(locking: Locking) -> PinnedPool {
    let driver = SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default())).unwrap();
    let config = PinnedPoolConfig {
        slab_bytes: SLAB,
        large_above_bytes: SLAB,
        locking,
        ..PinnedPoolConfig::default()
    };
    PinnedPool::new(driver.open(DeviceId(0)).unwrap(), Timeline::new(), config).unwrap()
}

/// Lowers the limit for good and gives privileges up; whether the limit holds now.
fn lower_limit() -> bool {
    let limit = libc::rlimit {
        rlim_cur: LIMIT,
        rlim_max: LIMIT,
    };
    // SAFETY: the limit is read and not kept.
    let lowered = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) };
    // SAFETY: touches no memory. A process without privileges is refused, and is what it is to be.
    let dropped = unsafe { libc::setuid(65_534) };
    // SAFETY: touches no memory.
    let is_root = unsafe { libc::geteuid() } == 0;
    lowered == 0 && (dropped == 0 || !is_root)
}

/// What a pool that must lock does as the limit comes near, and one that would rather.
fn under_the_limit() {
    let pool = self::pool(Locking::Required);
    let first = pool.allocate(20_000).unwrap();
    let second = pool.allocate(20_000).unwrap();
    assert_eq!(pool.stats().locked_bytes, LIMIT);
    let refused = pool.allocate(20_000).unwrap_err();
    let PinnedError::Driver(error) = refused else {
        panic!("{refused}");
    };
    let (requested, limit) = (SLAB, LIMIT);
    assert_eq!(error.kind, ErrorKind::LockRefused { requested, limit });
    pool.check().unwrap();
    drop(first);
    let third = pool.allocate(20_000).unwrap();
    drop((second, third));
    assert_eq!(pool.trim(0), LIMIT);

    let pool = self::pool(Locking::Preferred);
    let blocks = [(); 4].map(|()| pool.allocate(20_000).unwrap());
    let stats = pool.stats();
    assert_eq!((stats.locked_bytes, stats.held_bytes), (LIMIT, 4 * SLAB));
    drop(blocks);
    pool.check().unwrap();
}

#[test]
fn a_small_limit_is_told_with_its_numbers_or_done_without_as_configured() {
    if std::env::var_os(MARK).is_some() {
        if lower_limit() {
            under_the_limit();
        } else {
            println!("skipped: the limit on locked memory cannot be lowered here");
        }
        return;
    }
    let name = "a_small_limit_is_told_with_its_numbers_or_done_without_as_configured";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(MARK, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    let skipped = output.lines().find(|line| line.starts_with("skipped:"));
    skipped.into_iter().for_each(|line| println!("{line}"));
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{output}{errors}");
}

/// A figure of the system's, in bytes, from a file of `NAME: KILOBYTES kB` lines.
fn figure(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    1024 * kilobytes.parse::<u64>().unwrap()
}

#[test]
fn a_gibibyte_is_really_locked_and_let_go_again() {
    const GIB: usize = 1 << 30;
    if figure("/proc/meminfo", "MemAvailable:") < 3 << 30 {
        println!("skipped: less than 3 GiB of memory are available");
        return;
    }
    let config = PinnedPoolConfig {
        pages: HostPages::Huge,
        ..PinnedPoolConfig::default()
    };
    let driver = SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default())).unwrap();
    let device = driver.open(DeviceId(0)).unwrap();
    let pool = PinnedPool::new(device, Timeline::new(), config).unwrap();
    let block = match pool.allocate(GIB) {
        Ok(block) => block,
        Err(PinnedError::Driver(error)) if matches!(error.kind, ErrorKind::LockRefused { .. }) => {
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let locked = || figure("/proc/self/status", "VmLck:");
    assert!(locked() >= GIB as u64, "{}", locked());
    assert_eq!(pool.stats().locked_bytes, GIB as u64);
    drop(block);
    assert_eq!(pool.trim(0), GIB as u64);
    assert!(locked() < GIB as u64, "{}", locked());
    pool.check().unwrap();
}
