//! What the pool promises, one example each.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod source;

use bench::{BLOCK, Bench, KIB, config};
use piton_alloc::{
    AllocError, Allocation, BlockSource, ChunkState, CrossLane, FreeErrorKind, FullNow,
    MemoryEventKind, MemoryPoolConfig, Pending, PoolLimit, Request,
};
use piton_driver::DevicePtr;
use piton_timeline::Frontier;
use source::GRANULE;

#[test]
fn freed_memory_is_its_lanes_at_once_without_a_wait() {
    let mut bench = Bench::new(BLOCK, config());
    let first = bench.on(0, BLOCK);
    let ptr = first.ptr();
    let use_of_it = bench.work(0);
    bench.free(first, [use_of_it]);
    let again = bench.on(0, BLOCK);
    assert_eq!((again.ptr(), again.wait().is_empty()), (ptr, true));
    assert_eq!(bench.pool.stats().hits, 1);
}

#[test]
fn another_lane_gets_pending_memory_with_a_wait_before_the_pool_grows() {
    let mut bench = Bench::new(4 * BLOCK, config());
    let first = bench.on(0, BLOCK);
    let use_of_it = bench.work(0);
    bench.free(first, [use_of_it]);
    let taken = bench.on(1, BLOCK);
    assert_eq!(taken.wait().points(), [use_of_it]);
    assert_eq!(
        (
            bench.pool.stats().waits,
            bench.pool.stats().block_allocations
        ),
        (1, 1)
    );
}

#[test]
fn without_waits_another_lane_gets_new_memory_until_the_use_is_complete() {
    let never = MemoryPoolConfig {
        cross_lane: CrossLane::Never,
        ..config()
    };
    let mut bench = Bench::new(2 * BLOCK, never);
    let first = bench.on(0, BLOCK);
    let ptr = first.ptr();
    let use_of_it = bench.work(0);
    bench.free(first, [use_of_it]);
    let other = bench.on(1, BLOCK);
    assert_ne!(other.ptr(), ptr);
    let request = Request::new(BLOCK).on(bench.lanes[2].id());
    let full = bench.full_now(request);
    assert_eq!((full.pending, full.cached, full.live), (BLOCK, 0, BLOCK));
    assert!(!full.recovery.waits_allowed);
    bench.complete(0);
    assert_eq!(bench.on(2, BLOCK).ptr(), ptr);
}

#[test]
fn waits_can_be_kept_for_when_the_pool_is_full() {
    let when_full = MemoryPoolConfig {
        cross_lane: CrossLane::WaitWhenFull,
        ..config()
    };
    let mut bench = Bench::new(2 * BLOCK, when_full);
    let first = bench.on(0, BLOCK);
    let use_of_it = bench.work(0);
    bench.free(first, [use_of_it]);
    let second = bench.on(1, BLOCK);
    assert!(second.wait().is_empty());
    assert_eq!(bench.on(1, BLOCK).wait().points(), [use_of_it]);
}

#[test]
fn a_lane_that_is_ordered_behind_the_use_needs_no_wait() {
    let never = MemoryPoolConfig {
        cross_lane: CrossLane::Never,
        ..config()
    };
    let mut bench = Bench::new(BLOCK, never);
    let first = bench.on(0, BLOCK);
    let use_of_it = bench.work(0);
    bench.free(first, [use_of_it]);
    bench.lanes[1].note_wait(use_of_it, bench.lanes[1].now());
    assert!(bench.on(1, BLOCK).wait().is_empty());
}

#[test]
fn memory_given_back_unused_still_waits_for_its_former_uses() {
    let mut bench = Bench::new(BLOCK, config());
    let first = bench.on(0, BLOCK);
    let use_of_it = bench.work(0);
    bench.free(first, [use_of_it]);
    let unused = bench.on(0, BLOCK);
    bench.free(unused, []);
    let taken = bench.on(1, BLOCK);
    assert_eq!(taken.wait().points(), [use_of_it]);
    bench.free(taken, []);
    assert!(bench.pool.allocate(Request::new(BLOCK)).is_err());
    bench.complete(0);
    assert!(bench.pool.allocate(Request::new(BLOCK)).is_ok());
}

#[test]
fn a_use_on_a_third_lane_does_not_stand_for_the_wait() {
    let mut bench = Bench::new(BLOCK, config());
    let first = bench.on(0, BLOCK);
    let use_of_it = bench.work(0);
    bench.free(first, [use_of_it]);
    let taken = bench.on(1, BLOCK);
    assert_eq!(taken.wait().points(), [use_of_it]);
    let elsewhere = bench.work(2);
    bench.free(taken, [elsewhere]);
    assert_eq!(bench.on(1, BLOCK).wait().points(), [use_of_it, elsewhere]);
}

