//! Properties of placements, against a look at every pair of blocks and against a planner without an index.

use std::cmp::Reverse;

use piton_plan::{Block, PlaceConfig, Placement, place};
use proptest::prelude::*;

/// Times of the blocks below.
const TIMES: u64 = 40;

/// One pass, no rounding: what the reference does.
const ONE_PASS: PlaceConfig = PlaceConfig {
    alignment: 1,
    passes: 1,
    effort: 0,
};

/// Blocks of which about one in eight is carried over the end of time.
fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let block =
        (1_u64..5000, 0..TIMES, 1..TIMES, 0_u8..8).prop_map(|(bytes, birth, lifetime, kind)| {
            Block {
                bytes,
                birth,
                death: if kind == 0 {
                    birth.saturating_sub(lifetime)
                } else {
                    birth + lifetime
                },
            }
        });
    prop::collection::vec(block, 0..120)
}

fn lives_at(block: &Block, time: u64) -> bool {
    if block.is_carried_over() {
        time < block.death || time >= block.birth
    } else {
        (block.birth..block.death).contains(&time)
    }
}

/// Looks at every pair at every time.
fn overlap_by_hand(
    blocks: &[Block],
    placement: &Placement,
    alignment: u64,
) -> Option<(usize, usize)> {
    let ends =
        |index: usize| placement.offsets()[index] + blocks[index].bytes.next_multiple_of(alignment);
    let live_together = |one: usize, other: usize| {
        let both = |time| lives_at(&blocks[one], time) && lives_at(&blocks[other], time);
        (0..2 * TIMES).any(both)
    };
    let pairs = (0..blocks.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    pairs.into_iter().find(|&(one, other)| {
        let starts = placement.offsets();
        starts[one] < ends(other) && starts[other] < ends(one) && live_together(one, other)
    })
}

/// The lowest free place for each block, largest first, by looking at all that is placed.
fn place_by_hand(blocks: &[Block]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|index| Reverse(blocks[*index].bytes));
    let mut offsets = vec![0; blocks.len()];
    for (count, &index) in order.iter().enumerate() {
        let in_the_way = |other: &&usize| {
            (0..2 * TIMES)
                .any(|time| lives_at(&blocks[**other], time) && lives_at(&blocks[index], time))
        };
        let mut ranges: Vec<(u64, u64)> = order[..count]
            .iter()
            .filter(in_the_way)
            .map(|&other| (offsets[other], offsets[other] + blocks[other].bytes))
            .collect();
        ranges.sort_unstable();
        let lowest = |place: u64, (start, end): (u64, u64)| {
            if start >= place + blocks[index].bytes {
                place
            } else {
                place.max(end)
            }
        };
        offsets[index] = ranges.into_iter().fold(0, lowest);
    }
    offsets
}

proptest! {
    #[test]
    fn no_two_blocks_overlap_while_both_live(blocks in blocks(), shift in 0_u32..10) {
        let config = PlaceConfig { alignment: 1 << shift, ..PlaceConfig::default() };
        let placement = place(&blocks, &config).unwrap();
        prop_assert_eq!(overlap_by_hand(&blocks, &placement, config.alignment), None);
        prop_assert_eq!(placement.check(&blocks), Ok(()));
        prop_assert!(placement.offsets().iter().all(|offset| offset % config.alignment == 0));
        let ends = blocks.iter().zip(placement.offsets());
        let height = ends.map(|(block, offset)| offset + block.bytes.next_multiple_of(config.alignment)).max();
        prop_assert_eq!(placement.height(), height.unwrap_or(0));
        let live = |time| -> u64 {
            let live = blocks.iter().filter(|block| lives_at(block, time));
            live.map(|block| block.bytes.next_multiple_of(config.alignment)).sum()
        };
        prop_assert_eq!(placement.peak_live(), (0..2 * TIMES).map(live).max().unwrap_or(0));
    }

    #[test]
    fn the_index_finds_what_looking_at_all_blocks_finds(mut blocks in blocks()) {
        // Different sizes, so that there is one order.
        for (index, block) in (0_u64..).zip(&mut blocks) {
            block.bytes = block.bytes * 128 + index;
        }
        let placement = place(&blocks, &ONE_PASS).unwrap();
        prop_assert_eq!(placement.offsets(), place_by_hand(&blocks));
    }

    #[test]
    fn more_passes_are_never_worse(blocks in blocks()) {
        let once = place(&blocks, &PlaceConfig { passes: 1, ..PlaceConfig::default() }).unwrap();
        let often = place(&blocks, &PlaceConfig::default()).unwrap();
        prop_assert!(often.height() <= once.height());
        prop_assert!(often.height() >= often.peak_live());
    }

    #[test]
    fn a_check_finds_two_blocks_in_one_place(blocks in blocks(), one in any::<prop::sample::Index>()) {
        prop_assume!(!blocks.is_empty());
        // The same block twice is live together with itself, and at one offset if placed as if apart.
        let index = one.index(blocks.len());
        let apart = [blocks[index], Block { birth: 3 * TIMES, death: 3 * TIMES + 1, ..blocks[index] }];
        prop_assume!(!blocks[index].is_carried_over());
        let placement = place(&apart, &ONE_PASS).unwrap();
        prop_assert_eq!(placement.check(&apart), Ok(()));
        prop_assert!(placement.check(&[blocks[index], blocks[index]]).is_err());
    }
}
