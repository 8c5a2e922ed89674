//! Properties of size classes against the plain statement of what they are.

use piton_suballoc::SizeClass;
use proptest::prelude::*;

/// The classes in words: 1, 2, 3, 4 grains, then four equal steps to each doubling.
fn classes_by_hand() -> Vec<u64> {
    let mut classes: Vec<u64> = (1..=4).map(|grains| grains * 64).collect();
    let mut base: u64 = 4 * 64;
    while base < SizeClass::MAX_BYTES {
        classes.extend((1..=4).map(|step| base + step * (base / 4)));
        base *= 2;
    }
    classes
}

#[test]
fn the_table_is_four_classes_a_doubling() {
    let classes: Vec<u64> = SizeClass::all().map(SizeClass::bytes).collect();
    assert_eq!(classes, classes_by_hand());
    assert_eq!(classes.len(), SizeClass::COUNT);
    assert_eq!(classes.last(), Some(&SizeClass::MAX_BYTES));
}

#[test]
fn indices_and_classes_correspond() {
    for (index, class) in SizeClass::all().enumerate() {
        assert_eq!(class.index(), index);
        assert_eq!(SizeClass::from_index(index), Some(class));
        assert_eq!(SizeClass::for_bytes(class.bytes()), Some(class));
    }
    assert_eq!(SizeClass::from_index(SizeClass::COUNT), None);
}

#[test]
fn sizes_beyond_the_largest_class_have_none() {
    assert!(SizeClass::for_bytes(SizeClass::MAX_BYTES).is_some());
    assert_eq!(SizeClass::for_bytes(SizeClass::MAX_BYTES + 1), None);
    assert_eq!(SizeClass::for_bytes(u64::MAX), None);
    assert_eq!(SizeClass::for_bytes(0), SizeClass::from_index(0));
    for bytes in [0, SizeClass::MAX_BYTES + 1, u64::MAX] {
        assert!(SizeClass::index_for(bytes) >= SizeClass::COUNT);
    }
}

/// Sizes of every magnitude, with the neighbours of class boundaries among them.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0u32..62, any::<u64>()).prop_map(|(bits, noise)| noise & ((1 << bits) - 1)),
        (0..SizeClass::COUNT, -1i64..=1).prop_map(|(index, nudge)| {
            let bytes = SizeClass::from_index(index).map_or(0, SizeClass::bytes);
            bytes.saturating_add_signed(nudge).min(SizeClass::MAX_BYTES)
        }),
    ]
}

proptest! {
    #[test]
    fn the_class_is_the_smallest_that_holds_the_request(bytes in sizes()) {
        let class = SizeClass::for_bytes(bytes).expect("within range");
        prop_assert!(class.bytes() >= bytes);
        if bytes > 0 {
            prop_assert_eq!(SizeClass::index_for(bytes), class.index());
        }
        if let Some(below) = class.index().checked_sub(1).and_then(SizeClass::from_index) {
            prop_assert!(below.bytes() < bytes);
        }
    }

    #[test]
    fn slack_is_less_than_a_grain_or_a_quarter_of_the_request(bytes in 1..=SizeClass::MAX_BYTES) {
        let slack = SizeClass::for_bytes(bytes).expect("within range").bytes() - bytes;
        prop_assert!(slack < SizeClass::GRAIN || slack < bytes / 4 + 1);
    }
}
