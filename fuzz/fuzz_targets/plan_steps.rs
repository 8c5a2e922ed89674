//! A step recorded and planned, then other steps served from the plan: nothing overlaps, whatever departs, and the step
//! itself is served whole.

#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use piton_plan::{Answer, PlaceConfig, PlanCursor, Recorder};

#[derive(Debug, Arbitrary)]
enum Act {
    Request { bytes: u16, stream: bool },
    Free { place: u8 },
    Begin,
}

fuzz_target!(|input: (u8, Vec<Act>, Vec<Act>)| {
    let (shift, recorded, played) = input;
    let config = PlaceConfig {
        alignment: 1 << (shift % 20),
        effort: 1000,
        ..PlaceConfig::default()
    };
    let mut recorder = Recorder::default();
    let mut live = Vec::new();
    for act in &recorded {
        match *act {
            Act::Request { bytes, stream } => {
                live.extend(recorder.request(bytes.into(), stream.into()).ok().flatten())
            }
            Act::Free { place } if !live.is_empty() => {
                let freed = live.swap_remove(usize::from(place) % live.len());
                recorder.free(freed).expect("it is live");
            }
            Act::Free { .. } => {}
            Act::Begin => recorder.end_step(),
        }
    }
    let plan = Arc::new(recorder.plan(&config).expect("sizes are small"));
    assert!(plan.height() >= plan.peak_live());
    let mut cursor = PlanCursor::new(plan);
    let mut live = Vec::new();
    for act in &played {
        match *act {
            Act::Request { bytes, stream } => {
                if let Answer::Planned { request, .. } = cursor.next(bytes.into(), stream.into()) {
                    live.push(request);
                }
            }
            Act::Free { place } if !live.is_empty() => {
                let freed = live.swap_remove(usize::from(place) % live.len());
                assert!(cursor.free(freed));
            }
            Act::Free { place } => drop(cursor.free(place.into())),
            Act::Begin => cursor.begin_step(),
        }
        assert!(cursor.check());
        assert_eq!(cursor.live().count(), live.len());
    }
});
