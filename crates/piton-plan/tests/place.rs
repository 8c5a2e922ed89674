//! Placing: what is refused, and blocks whose best placement is known.

use piton_plan::{Block, PlaceConfig, PlaceError, place};

fn block(bytes: u64, birth: u64, death: u64) -> Block {
    Block {
        bytes,
        birth,
        death,
    }
}

#[track_caller]
fn check_refused(blocks: &[Block], alignment: u64, expected: PlaceError) {
    let config = PlaceConfig {
        alignment,
        ..PlaceConfig::default()
    };
    assert_eq!(place(blocks, &config), Err(expected));
}

#[test]
fn what_cannot_be_placed_is_refused_with_its_number() {
    let good = block(8, 0, 1);
    check_refused(&[good], 0, PlaceError::Alignment { alignment: 0 });
    check_refused(&[good], 48, PlaceError::Alignment { alignment: 48 });
    check_refused(&[good, block(0, 0, 1)], 1, PlaceError::NoBytes { index: 1 });
    let huge = block(u64::MAX, 0, 1);
    check_refused(&[huge], 512, PlaceError::BytesOverflow { index: 0 });
    check_refused(&[good, huge], 1, PlaceError::BytesOverflow { index: 1 });
}

#[test]
fn nothing_takes_no_room() {
    let placement = place(&[], &PlaceConfig::default()).unwrap();
    assert_eq!((placement.height(), placement.peak_live()), (0, 0));
    assert!((placement.ratio() - 1.0).abs() < f64::EPSILON);
}

#[test]
fn the_largest_sizes_that_can_be_counted_are_placed() {
    let half = 1 << 63;
    let placement = place(
        &[block(half, 0, 1), block(half - 1, 0, 1)],
        &PlaceConfig {
            alignment: 1,
            ..PlaceConfig::default()
        },
    );
    assert_eq!(placement.map(|placement| placement.height()), Ok(u64::MAX));
}

#[test]
fn a_block_born_at_anothers_death_has_its_memory() {
    let placement = place(
        &[block(512, 0, 5), block(512, 5, 9)],
        &PlaceConfig::default(),
    )
    .unwrap();
    assert_eq!(placement.offsets(), [0, 0]);
}

#[test]
fn a_block_carried_over_keeps_its_place_at_both_ends_of_time() {
    // Without the carried block both others would lie at 0.
    let blocks = [block(512, 0, 2), block(512, 6, 9), block(1024, 7, 1)];
    let placement = place(&blocks, &PlaceConfig::default()).unwrap();
    assert_eq!(placement.offsets(), [1024, 1024, 0]);
}

#[test]
fn what_stood_out_is_placed_first_the_next_time() {
    // Largest first puts 3 on top of 2 + 2, though it fits beside either.
    let blocks = [
        block(6, 2, 4),
        block(5, 0, 2),
        block(5, 4, 6),
        block(4, 1, 3),
        block(4, 3, 5),
        block(3, 0, 1),
        block(3, 5, 6),
    ];
    let config = PlaceConfig {
        alignment: 1,
        ..PlaceConfig::default()
    };
    let once = place(
        &blocks,
        &PlaceConfig {
            passes: 1,
            ..config
        },
    )
    .unwrap();
    let placement = place(&blocks, &config).unwrap();
    assert_eq!(placement.height(), placement.peak_live());
    assert!(placement.passes() > 1 || once.height() == once.peak_live());
}
