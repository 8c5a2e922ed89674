//! What a range promises, one example each.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use piton_suballoc::{Apart, ConfigError, Domain, ExtentError, Tlsf};

const UNIT: u64 = 256;

fn range(units: u64) -> Tlsf {
    Tlsf::new(units * UNIT, UNIT).expect("a right configuration")
}

fn lane(number: u32) -> Domain {
    Domain::new(number).expect("small")
}

/// Allocates `units` units of the shared domain and returns the offset in units.
fn take(range: &mut Tlsf, units: u64) -> (piton_suballoc::ExtentId, u64) {
    let chunk = range
        .allocate(Domain::SHARED, units * UNIT, 1)
        .expect("there is room");
    (chunk.id, chunk.offset / UNIT)
}

#[test]
fn the_tightest_hole_wins_and_the_lowest_among_equals() {
    let mut range = range(100);
    let holes: Vec<_> = [9, 7, 8, 7]
        .map(|units| {
            let hole = take(&mut range, units);
            let _wall = take(&mut range, 1);
            hole
        })
        .into();
    for (id, _) in &holes {
        range.free(*id, Domain::SHARED, 0).expect("live");
    }
    assert_eq!(take(&mut range, 7).1, holes[1].1);
    assert_eq!(take(&mut range, 7).1, holes[3].1);
    assert_eq!(take(&mut range, 7).1, holes[2].1);
    assert_eq!(take(&mut range, 9).1, holes[0].1);
}

#[test]
fn a_fit_is_found_behind_more_than_eight_that_do_not_fit() {
    let mut range = range(4096);
    let (fits, at) = take(&mut range, 127);
    let _wall = take(&mut range, 1);
    let small: Vec<_> = (0..20)
        .map(|_| {
            let hole = take(&mut range, 126);
            let _wall = take(&mut range, 1);
            hole.0
        })
        .collect();
    while range.allocate(Domain::SHARED, UNIT, 1).is_some() {}
    range.free(fits, Domain::SHARED, 0).expect("live");
    for id in small {
        range.free(id, Domain::SHARED, 0).expect("live");
    }
    assert_eq!(take(&mut range, 127).1, at);
}

#[test]
fn a_lanes_extents_are_the_lanes_alone_until_released() {
    let mut range = range(10);
    let (id, _) = take(&mut range, 10);
    range.free(id, lane(0), 5).expect("live");
    assert!(range.allocate(Domain::SHARED, UNIT, 1).is_none());
    assert!(range.allocate(lane(1), UNIT, 1).is_none());
    let part = range
        .allocate(lane(0), 4 * UNIT, 1)
        .expect("the lane's own");
    assert_eq!(range.release_up_to(lane(0), 4), 0);
    assert_eq!(range.release_up_to(lane(0), 5), 6 * UNIT);
    range.free(part.id, lane(0), 6).expect("live");
    assert_eq!(range.domain_usage(lane(0)).oldest, 6);
    assert_eq!(range.release_up_to(lane(0), u64::MAX), 4 * UNIT);
    assert!(range.is_whole());
}

#[test]
fn a_merged_extent_waits_for_the_latest_of_its_parts() {
    let mut range = range(4);
    let (low, _) = take(&mut range, 2);
    let (high, _) = take(&mut range, 2);
    range.free(low, lane(0), 9).expect("live");
    range.free(high, lane(0), 3).expect("live");
    assert_eq!(range.release_up_to(lane(0), 8), 0);
    assert_eq!(range.release_up_to(lane(0), 9), 4 * UNIT);
}

#[test]
fn releasing_looks_at_the_oldest_first() {
    let mut range = range(16);
    let chunks: Vec<_> = (0..8).map(|_| take(&mut range, 2)).collect();
    for (stamp, (id, _)) in (1..).zip(chunks.iter().step_by(2)) {
        range.free(*id, lane(0), stamp).expect("live");
    }
    let stamps = |range: &Tlsf| {
        range
            .extents_by_stamp(lane(0))
            .map(|extent| extent.offset / UNIT)
            .collect::<Vec<_>>()
    };
    assert_eq!(stamps(&range), [0, 4, 8, 12]);
    assert_eq!(range.release_up_to(lane(0), 2), 4 * UNIT);
    assert_eq!(stamps(&range), [8, 12]);
}

#[test]
fn a_stale_id_is_refused_and_changes_nothing() {
    let mut range = range(4);
    let (id, _) = take(&mut range, 4);
    range.free(id, Domain::SHARED, 0).expect("live");
    assert_eq!(range.free(id, Domain::SHARED, 0), Err(ExtentError::NotLive));
    let (again, _) = take(&mut range, 4);
    assert_eq!(range.free(id, Domain::SHARED, 0), Err(ExtentError::NotLive));
    assert_eq!(
        range.move_domain(again, Domain::SHARED, lane(0)),
        Err(ExtentError::NotFree)
    );
    assert_eq!(range.usage().live, 4 * UNIT);
    range.check().expect("consistent");
}