#[test]
fn memory_that_two_lanes_used_waits_for_both() {
    let mut bench = Bench::new(BLOCK, config());
    let first = bench.on(0, BLOCK);
    let uses = [bench.work(0), bench.work(1)];
    bench.free(first, uses);
    assert_eq!(bench.pool.stats().pending_bytes, BLOCK);
    let part = bench.on(0, KIB);
    assert_eq!(part.wait().points(), [uses[1]]);
    let other = bench.on(2, KIB);
    assert_eq!(other.wait().points(), uses);
    bench.free(part, []);
    bench.free(other, []);
    bench.complete(0);
    bench.complete(1);
    assert!(bench.on(2, BLOCK).wait().is_empty());
}

#[test]
fn without_a_lane_only_memory_that_nobody_uses_is_handed_out() {
    let mut bench = Bench::new(BLOCK, config());
    let first = bench.on(0, BLOCK);
    let use_of_it = bench.work(0);
    bench.free(first, [use_of_it]);
    assert_eq!(bench.full_now(Request::new(KIB)).pending, BLOCK);
    bench.complete(0);
    assert!(bench.pool.allocate(Request::new(BLOCK)).is_ok());
}

#[test]
fn pending_memory_joins_the_free_memory_beside_it() {
    let mut bench = Bench::new(BLOCK, config());
    let half = bench.on(0, BLOCK / 2);
    let use_of_it = bench.work(0);
    bench.free(half, [use_of_it]);
    let whole = bench.on(0, BLOCK);
    assert_eq!((whole.rounded_bytes(), bench.source.calls()), (BLOCK, 1));
}

#[test]
fn memory_of_an_idle_lane_serves_the_others() {
    let mut bench = Bench::new(4 * BLOCK, config());
    for lane in 0..3 {
        let burst: Vec<Allocation> = (0..4).map(|_| bench.on(lane, BLOCK)).collect();
        let last = bench.work(lane);
        burst
            .into_iter()
            .for_each(|allocation| bench.free(allocation, [last]));
    }
    assert_eq!(bench.pool.stats().peak_held_bytes, 4 * BLOCK);
}

#[test]
fn the_error_says_where_the_memory_is() {
    let limited = MemoryPoolConfig {
        limit: PoolLimit::Bytes(2 * BLOCK),
        ..config()
    };
    let bench = Bench::new(8 * BLOCK, limited);
    let _first = bench.on(0, BLOCK - 4 * KIB - 1);
    let _second = bench.on(0, BLOCK - 8 * KIB);
    let full = bench.full_now(Request::new(10 * KIB + 1));
    let expected = FullNow {
        requested: 10 * KIB + 1,
        rounded: 10 * KIB + 512,
        held: 2 * BLOCK,
        live: 2 * BLOCK - 12 * KIB - 1,
        padding: 1,
        cached: 12 * KIB,
        largest_hole: 8 * KIB,
        pending: 0,
        limit: 2 * BLOCK,
        ..full.clone()
    };
    assert_eq!(full, expected);
    assert_eq!(bench.pool.stats().out_of_memory, 1);
    let never = bench.pool.allocate(Request::new(2 * BLOCK + 1));
    let rounded = 2 * BLOCK + GRANULE;
    let requested = 2 * BLOCK + 1;
    let limit = 2 * BLOCK;
    assert_eq!(
        never.unwrap_err(),
        AllocError::NeverFits {
            requested,
            rounded,
            limit
        }
    );
}

#[test]
fn idle_blocks_are_given_back_before_the_pool_exceeds_its_peak() {
    let bench = Bench::new(16 * BLOCK, config());
    let small: Vec<Allocation> = (0..4).map(|_| bench.on(0, BLOCK)).collect();
    small
        .into_iter()
        .for_each(|allocation| bench.free(allocation, []));
    let large = bench.on(0, 3 * BLOCK);
    assert_eq!(large.rounded_bytes(), 3 * BLOCK);
    assert_eq!(
        (bench.pool.stats().peak_held_bytes, bench.source.held()),
        (4 * BLOCK, 4 * BLOCK)
    );
    bench.pool.check().unwrap();
}

