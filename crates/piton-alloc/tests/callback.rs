//! A callback that frees something when nothing else helps.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod source;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bench::{BLOCK, Bench, config};
use piton_alloc::{AllocError, Request};

#[test]
fn a_callback_that_asks_for_memory_itself_is_not_called_from_within() {
    let bench = Bench::new(BLOCK, config());
    let pool = Arc::new(bench.pool);
    let calls = Arc::new(AtomicUsize::new(0));
    let (weak, counted) = (Arc::downgrade(&pool), Arc::clone(&calls));
    pool.on_out_of_memory(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        let pool = weak.upgrade().unwrap();
        let inner = pool.allocate(Request::new(BLOCK));
        assert!(matches!(inner, Err(AllocError::FullNow(_))), "{inner:?}");
        false
    });
    let _all = pool.allocate(Request::new(BLOCK)).unwrap();
    for expected in 1..=2 {
        let refused = pool.allocate(Request::new(BLOCK));
        assert!(matches!(refused, Err(AllocError::FullNow(_))));
        assert_eq!(calls.load(Ordering::Relaxed), expected);
    }
}