#[test]
fn a_domain_with_extents_cannot_be_removed() {
    let mut range = range(4);
    let (id, _) = take(&mut range, 4);
    range.free(id, lane(7), 1).expect("live");
    assert_eq!(
        range.remove_domain(lane(7)),
        Err(ExtentError::DomainNotEmpty { bytes: 4 * UNIT })
    );
    assert_eq!(range.domains().collect::<Vec<_>>(), [lane(7)]);
    range.release_up_to(lane(7), 1);
    assert_eq!(range.remove_domain(lane(7)), Ok(()));
    assert_eq!(range.remove_domain(lane(60_000)), Ok(()));
}

#[test]
fn domain_numbers_have_an_end() {
    assert_eq!(Domain::new(Domain::COUNT), None);
    assert_eq!(Domain::new(u32::MAX), None);
    let last = Domain::new(Domain::COUNT - 1).expect("the last one");
    let mut range = range(4);
    let (id, _) = take(&mut range, 4);
    range.free(id, last, 1).expect("live");
    range.check().expect("consistent");
}

#[test]
fn alignment_beyond_the_unit_leaves_both_gaps_free() {
    let mut range = range(64);
    let (_wall, _) = take(&mut range, 1);
    let chunk = range
        .allocate(Domain::SHARED, 4 * UNIT, 16 * UNIT)
        .expect("there is room");
    assert_eq!(chunk.offset, 16 * UNIT);
    assert_eq!(range.domain_usage(Domain::SHARED).extents, 2);
    assert_eq!(take(&mut range, 15).1, 1);
}

#[test]
fn what_cannot_be_managed_is_refused_with_its_numbers() {
    let refused = |capacity, unit| Tlsf::new(capacity, unit).map(|range| range.capacity());
    assert_eq!(
        refused(1024, 0),
        Err(ConfigError::UnitNotPowerOfTwo { unit: 0 })
    );
    assert_eq!(
        refused(1024, 48),
        Err(ConfigError::UnitNotPowerOfTwo { unit: 48 })
    );
    assert_eq!(
        refused(0, 64),
        Err(ConfigError::CapacityNotWholeUnits {
            capacity: 0,
            unit: 64
        })
    );
    assert_eq!(
        refused(100, 64),
        Err(ConfigError::CapacityNotWholeUnits {
            capacity: 100,
            unit: 64
        })
    );
    assert_eq!(
        refused(u64::MAX, 1),
        Err(ConfigError::TooManyUnits {
            units: u64::MAX,
            limit: u64::from(Tlsf::MAX_UNITS)
        })
    );
    assert_eq!(
        refused(u64::from(Tlsf::MAX_UNITS), 1),
        Ok(u64::from(Tlsf::MAX_UNITS))
    );
}

#[test]
fn touching_ranges_stay_apart() {
    let mut index = Tlsf::empty(UNIT).expect("a right unit");
    assert!(index.allocate(Domain::SHARED, 1, 1).is_none());
    let first = index.add_range(4 * UNIT).expect("offsets are free");
    let second = index.add_range(4 * UNIT).expect("offsets are free");
    assert_eq!((first, second), (0, 4 * UNIT));
    assert!(index.allocate(Domain::SHARED, 5 * UNIT, 1).is_none());
    assert_eq!(index.extents().count(), 2);
    let chunk = index
        .allocate(Domain::SHARED, 4 * UNIT, 1)
        .expect("fits the first");
    assert_eq!(
        index.remove_range(first, Domain::SHARED),
        Err(ExtentError::RangeInUse { offset: first })
    );
    assert_eq!(index.remove_range(second, Domain::SHARED), Ok(()));
    assert_eq!(index.capacity(), 4 * UNIT);
    index.free(chunk.id, Domain::SHARED, 0).expect("live");
    assert!(index.is_whole());
}

#[test]
fn a_run_of_several_domains_is_claimed_as_one_chunk() {
    let mut range = range(12);
    let chunks: Vec<_> = (0..3).map(|_| take(&mut range, 3)).collect();
    range.free(chunks[1].0, lane(0), 8).expect("live");
    range.free(chunks[0].0, Domain::SHARED, 0).expect("live");
    assert!(range.allocate(lane(0), 4 * UNIT, 1).is_none());
    assert_eq!(range.claim(UNIT, 7 * UNIT, None), None, "the third is live");
    let claimed = range
        .claim(UNIT, 4 * UNIT, None)
        .expect("all of it is free");
    assert_eq!((claimed.offset, claimed.bytes), (UNIT, 4 * UNIT));
    // What was not claimed stays whose it was.
    assert_eq!(range.domain_usage(lane(0)).bytes, UNIT);
    assert_eq!(range.domain_usage(lane(0)).newest, 8);
    let below = range.below(claimed.id).map(|extent| extent.bytes);
    let above = range.above(claimed.id).map(|extent| extent.stamp());
    assert_eq!((below, above), (Some(UNIT), Some(8)));
}

