//! Properties of recorded plans and the cursors that follow them, whatever the program does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use piton_plan::{Answer, PlaceConfig, Plan, PlanCursor, Recorder};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Act {
    /// Request so many bytes on a stream.
    Request(u64, u32),
    /// Free the live block at this place among them.
    Free(prop::sample::Index),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1_u64..6, 0_u32..2).prop_map(|(size, stream)| Act::Request(size * 700, stream)),
        2 => any::<prop::sample::Index>().prop_map(Act::Free),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Vec<Act>>> {
    prop::collection::vec(prop::collection::vec(act(), 0..60), 1..5)
}

/// Records a step, with everything it leaves freed at the start of the next, but for `kept` of it.
fn record(step: &[Act], kept: usize) -> Plan {
    let mut recorder = Recorder::default();
    let mut live = Vec::new();
    for act in step {
        match act {
            Act::Request(bytes, stream) => live.extend(recorder.request(*bytes, *stream).unwrap()),
            Act::Free(_) if live.is_empty() => {}
            Act::Free(at) => recorder
                .free(live.swap_remove(at.index(live.len())))
                .unwrap(),
        }
    }
    recorder.end_step();
    live.drain(kept.min(live.len())..)
        .for_each(|request| recorder.free(request).unwrap());
    recorder.plan(&PlaceConfig::default()).unwrap()
}

/// Plays a step; what is live afterwards stays in `live`. Returns how many requests departed.
fn play(
    cursor: &mut PlanCursor,
    live: &mut Vec<Option<u32>>,
    step: &[Act],
) -> Result<u64, TestCaseError> {
    let before = cursor.departed();
    cursor.begin_step();
    for act in step {
        match act {
            Act::Request(bytes, stream) => {
                let taken: Vec<(u64, u64)> = ranges(cursor).collect();
                let answer = cursor.next(*bytes, *stream);
                if let Answer::Planned { request, offset } = answer {
                    let end = offset + bytes.next_multiple_of(512);
                    prop_assert!(end <= cursor.plan().height());
                    prop_assert!(
                        taken
                            .iter()
                            .all(|range| range.1 <= offset || range.0 >= end)
                    );
                    prop_assert_eq!(cursor.plan().requests()[request as usize].stream, *stream);
                    live.push(Some(request));
                } else {
                    live.push(None);
                }
            }
            Act::Free(_) if live.is_empty() => {}
            Act::Free(at) => {
                if let Some(request) = live.swap_remove(at.index(live.len())) {
                    prop_assert!(cursor.free(request));
                    prop_assert!(!cursor.free(request), "it is free already");
                }
            }
        }
        prop_assert!(cursor.check());
    }
    Ok(cursor.departed() - before)
}

fn ranges(cursor: &PlanCursor) -> impl Iterator<Item = (u64, u64)> {
    let bytes = |request: u32| cursor.plan().requests()[request as usize].bytes;
    cursor
        .live()
        .map(move |(request, offset)| (offset, offset + bytes(request)))
}

proptest! {
    #[test]
    fn a_step_that_repeats_is_served_from_the_plan_alone(step in prop::collection::vec(act(), 0..80)) {
        let mut cursor = PlanCursor::new(Arc::new(record(&step, 0)));
        for _ in 0..3 {
            let mut live = Vec::new();
            prop_assert_eq!(play(&mut cursor, &mut live, &step)?, 0);
            live.into_iter().flatten().for_each(|request| assert!(cursor.free(request)));
        }
    }

    #[test]
    fn what_is_handed_out_never_overlaps_whatever_departs(
        recorded in prop::collection::vec(act(), 0..60),
        steps in steps(),
        kept in 0_usize..4,
    ) {
        let mut cursor = PlanCursor::new(Arc::new(record(&recorded, kept)));
        let mut live = Vec::new();
        for step in &steps {
            play(&mut cursor, &mut live, step)?;
        }
    }

    #[test]
    fn a_few_changed_requests_cost_a_few_departures(
        sizes in prop::collection::vec(1_u64..50, 12..60),
        changed in any::<prop::sample::Index>(),
        kind in 0_u8..3,
    ) {
        // Each request its own size, so that what is expected can be told.
        let requests: Vec<Act> = (0_u64..).zip(&sizes).map(|(at, size)| Act::Request((64 * at + size) * 512, 0)).collect();
        let mut cursor = PlanCursor::new(Arc::new(record(&requests, 0)));
        let mut other = requests.clone();
        let at = changed.index(requests.len());
        let stranger = Act::Request(1 << 40, 0);
        match kind {
            0 => other.insert(at, stranger),
            1 => other[at] = stranger,
            _ => drop(other.remove(at)),
        }
        prop_assert!(play(&mut cursor, &mut Vec::new(), &other)? <= 2);
    }
}

#[test]
fn a_block_that_outlives_its_step_has_its_place_until_it_is_freed() {
    let mut recorder = Recorder::default();
    let first = recorder.request(512, 0).unwrap().unwrap();
    recorder.free(first).unwrap();
    let second = recorder.request(1024, 0).unwrap().unwrap();
    recorder.end_step();
    assert_eq!(
        recorder.request(512, 0),
        Ok(None),
        "the next step is counted"
    );
    recorder.free(second).unwrap();
    let plan = recorder.plan(&PlaceConfig::default()).unwrap();
    assert_eq!(
        plan.height(),
        1536,
        "the first of the next step lives beside the second of this"
    );
    let mut cursor = PlanCursor::new(Arc::new(plan));
    for _ in 0..3 {
        cursor.begin_step();
        assert!(matches!(
            cursor.next(512, 0),
            Answer::Planned { request: 0, .. }
        ));
        let _carried = cursor.free(1);
        assert!(cursor.free(0));
        assert!(matches!(
            cursor.next(1024, 0),
            Answer::Planned { request: 1, .. }
        ));
    }
    assert!(!cursor.free(7), "there is no such request");
}

#[test]
fn a_block_that_outlives_its_own_next_request_has_no_place() {
    let record = |requests_before_death: usize| {
        let mut recorder = Recorder::default();
        let kept = recorder.request(512, 0).unwrap().unwrap();
        recorder.end_step();
        for _ in 0..requests_before_death {
            recorder.request(512, 0).unwrap();
        }
        recorder.free(kept).unwrap();
        recorder.plan(&PlaceConfig::default()).unwrap().requests()[0].offset
    };
    assert_eq!(record(0), Some(0));
    assert_eq!(record(1), None);
    assert_eq!(record(2), None);
}
