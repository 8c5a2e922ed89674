//! A pool that records steps, serves them from plans, falls back and lets plans go, on a device that fails on demand: no two
//! unordered users share a byte, the books balance after each call, and nothing is left at the end.
//!
//! The model is that of the crate's own properties. A stretch of calls can be repeated, as programs do: without that random
//! steps would never be what was recorded.

#![no_main]

#[path = "../../crates/piton-alloc/tests/source/mod.rs"]
mod source;
#[path = "../../crates/piton-alloc/tests/world/mod.rs"]
mod world;

use std::sync::Arc;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use piton_alloc::{
    AddressLookup, CrossLane, MemoryPoolConfig, PoolLimit, ServeError, VirtualAddressing,
};
use piton_plan::PlaceConfig;
use source::GRANULE;
use world::{Uses, World};

const CAPACITY: u64 = 64 * GRANULE;

/// Calls of one input, repeated ones among them: the model looks at everything after each.
const MOST_CALLS: usize = 600;

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Call {
    Allocate {
        size: u16,
        align_bits: u8,
        lane: u8,
    },
    Free {
        pick: u8,
        lanes: u8,
    },
    Synchronise {
        lane: u8,
        with: u8,
    },
    Complete {
        lane: u8,
        share: u8,
    },
    BeginStep,
    Record,
    /// What was recorded last is planned and served.
    Serve,
    StopServing,
    Trim {
        keep: u8,
    },
    Fail {
        call: u8,
    },
    /// So many of the calls before this one once more.
    Repeat {
        calls: u8,
    },
}

#[derive(Debug, Arbitrary)]
struct Input {
    has_pages: bool,
    policy: u8,
    limit: u8,
    calls: Vec<Call>,
}

fuzz_target!(|input: Input| {
    let mut world = world(&input);
    let mut left = MOST_CALLS;
    for (at, call) in input.calls.iter().enumerate() {
        let Call::Repeat { calls } = *call else {
            left = left.saturating_sub(1);
            act_out(&mut world, *call);
            continue;
        };
        let again = &input.calls[at.saturating_sub(calls.into())..at];
        for call in again.iter().take(left) {
            act_out(&mut world, *call);
        }
        left = left.saturating_sub(again.len());
        if left == 0 {
            break;
        }
    }
    world.compare_events();
    if let Some(planned) = &world.planned {
        planned.stop_serving();
    }
    world.finish();
});

fn world(input: &Input) -> World {
    let config = MemoryPoolConfig {
        cross_lane: match input.policy % 3 {
            0 => CrossLane::Wait,
            1 => CrossLane::WaitWhenFull,
            _ => CrossLane::Never,
        },
        limit: PoolLimit::Bytes((8 + u64::from(input.limit) % 57) * GRANULE),
        block_bytes: Some(2 * GRANULE),
        address_lookup: AddressLookup::Tables,
        ..MemoryPoolConfig::default()
    };
    if input.has_pages {
        let config = MemoryPoolConfig {
            small_below: Some(GRANULE / 2),
            ..config
        };
        World::with_pages(CAPACITY, &config).with_plans()
    } else {
        let config = MemoryPoolConfig {
            virtual_addressing: VirtualAddressing::Off,
            ..config
        };
        World::new(CAPACITY, &config).with_plans()
    }
}

fn act_out(world: &mut World, call: Call) {
    let lane_of = |lane: u8| usize::from(lane) % World::LANES;
    match call {
        Call::Allocate {
            size,
            align_bits,
            lane,
        } => {
            let bytes = u64::from(size) + 1;
            let lane = (lane < 250).then(|| lane_of(lane));
            world.allocate(bytes, 1 << (align_bits % 13), lane);
        }
        Call::Free { pick, lanes } => {
            let lanes = lanes % (1 << World::LANES);
            world.free(pick.into(), Uses { lanes });
        }
        Call::Synchronise { lane, with } => world.synchronise(lane_of(lane), lane_of(with)),
        Call::Complete { lane, share } => world.complete(lane_of(lane), share.into()),
        Call::Trim { keep } => world.trim(u64::from(keep) * GRANULE),
        Call::Fail { call } => world.source.fail_call(u64::from(call) + 1),
        Call::Repeat { .. } => {}
        Call::BeginStep | Call::Record | Call::Serve | Call::StopServing => plan(world, call),
    }
}

fn plan(world: &World, call: Call) {
    let Some(planned) = &world.planned else {
        return;
    };
    match call {
        Call::BeginStep => planned.begin_step(),
        Call::Record => planned.start_recording(),
        Call::StopServing => planned.stop_serving(),
        _ => {
            let Some(recorder) = planned.take_recording() else {
                return;
            };
            let quick = PlaceConfig {
                effort: 1000,
                ..PlaceConfig::default()
            };
            let plan = recorder.plan(&quick).expect("sizes are small");
            match planned.serve(Arc::new(plan)) {
                Ok(()) | Err(ServeError::Memory(_) | ServeError::NoRoom { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}