#[test]
fn what_is_released_may_go_to_another_domain() {
    let mut range = range(4);
    let (id, _) = take(&mut range, 4);
    range.free(id, lane(0), 3).expect("live");
    assert_eq!(range.release_to(lane(0), 2, lane(1)), 0);
    assert_eq!(range.release_to(lane(0), 3, lane(0)), 0);
    assert_eq!(range.release_to(lane(0), 3, lane(1)), 4 * UNIT);
    assert_eq!(range.domain_usage(lane(1)).bytes, 4 * UNIT);
}

#[test]
fn a_cut_chunk_is_two_live_chunks() {
    let mut range = range(8);
    let (id, _) = take(&mut range, 8);
    let (low, rest) = range.cut(id, UNIT + 1).expect("it holds that");
    let rest = rest.expect("more than half is left");
    assert_eq!(
        (low.bytes, rest.offset, rest.bytes),
        (2 * UNIT, 2 * UNIT, 6 * UNIT)
    );
    assert_eq!(range.usage().padding, UNIT - 1);
    assert_eq!(range.free(id, Domain::SHARED, 0), Err(ExtentError::NotLive));
    assert_eq!(
        range.cut(low.id, 3 * UNIT),
        Err(ExtentError::TooShort { bytes: 2 * UNIT })
    );
    range.free(rest.id, Domain::SHARED, 0).expect("live");
    range.free(low.id, Domain::SHARED, 0).expect("live");
    assert!(range.is_whole());
}

/// Whole ranges of the shared domain hang in that of lane 0, those of lane 1 in that of lane 2.
fn apart() -> Apart {
    Apart {
        of: |domain| match domain.number() {
            None => Some(lane(0)),
            Some(1) => Some(lane(2)),
            Some(_) => None,
        },
        home: |domain| match domain.number() {
            Some(0) => Some(Domain::SHARED),
            Some(2) => Some(lane(1)),
            _ => None,
        },
    }
}

#[test]
fn a_range_free_as_a_whole_is_apart_until_it_is_broken_into() {
    let idle = lane(0);
    let mut index = Tlsf::empty(UNIT).expect("a right unit");
    index.set_whole_ranges_apart(apart());
    index.add_range(8 * UNIT).expect("there is room");
    let (first, _) = take(&mut index, 3);
    let (second, _) = take(&mut index, 5);
    index.free(first, Domain::SHARED, 0).expect("live");
    assert_eq!(index.domain_usage(idle).bytes, 0);
    index.free(second, Domain::SHARED, 0).expect("live");
    assert_eq!(index.domain_usage(idle).bytes, 8 * UNIT);
    assert_eq!(index.allocate(Domain::SHARED, UNIT, 1), None);
    let whole = index.peek(idle, UNIT, 1).expect("it fits");
    assert_eq!(index.break_into(whole.id, 9 * UNIT, 1), None);
    let chunk = index.break_into(whole.id, UNIT, 1).expect("it fits");
    assert_eq!((chunk.offset, chunk.bytes), (0, UNIT));
    assert_eq!(index.domain_usage(Domain::SHARED).bytes, 7 * UNIT);
    assert_eq!(index.domain_usage(idle).bytes, 0);
    index.check().expect("whole");
    index.free(chunk.id, Domain::SHARED, 0).expect("live");
    assert_eq!(index.remove_range(0, idle), Ok(()));
}

#[test]
fn what_completes_as_a_whole_range_is_apart_too() {
    let idle = lane(0);
    let mut index = Tlsf::empty(UNIT).expect("a right unit");
    index.set_whole_ranges_apart(apart());
    index.add_range(4 * UNIT).expect("there is room");
    let (chunk, _) = take(&mut index, 4);
    index.free(chunk, lane(3), 7).expect("live");
    assert_eq!(index.release_up_to(lane(3), 7), 4 * UNIT);
    assert_eq!(index.domain_usage(idle).bytes, 4 * UNIT);
    index.check().expect("whole");
}

