//! A fork of the process has the pool's memory and none of its threads.

#![cfg(not(loom))]
#![expect(unsafe_code, reason = "forking is unsafe")]

mod fake;

use fake::{Ability, FakeDevice};
use piton_driver::ErrorKind;
use piton_pinned::{PinnedBlock, PinnedError, PinnedPool, PinnedPoolConfig};
use piton_timeline::Timeline;

/// What the child found, as its exit status.
const AS_EXPECTED: i32 = 7;

/// Forks; the child does `work` with what is there and ends.
fn in_a_fork(work: impl FnOnce() -> bool) {
    // SAFETY: the child takes no lock: that is what is tested. The system's allocator may be used in a fork.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: a child that hangs is ended by the signal.
        unsafe { libc::alarm(40) };
        let status = if work() { AS_EXPECTED } else { 1 };
        // SAFETY: ends the child.
        unsafe { libc::_exit(status) };
    }
    assert!(process > 0, "the system forks");
    let mut status = 0;
    // SAFETY: waits for the child made above.
    let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
    assert_eq!(waited, process);
    assert!(libc::WIFEXITED(status), "the child hung: {status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), AS_EXPECTED);
}

#[test]
fn a_fork_is_refused_memory_and_what_it_drops_stays_the_parents() {
    let device = FakeDevice::new(Ability::default());
    let timeline = Timeline::new();
    let lane = timeline.register(None).unwrap();
    let config = PinnedPoolConfig::default();
    let pool = PinnedPool::new(device, timeline, config).unwrap();
    let mut blocks: Vec<Option<PinnedBlock>> = (0..100).map(|_| pool.allocate(4096).ok()).collect();
    for block in blocks.iter_mut().flatten().step_by(2) {
        block.try_as_mut_slice().unwrap().fill(5);
    }
    // The thread keeps some, so that the fork finds blocks as well as room for its own.
    blocks.truncate(90);
    let used = pool.allocate(4096).unwrap();
    used.record_read(lane.submit(1));
    let exact = pool.allocate(40 << 20).unwrap();
    blocks.extend([Some(used), Some(exact)]);
    let before = (pool.stats(), pool.thread_stats());
    in_a_fork(|| {
        let is_refused = |bytes| {
            matches!(
                pool.allocate(bytes),
                Err(PinnedError::Driver(error)) if error.kind == ErrorKind::Forked
            )
        };
        let was_refused = is_refused(4096);
        blocks.iter_mut().for_each(|block| *block = None);
        // No other thread has a lock here, so the numbers can be asked for.
        was_refused
            && is_refused(4096)
            && is_refused(40 << 20)
            && (pool.stats(), pool.thread_stats()) == before
            // What is done to what the thread keeps does not open the way to it.
            && {
                pool.flush_thread();
                is_refused(4096)
            }
    });
    assert_eq!((pool.stats(), pool.thread_stats()), before);
    lane.complete(1);
    pool.check().unwrap();
    for block in blocks.iter().take(90).flatten().step_by(2) {
        assert!(block.try_as_slice().unwrap().iter().all(|byte| *byte == 5));
    }
}
