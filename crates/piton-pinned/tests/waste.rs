//! How much more than it asked for a request gets.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helper functions of tests may panic as tests may; what was skipped is said"
)]

mod fake;

use fake::{Ability, FakeDevice};
use flate2::read::MultiGzDecoder;
use piton_pinned::{PinnedBlock, PinnedPool, PinnedPoolConfig};
use piton_timeline::Timeline;
use proptest::prelude::*;
use std::{
    collections::HashMap,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

fn pool() -> PinnedPool {
    let config = PinnedPoolConfig {
        cap_bytes: 1 << 44,
        ..PinnedPoolConfig::default()
    };
    PinnedPool::new(FakeDevice::new(Ability::default()), Timeline::new(), config).unwrap()
}

#[test]
fn large_requests_cost_a_page_more_at_most_however_large() {
    let pool = pool();
    // Rounded up to powers of two, these would take half as much again.
    let sizes = [140 * MIB + 1, 9 * GIB + 4095, 22 * GIB - 7];
    let blocks = sizes.map(|bytes| pool.allocate(bytes).unwrap());
    let stats = pool.stats();
    let asked: usize = sizes.iter().sum();
    assert_eq!(stats.requested_bytes, asked as u64);
    assert!(stats.live_bytes - stats.requested_bytes < 3 * 4096);
    assert_eq!(stats.held_bytes, stats.live_bytes);
    drop(blocks);
    pool.check().unwrap();
}

#[test]
fn sizes_of_every_scale_get_a_tenth_more_on_average() {
    let pool = pool();
    let (mut asked, mut taken) = (0_f64, 0_f64);
    // The same number of each doubling, each weighing the same.
    for doubling in 10..25 {
        for step in 0..64_usize {
            let bytes = (1 << doubling) + ((step * 2 + 1) << doubling) / 128;
            let block = pool.allocate(bytes).unwrap();
            asked += 1.0;
            taken += block.capacity() as f64 / bytes as f64;
        }
    }
    assert!(taken / asked < 1.11, "{}", taken / asked);
}

#[test]
fn requests_that_grow_leave_no_more_behind_than_they_need() {
    let pool = pool();
    let mut block = pool.allocate(33 * MIB).unwrap();
    for step in 34..80 {
        // As a growing buffer does: the next before the last goes.
        block = pool.allocate(step * MIB).unwrap();
        let held = pool.stats().held_bytes;
        assert!(held < 4 * (step * MIB) as u64, "{held} for {step} MiB");
    }
    drop(block);
    pool.check().unwrap();
}

#[test]
fn small_blocks_that_are_free_are_merged_before_more_is_asked_for() {
    let pool = pool();
    for doubling in 10..20 {
        let blocks: Vec<_> = (0..64 << (20 - doubling))
            .map(|_| pool.allocate(1 << doubling).unwrap())
            .collect();
        drop(blocks);
        pool.flush_thread();
        pool.check().unwrap();
    }
    let held = pool.stats().held_bytes;
    // Ten sizes had 64 MiB each, one after the other.
    assert!(held <= 128 << 20, "{held}");
}

#[test]
fn few_free_blocks_of_another_size_serve_a_request_before_more_is_asked_for() {
    let pool = pool();
    let mut blocks: Vec<_> = (0..64).map(|_| pool.allocate(MIB).unwrap()).collect();
    let before = pool.stats();
    // A slab of them, a sixteenth of what there is.
    blocks.drain(..4);
    pool.flush_thread();
    let larger = pool.allocate(2 * MIB).unwrap();
    let after = pool.stats();
    assert_eq!(after.held_bytes, before.held_bytes);
    assert_eq!(after.driver_allocations, before.driver_allocations);
    drop((larger, blocks));
    pool.check().unwrap();
}

/// Requests recorded elsewhere: the files of the folder that `variable` names, else of `shared/NAME` beside the
/// repository. Without any a line says so.
fn recorded(variable: &str, name: &str) -> Vec<PathBuf> {
    let beside = || {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared")
            .join(name)
    };
    let folder = std::env::var_os(variable).map_or_else(beside, PathBuf::from);
    let entries = fs::read_dir(&folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.to_string_lossy();
            name.ends_with(".csv") || name.ends_with(".csv.gz")
        })
        .collect();
    files.sort();
    if files.is_empty() {
        println!("skipped: nothing recorded in {}", folder.display());
    }
    files
}

fn lines_of(path: &Path) -> String {
    let mut text = String::new();
    let file = fs::File::open(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "gz") {
        MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
    } else {
        text = std::io::read_to_string(file).unwrap();
    }
    text
}

/// Serves recorded requests, one a line (`a,NAME,BYTES,STREAM` or `f,NAME,STREAM`), holding each block to its bound;
/// bytes taken for each byte asked for.
#[track_caller]
fn serve(lines: &str) -> f64 {
    let pool = pool();
    let mut live: HashMap<&str, PinnedBlock> = HashMap::new();
    let (mut asked, mut taken) = (0, 0);
    for line in lines.lines() {
        let mut fields = line.split(',');
        let (kind, name, bytes) = (fields.next(), fields.next(), fields.next());
        match (kind, name, bytes.and_then(|bytes| bytes.parse().ok())) {
            (Some("a"), Some(name), Some(bytes)) if bytes > 0 => {
                let block = pool.allocate(bytes).unwrap();
                check_slack(&block);
                asked += block.bytes() as u64;
                taken += block.capacity();
                live.insert(name, block);
            }
            (Some("f"), Some(name), _) => drop(live.remove(name)),
            _ => {}
        }
    }
    drop(live);
    pool.check().unwrap();
    taken as f64 / asked.max(1) as f64
}

#[track_caller]
fn check_slack(block: &PinnedBlock) {
    let bytes = block.bytes();
    let slack = usize::try_from(block.capacity()).unwrap() - bytes;
    let bound = if bytes > 32 * MIB {
        4095
    } else {
        (bytes / 4).max(63)
    };
    assert!(slack <= bound, "{bytes} bytes: {slack} more");
}

#[test]
fn recorded_requests_get_an_eighth_more_at_most_and_each_no_more_than_its_bound() {
    for path in recorded("PITON_TRACES", "traces") {
        let ratio = serve(&lines_of(&path));
        println!("{}: {ratio:.3} taken for each byte", path.display());
        assert!(ratio <= 1.12, "{}: {ratio}", path.display());
    }
}

#[test]
fn requests_far_from_powers_of_two_get_a_page_more_at_most() {
    // Our own of the kind: rounded up to powers of two they would get up to twice what they asked for.
    assert!(serve("a,0,134300000,0\na,1,8600000001,0\nf,0,0\na,2,17300000123,0\n") < 1.0001);
    for path in recorded("PITON_CASES", "cases/allocator") {
        let ratio = serve(&lines_of(&path));
        println!("{}: {ratio:.4} taken for each byte", path.display());
        if path.to_string_lossy().contains("07-pinned-power-of-two") {
            assert!(ratio < 1.0001, "{ratio}");
        }
    }
}

proptest! {
    #[test]
    fn no_request_gets_more_than_a_quarter_more_or_63_bytes(bits in 0_u32..36, part in 0_u64..1 << 36) {
        let bytes = usize::try_from((1 << bits) + part % (1 << bits)).unwrap();
        let pool = pool();
        let block = pool.allocate(bytes).unwrap();
        check_slack(&block);
    }
}