#[test]
fn a_search_looks_at_as_many_extents_as_it_is_told() {
    // Free extents of 70, 69 and 68 units hang in one bin, the last freed first.
    let found = |tries: Option<u32>| {
        let mut range = range(300);
        if let Some(tries) = tries {
            range.look_at(tries);
        }
        let chunks: Vec<_> = [70, 1, 68, 1, 69, 1]
            .map(|units| take(&mut range, units).0)
            .into();
        for at in [0, 2, 4] {
            range.free(chunks[at], Domain::SHARED, 0).expect("live");
        }
        let taken = range.allocate(Domain::SHARED, 68 * UNIT, 1);
        taken.expect("all of them fit").offset / UNIT
    };
    assert_eq!(found(None), 71, "the smallest");
    assert_eq!(found(Some(1)), 140, "the youngest");
    assert_eq!(found(Some(0)), 140, "at least one is looked at");
    assert_eq!(found(Some(2)), 71);
    assert_eq!(found(Some(u32::MAX)), 71);
}

#[test]
fn a_range_free_as_a_whole_in_a_lanes_domain_is_apart_with_its_stamp() {
    let mut index = Tlsf::empty(UNIT).expect("a right unit");
    index.set_whole_ranges_apart(apart());
    for _ in 0..2 {
        index.add_range(4 * UNIT).expect("there is room");
    }
    let chunks = [(); 2].map(|()| take(&mut index, 4).0);
    for (chunk, stamp) in chunks.into_iter().zip([7, 8]) {
        index.free(chunk, lane(1), stamp).expect("live");
        index.check().expect("apart");
    }
    assert_eq!(index.domain_usage(lane(1)).bytes, 0);
    let whole = index.domain_usage(lane(2));
    assert_eq!((whole.bytes, whole.oldest, whole.newest), (8 * UNIT, 7, 8));
    assert_eq!(index.allocate(lane(1), UNIT, 1), None);
    let oldest = index.extents_by_stamp(lane(2)).next().expect("two");
    let chunk = index.break_into(oldest.id, UNIT, 1).expect("it fits");
    assert_eq!(chunk.stamp, 7);
    let rest = index.domain_usage(lane(1));
    assert_eq!((rest.bytes, rest.oldest), (3 * UNIT, 7));
    assert_eq!(index.break_into(oldest.id, UNIT, 1), None, "stale");
    assert_eq!(index.release_up_to(lane(2), 8), 4 * UNIT);
    assert_eq!(index.domain_usage(lane(0)).bytes, 4 * UNIT);
    let part = index.extents_by_stamp(lane(1)).next().expect("the rest");
    assert_eq!(index.break_into(part.id, UNIT, 1), None, "a part");
    index.check().expect("whole");
}

#[test]
fn what_waits_for_nothing_is_given_up_before_all_that_waits() {
    let mut index = range(16);
    let chunks = [(); 4].map(|()| take(&mut index, 2).0);
    index.free(chunks[0], lane(1), 5).expect("live");
    index.free(chunks[2], lane(1), 0).expect("live");
    let usage = index.domain_usage(lane(1));
    assert_eq!((usage.oldest, usage.newest), (0, 5));
    assert_eq!(index.release_up_to(lane(1), 4), 2 * UNIT);
    assert_eq!(index.domain_usage(lane(1)).oldest, 5);
    index.check().expect("in order");
}

#[test]
fn all_of_a_domain_moves_to_another_and_merges_there() {
    let mut index = range(16);
    let chunks = [(); 4].map(|()| take(&mut index, 2).0);
    index.free(chunks[1], lane(1), 5).expect("live");
    index.free(chunks[0], Domain::SHARED, 0).expect("live");
    index.free(chunks[3], Domain::SHARED, 0).expect("live");
    assert_eq!(index.move_all(Domain::SHARED, Domain::SHARED), 0);
    assert_eq!(index.move_all(Domain::SHARED, lane(1)), 12 * UNIT);
    let usage = index.domain_usage(lane(1));
    assert_eq!((usage.bytes, usage.extents), (14 * UNIT, 2));
    assert_eq!((usage.oldest, usage.newest), (0, 5));
    assert_eq!(index.domain_usage(Domain::SHARED).bytes, 0);
    index.check().expect("whole");
}

#[test]
fn what_a_claim_leaves_of_a_whole_range_is_no_longer_apart() {
    let idle = lane(0);
    let mut index = Tlsf::empty(UNIT).expect("a right unit");
    index.set_whole_ranges_apart(apart());
    index.add_range(4 * UNIT).expect("there is room");
    let (chunk, _) = take(&mut index, 4);
    index.free(chunk, Domain::SHARED, 0).expect("live");
    let claimed = index.claim(UNIT, UNIT, None).expect("all is free");
    assert_eq!(index.domain_usage(idle).bytes, 0);
    assert_eq!(index.domain_usage(Domain::SHARED).bytes, 3 * UNIT);
    index.check().expect("whole");
    index.free(claimed.id, Domain::SHARED, 0).expect("live");
    assert_eq!(index.domain_usage(idle).bytes, 4 * UNIT);
}