#[test]
fn a_full_pool_says_what_to_wait_for_and_no_more_than_that() {
    let limited = MemoryPoolConfig {
        limit: PoolLimit::Bytes(4 * BLOCK),
        cross_lane: CrossLane::Never,
        ..config()
    };
    let mut bench = Bench::new(4 * BLOCK, limited);
    let [one, other, many, _kept] = [0, 0, 1, 2].map(|lane| bench.on(lane, BLOCK));
    let [first, second, third] = [0, 0, 1].map(|lane| bench.work(lane));
    bench.free(one, [first]);
    bench.free(other, [second]);
    bench.free(many, [second, third]);
    let on_2 = |bytes| Request::new(bytes).on(bench.lanes[2].id());
    let frees_at = |bytes| bench.full_now(on_2(bytes)).frees_at;
    assert_eq!(
        frees_at(BLOCK),
        first.into(),
        "the oldest of the lane with most"
    );
    assert_eq!(frees_at(2 * BLOCK), second.into());
    assert_eq!(frees_at(4 * BLOCK), [second, third].into_iter().collect());
    bench.lanes[0].complete(1);
    let taken = bench.pool.allocate(on_2(BLOCK)).unwrap();
    bench.complete(0);
    bench.complete(1);
    assert_eq!(frees_at(4 * BLOCK), Frontier::new(), "nothing is pending");
    bench.free(taken, []);
}

#[test]
fn an_address_inside_finds_its_allocation() {
    let bench = Bench::new(4 * BLOCK, config());
    let first = bench.on(0, 1000);
    let second = bench.on(0, 3000);
    for (allocation, at) in [(&first, 0), (&first, 1023), (&second, 0), (&second, 2999)] {
        let address = allocation.ptr().checked_add(at).unwrap();
        let info = bench.pool.lookup(address).expect("it is allocated");
        assert_eq!(
            (info.ptr, info.bytes),
            (allocation.ptr(), allocation.bytes())
        );
    }
    let ptr = second.ptr();
    bench.free(second, []);
    assert_eq!(bench.pool.lookup(ptr), None);
    assert_eq!(bench.pool.lookup(DevicePtr::new(0)), None);
    assert_eq!(bench.pool.lookup(DevicePtr::new(u64::MAX)), None);
}

#[test]
fn trimming_gives_back_what_is_idle_and_no_more() {
    let mut bench = Bench::new(4 * BLOCK, config());
    let mut live: Vec<Allocation> = (0..4).map(|_| bench.on(0, BLOCK)).collect();
    let pending = bench.work(0);
    let _kept = live.pop();
    bench.free(live.pop().unwrap(), [pending]);
    live.into_iter()
        .for_each(|allocation| bench.free(allocation, []));
    assert_eq!(bench.pool.trim(3 * BLOCK), BLOCK);
    assert_eq!(bench.pool.trim(0), BLOCK);
    bench.complete(0);
    assert_eq!(bench.pool.trim(0), BLOCK);
    assert_eq!(bench.source.held(), BLOCK);
}

#[test]
fn a_dropped_pool_leaves_only_what_is_in_use() {
    let bench = Bench::new(4 * BLOCK, config());
    let gone = bench.on(0, BLOCK);
    let kept = bench.on(0, BLOCK);
    bench.free(gone, []);
    let Bench { source, pool, .. } = bench;
    drop(pool);
    assert_eq!(source.blocks(), [(kept.ptr().address(), BLOCK)]);
}

#[test]
fn a_block_where_another_was_among_the_offsets_has_its_own_addresses() {
    let bench = Bench::new(8 * BLOCK, config());
    let first = bench.on(0, BLOCK);
    let gone = first.ptr();
    bench.free(first, []);
    bench.pool.trim(0);
    // The address is somebody else's now, and the offset the next Block's.
    assert_eq!(bench.source.allocate(BLOCK), Ok(gone));
    let second = bench.on(0, BLOCK);
    assert_ne!(second.ptr(), gone);
    let here = (second.ptr().address(), BLOCK);
    assert!(bench.source.blocks().contains(&here));
}

#[test]
fn an_error_while_giving_back_is_kept_and_the_block_serves_on() {
    let bench = Bench::new(BLOCK, config());
    let first = bench.on(0, BLOCK);
    bench.free(first, []);
    bench.source.fail_call(1);
    assert_eq!(bench.pool.trim(0), 0);
    bench.pool.check().unwrap();
    let error = bench.pool.take_error().expect("it is kept");
    assert_eq!(bench.source.errors(), [error]);
    assert_eq!(bench.on(0, BLOCK).rounded_bytes(), BLOCK);
}

