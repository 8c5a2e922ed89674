//! Random programs of allocate, use, free, wait, complete, trim and fault against the plain model, with every book
//! audited after each step.

#![cfg(not(loom))]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod source;
mod world;

use piton_alloc::{
    AddressLookup, CrossLane, ExactBlocks, MemoryPoolConfig, PoolLimit, VirtualAddressing,
};
use proptest::prelude::*;
use source::GRANULE;
use world::{Uses, World};

const CAPACITY: u64 = 64 * GRANULE;

#[derive(Clone, Debug)]
enum Step {
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
    Trim {
        keep: u64,
    },
    Fail {
        call: u64,
    },
}

/// Programs of lanes that take turns, and programs in which one lane does nearly all.
fn programs() -> impl Strategy<Value = Vec<Step>> {
    let evenly = (0..World::LANES).prop_map(Some);
    let evenly = prop_oneof![6 => evenly, 1 => Just(None)].boxed();
    let mostly_one = prop_oneof![40 => Just(Some(0)), 1 => evenly.clone()].boxed();
    prop_oneof![
        1 => prop::collection::vec(steps(evenly), 1..150),
        1 => prop::collection::vec(steps(mostly_one), 1..150),
    ]
}

/// `askers` are the lanes that memory is asked for.
fn steps(askers: BoxedStrategy<Option<usize>>) -> impl Strategy<Value = Step> {
    let lanes = 0..World::LANES;
    let sizes = prop_oneof![
        6 => 1..GRANULE,
        8 => prop::sample::select(vec![600, 1000, 1000, 5000]),
        3 => 1..8 * GRANULE,
        1 => 1..2 * CAPACITY,
    ];
    let alignments = prop_oneof![5 => Just(1u64), 1 => (0u32..13).prop_map(|bits| 1 << bits)];
    let uses = prop_oneof![4 => (0..World::LANES).prop_map(|lane| 1 << lane), 2 => 0u8..8];
    prop_oneof![
        8 => (sizes, alignments, askers)
            .prop_map(|(bytes, align, lane)| Step::Allocate { bytes, align, lane }),
        7 => (any::<usize>(), uses).prop_map(|(pick, lanes)| Step::Free { pick, uses: Uses { lanes } }),
        1 => (lanes.clone(), lanes.clone()).prop_map(|(lane, with)| Step::Synchronise { lane, with }),
        2 => (lanes, 0u64..=100).prop_map(|(lane, share)| Step::Complete { lane, share }),
        1 => (0..CAPACITY).prop_map(|keep| Step::Trim { keep }),
        1 => (1u64..4).prop_map(|call| Step::Fail { call }),
    ]
}

fn configs() -> impl Strategy<Value = MemoryPoolConfig> {
    let policies = prop_oneof![
        2 => Just(CrossLane::Wait),
        1 => Just(CrossLane::WaitWhenFull),
        1 => Just(CrossLane::Never),
    ];
    let exact = prop_oneof![
        Just(ExactBlocks::Automatic),
        Just(ExactBlocks::From(2 * GRANULE)),
        Just(ExactBlocks::Never),
    ];
    let fronts = prop_oneof![Just(None), Just(Some(0)), Just(Some(20 * GRANULE))];
    let lookups = prop_oneof![
        4 => Just(AddressLookup::Tables),
        1 => Just(AddressLookup::Walk),
    ];
    (
        policies,
        exact,
        (fronts, lookups),
        1u64..9,
        0u32..60,
        20u64..=64,
        0u64..20,
    )
        .prop_map(
            |(cross_lane, exact_blocks, at_hand, block, growth_percent, limit, threshold)| {
                let (front_bytes, address_lookup) = at_hand;
                MemoryPoolConfig {
                    front_bytes,
                    address_lookup,
                    cross_lane,
                    exact_blocks,
                    growth_percent,
                    block_bytes: Some(block * GRANULE),
                    limit: PoolLimit::Bytes(limit * GRANULE),
                    release_threshold: threshold * GRANULE,
                    ..MemoryPoolConfig::default()
                }
            },
        )
}

fn run(world: &mut World, step: Step) {
    match step {
        Step::Allocate { bytes, align, lane } => world.allocate(bytes, align, lane),
        Step::Free { pick, uses } => world.free(pick, uses),
        Step::Synchronise { lane, with } => world.synchronise(lane, with),
        Step::Complete { lane, share } => world.complete(lane, share),
        Step::Trim { keep } => world.trim(keep),
        Step::Fail { call } => world.source.fail_call(call),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_program_makes_two_unordered_users_share_a_byte(
        config in configs(),
        program in programs(),
    ) {
        let mut world = World::new(CAPACITY, &config);
        for step in program {
            run(&mut world, step);
        }
        world.finish();
    }

    #[test]
    fn no_program_makes_two_unordered_users_share_a_byte_where_pages_are_mapped(
        config in configs(),
        small_pages in 0u64..4,
        program in programs(),
    ) {
        let config = MemoryPoolConfig {
            virtual_addressing: VirtualAddressing::Auto,
            small_below: Some(small_pages * GRANULE / 2),
            ..config
        };
        let mut world = World::with_pages(CAPACITY, &config);
        for step in program {
            run(&mut world, step);
        }
        world.finish();
    }
}
