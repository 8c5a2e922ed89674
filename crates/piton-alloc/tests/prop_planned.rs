//! Random programs over a pool that serves from plans, against the plain model: whatever was recorded, whatever the program does
//! then, however late it frees and wherever it leaves off, no two unordered users share a byte.

#![cfg(not(loom))]
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod source;
mod world;

use std::sync::Arc;

use piton_alloc::{
    AddressLookup, CrossLane, MemoryPoolConfig, PoolLimit, ServeError, VirtualAddressing,
};
use piton_plan::PlaceConfig;
use proptest::prelude::*;
use source::GRANULE;
use world::{Uses, World};

const CAPACITY: u64 = 64 * GRANULE;

#[derive(Clone, Debug)]
enum Act {
    Allocate {
        bytes: u64,
        align: u64,
        lane: Option<usize>,
    },
    Free {
        pick: usize,
        uses: Uses,
    },
    Synchronise {
        lane: usize,
        with: usize,
    },
    Complete {
        lane: usize,
        share: u64,
    },
}

/// What a program does with its plans.
#[derive(Clone, Debug)]
enum Step {
    /// The step that was recorded, as far as this many of its acts.
    Repeat(usize),
    /// Something else.
    Other(Vec<Act>),
    Trim,
    Stop,
    Serve,
    Fail(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let lanes = 0..World::LANES;
    // Few sizes, so that requests look alike.
    let sizes = prop_oneof![6 => (1_u64..5).prop_map(|size| size * 600), 1 => 1..8 * GRANULE];
    let alignments = prop_oneof![8 => Just(1_u64), 1 => (0_u32..13).prop_map(|bits| 1 << bits)];
    let uses = prop_oneof![4 => (0..World::LANES).prop_map(|lane| 1 << lane), 2 => 0_u8..8];
    prop_oneof![
        8 => (sizes, alignments, prop_oneof![9 => lanes.clone().prop_map(Some), 1 => Just(None)])
            .prop_map(|(bytes, align, lane)| Act::Allocate { bytes, align, lane }),
        7 => (any::<usize>(), uses)
            .prop_map(|(pick, lanes)| Act::Free { pick, uses: Uses { lanes } }),
        1 => (lanes.clone(), lanes.clone()).prop_map(|(lane, with)| Act::Synchronise { lane, with }),
        2 => (lanes, 0_u64..=100).prop_map(|(lane, share)| Act::Complete { lane, share }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop_oneof![3 => Just(usize::MAX), 1 => 0_usize..60].prop_map(Step::Repeat),
        3 => prop::collection::vec(act(), 0..20).prop_map(Step::Other),
        1 => Just(Step::Trim),
        1 => Just(Step::Stop),
        2 => Just(Step::Serve),
        1 => (1_u64..4).prop_map(Step::Fail),
    ]
}

fn config() -> impl Strategy<Value = MemoryPoolConfig> {
    let policy = prop_oneof![
        2 => Just(CrossLane::Wait),
        1 => Just(CrossLane::WaitWhenFull),
        1 => Just(CrossLane::Never),
    ];
    let addressing = prop_oneof![Just(VirtualAddressing::Auto), Just(VirtualAddressing::Off)];
    (policy, addressing, 8_u64..=64).prop_map(|(cross_lane, virtual_addressing, limit)| {
        MemoryPoolConfig {
            cross_lane,
            virtual_addressing,
            limit: PoolLimit::Bytes(limit * GRANULE),
            block_bytes: Some(2 * GRANULE),
            address_lookup: AddressLookup::Tables,
            ..MemoryPoolConfig::default()
        }
    })
}

fn act_out(world: &mut World, act: &Act) {
    match *act {
        Act::Allocate { bytes, align, lane } => world.allocate(bytes, align, lane),
        Act::Free { pick, uses } => world.free(pick, uses),
        Act::Synchronise { lane, with } => world.synchronise(lane, with),
        Act::Complete { lane, share } => world.complete(lane, share),
    }
}

fn begin_step(world: &World) {
    world.planned.as_ref().unwrap().begin_step();
}

/// Records a step and serves it, if the pool has the memory.
fn record_and_serve(world: &mut World, recorded: &[Act]) {
    let start = |world: &World| world.planned.as_ref().unwrap().start_recording();
    start(world);
    for act in recorded {
        act_out(world, act);
    }
    begin_step(world);
    for act in recorded {
        act_out(world, act);
    }
    begin_step(world);
    let planned = world.planned.as_ref().unwrap();
    let recorder = planned.take_recording().unwrap();
    let config = PlaceConfig {
        effort: 1000,
        ..PlaceConfig::default()
    };
    let plan = recorder.plan(&config).unwrap();
    match planned.serve(Arc::new(plan)) {
        Ok(()) | Err(ServeError::Memory(_) | ServeError::NoRoom { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn run(config: MemoryPoolConfig, recorded: &[Act], steps: &[Step]) {
    let world = match config.virtual_addressing {
        VirtualAddressing::Auto => World::with_pages(
            CAPACITY,
            &MemoryPoolConfig {
                small_below: Some(GRANULE / 2),
                ..config
            },
        ),
        _ => World::new(CAPACITY, &config),
    };
    let mut world = world.with_plans();
    record_and_serve(&mut world, recorded);
    for step in steps {
        match step {
            Step::Repeat(acts) => {
                begin_step(&world);
                let acts = recorded.iter().take(*acts);
                acts.for_each(|act| act_out(&mut world, act));
            }
            Step::Other(acts) => {
                begin_step(&world);
                acts.iter().for_each(|act| act_out(&mut world, act));
            }
            Step::Trim => world.trim(0),
            Step::Stop => world.planned.as_ref().unwrap().stop_serving(),
            Step::Serve => record_and_serve(&mut world, recorded),
            Step::Fail(call) => world.source.fail_call(*call),
        }
    }
    world.compare_events();
    world.planned.as_ref().unwrap().stop_serving();
    world.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_program_makes_two_unordered_users_share_a_byte_of_a_plan(
        config in config(),
        recorded in prop::collection::vec(act(), 0..60),
        steps in prop::collection::vec(step(), 0..12),
    ) {
        run(config, &recorded, &steps);
    }
}