#[test]
fn a_foreign_allocation_comes_back_to_the_caller() {
    let bench = Bench::new(BLOCK, config());
    let other = Bench::new(BLOCK, config());
    let allocation = bench.on(0, KIB);
    let error = other.pool.free(allocation, Frontier::new()).unwrap_err();
    let belongs = bench.pool.id();
    let asked = other.pool.id();
    assert_eq!(error.kind, FreeErrorKind::ForeignPool { belongs, asked });
    bench.free(*error.allocation, []);
}

#[test]
fn senseless_requests_are_refused_with_their_numbers() {
    let bench = Bench::new(4 * BLOCK, config());
    let refused = |request: Request| bench.pool.allocate(request).unwrap_err();
    assert_eq!(refused(Request::new(0)), AllocError::ZeroBytes);
    for given in [0, 3, 2 * GRANULE, 1 << 63] {
        let maximum = GRANULE;
        assert_eq!(
            refused(Request::new(1).aligned_to(given)),
            AllocError::Alignment { given, maximum }
        );
    }
    for requested in [u64::MAX, 1 << 63] {
        assert!(matches!(
            refused(Request::new(requested)),
            AllocError::NeverFits { .. }
        ));
    }
    bench.source.lose();
    assert!(
        matches!(refused(Request::new(1)), AllocError::Driver(error) if error.is_device_lost())
    );
}

#[test]
fn alignment_is_as_asked_and_never_below_the_pools() {
    let fine = MemoryPoolConfig {
        alignment: 64,
        ..config()
    };
    let bench = Bench::new(4 * BLOCK, fine);
    let _odd = bench.on(0, 1);
    for align in [1, 32, 64, 512, GRANULE] {
        let allocation = bench
            .pool
            .allocate(Request::new(1).aligned_to(align))
            .unwrap();
        assert!(allocation.ptr().is_aligned_to(align.max(64)));
    }
}

#[test]
fn the_default_configuration_holds_on_devices_of_any_size() {
    for capacity in [GRANULE, BLOCK, 3 << 20, 1 << 30, 192 << 30] {
        let bench = Bench::new(capacity, MemoryPoolConfig::default());
        let allocation = bench.on(0, GRANULE);
        bench.free(allocation, []);
        assert_eq!(bench.pool.limit(), capacity);
    }
}

#[test]
fn the_last_events_are_in_the_snapshot_in_their_order() {
    let config = MemoryPoolConfig {
        events: 4,
        ..config()
    };
    let bench = Bench::new(BLOCK, config);
    let lane = Some(bench.lanes[0].id());
    let first = bench.on(0, 1000);
    let ptr = first.ptr();
    bench.full_now(Request::new(BLOCK));
    bench.free(first, []);
    let kinds = || -> Vec<(u64, MemoryEventKind, u64)> {
        let events = bench.pool.snapshot().events;
        let told = events.iter().map(|it| (it.number, it.kind, it.bytes));
        told.collect()
    };
    let freed = (0, MemoryEventKind::Freed, 1000);
    let expected = [
        (0, MemoryEventKind::BlockAdded, BLOCK),
        (1, MemoryEventKind::Allocated, 1000),
        (2, MemoryEventKind::OutOfMemory, BLOCK),
        freed,
    ];
    assert_eq!(
        kinds(),
        expected,
        "the front of the lane has numbers of its own"
    );
    let last = bench.pool.snapshot().events[3];
    assert_eq!((last.ptr, last.lane), (ptr, lane));
    let again = bench.on(0, 2000);
    bench.pool.trim(0);
    bench.free(again, []);
    bench.pool.trim(0);
    let expected = [
        (2, MemoryEventKind::OutOfMemory, BLOCK),
        freed,
        (3, MemoryEventKind::Allocated, 2000),
        (4, MemoryEventKind::Freed, 2000),
        (5, MemoryEventKind::BlockReturned, BLOCK),
    ];
    assert_eq!(
        kinds(),
        expected,
        "the last four of the pool, and the front's"
    );
}

#[test]
fn what_is_free_and_not_to_be_had_is_told_by_lane() {
    let limited = MemoryPoolConfig {
        cross_lane: CrossLane::Never,
        limit: PoolLimit::Bytes(2 * BLOCK),
        ..config()
    };
    let mut bench = Bench::new(2 * BLOCK, limited);
    let [first, second, third, _kept] = [0, 0, 1, 2].map(|lane| bench.on(lane, BLOCK / 2));
    let uses = [0, 1].map(|lane| bench.work(lane));
    bench.free(first, [uses[0]]);
    bench.free(second, uses);
    bench.free(third, [uses[1]]);
    let on = |lane: usize| Pending {
        lane: Some(bench.lanes[lane].id()),
        bytes: BLOCK / 2,
    };
    let of_both = Pending {
        lane: None,
        bytes: BLOCK / 2,
    };
    let full = bench.full_now(Request::new(BLOCK).on(bench.lanes[2].id()));
    assert_eq!(full.pending_on, [on(0), on(1), of_both]);
    assert_eq!(full.frees_at, uses.into_iter().collect());
    assert!(
        full.to_string()
            .contains("98304 pending (32768 on lane 0, 32768 on lane 1, 32768 on several lanes);"),
        "{full}"
    );
    bench.complete(0);
    bench.pool.trim(2 * BLOCK);
    let free = bench.pool.fragmentation();
    assert_eq!(
        (free.cached, free.largest_hole, free.stealable),
        (BLOCK / 2, BLOCK / 2, 0)
    );
    let rest = Pending {
        bytes: BLOCK,
        ..on(1)
    };
    assert_eq!(free.pending, [rest]);
}

#[test]
fn a_snapshot_of_many_chunks_is_copied_in_parts_and_covers_every_block() {
    let config = MemoryPoolConfig {
        events: 1000,
        ..MemoryPoolConfig::default()
    };
    let mut bench = Bench::new(64 << 20, config);
    let mut held: Vec<Allocation> = (0..3000).map(|n| bench.on(0, 512 * (1 + n % 7))).collect();
    let last = bench.work(0);
    for at in (0..1000).rev() {
        let chunk = held.swap_remove(2 * at);
        bench.free(chunk, [last]);
    }
    let snapshot = bench.pool.snapshot();
    let mut live = 0;
    for block in &snapshot.blocks {
        let mut end = block.range.start;
        for chunk in &block.chunks {
            assert_eq!(chunk.ptr, end);
            end = end.checked_add(chunk.bytes).unwrap();
            live += usize::from(matches!(chunk.state, ChunkState::Live { .. }));
        }
        assert_eq!(
            end,
            block.range.start.checked_add(block.range.bytes).unwrap()
        );
    }
    assert_eq!(live, held.len());
    let numbers: Vec<u64> = snapshot.events.iter().map(|event| event.number).collect();
    assert!(numbers.len() >= 1000, "{}", numbers.len());
    assert!(snapshot.events.is_sorted_by_key(|event| event.clock));
}

#[test]
fn a_small_request_leaves_a_large_idle_block_whole() {
    let bench = Bench::new(8 * BLOCK, config());
    let large = bench.on(0, 6 * BLOCK);
    bench.free(large, []);
    let small = bench.on(0, BLOCK);
    assert_eq!(bench.source.held(), BLOCK);
    let large = bench.on(0, 6 * BLOCK);
    assert_eq!(bench.source.held(), 7 * BLOCK);
    bench.free(large, []);
    bench.free(small, []);
    let similar = bench.on(0, 5 * BLOCK);
    assert_eq!(bench.source.held(), 7 * BLOCK);
    bench.pool.check().unwrap();
    bench.free(similar, []);
    bench.pool.check().unwrap();
}

#[test]
fn blocks_in_use_are_filled_before_an_idle_one_is_broken_into() {
    let bench = Bench::new(8 * BLOCK, config());
    let [first, second] = [0, 1].map(|_| bench.on(0, BLOCK));
    let start = second.ptr();
    bench.free(first, []);
    bench.free(second, []);
    let halves = [0, 1].map(|_| bench.on(0, BLOCK / 2));
    let of_one_block = halves[1].ptr().checked_offset_from(halves[0].ptr());
    assert_eq!(of_one_block, Some(BLOCK / 2));
    assert_eq!(bench.source.held(), 2 * BLOCK);
    bench.pool.trim(0);
    assert_eq!(bench.source.held(), BLOCK);
    assert!(halves[0].ptr() <= start);
}

#[test]
fn a_pool_that_lives_on_its_reserve_breaks_into_it() {
    let bench = Bench::new(64 * BLOCK, config());
    bench.pool.reserve(8 * BLOCK).unwrap();
    let _small = bench.on(0, KIB);
    assert_eq!(bench.source.held(), 8 * BLOCK);
}

#[test]
fn sizes_that_take_turns_do_not_make_blocks_come_and_go_while_the_limit_is_far() {
    let bench = Bench::new(64 * BLOCK, config());
    for _ in 0..200 {
        let large = bench.on(0, 6 * BLOCK);
        bench.free(large, []);
        let small = bench.on(0, BLOCK);
        bench.free(small, []);
    }
    let stats = bench.pool.stats();
    assert!(stats.block_frees < 400 / 20, "{stats:?}");
}
