//! Every way of copying beside `copy_from_slice`, at any place and length; and nothing else is written.

#![cfg(not(loom))]
#![expect(unsafe_code, reason = "calls the raw copy on slices' memory")]

use piton_copy::{copy_cached, copy_cached_raw, copy_streaming, copy_streaming_raw};
use proptest::prelude::*;

/// Room for what is copied and for a page before and behind it.
const ROOM: usize = 200 << 10;

/// Bytes that differ from those of their neighbours, lines and pages.
fn pattern(bytes: usize) -> Vec<u8> {
    let mix = |at: usize| (at ^ at >> 6 ^ at >> 12).to_le_bytes()[0];
    (0..bytes).map(mix).collect()
}

type Raw = unsafe fn(*mut u8, *const u8, usize);

const RAW: [Raw; 2] = [copy_cached_raw, copy_streaming_raw];

fn raw(way: Raw, dst: &mut [u8], src: &[u8]) {
    let bytes = dst.len().min(src.len());
    // SAFETY: both are as long, and one of them can be written.
    unsafe { way(dst.as_mut_ptr(), src.as_ptr(), bytes) };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_way_copies_what_a_plain_copy_would_and_nothing_else(
        (to, from) in (0..5000_usize, 0..5000_usize),
        bytes in prop_oneof![0..300_usize, 0..180_000_usize, Just(16 << 10), Just(64 << 10)],
    ) {
        let src = pattern(ROOM);
        let mut expected = vec![0xA5; ROOM];
        expected[to..to + bytes].copy_from_slice(&src[from..from + bytes]);
        let copied = |way: &dyn Fn(&mut [u8], &[u8])| {
            let mut dst = vec![0xA5; ROOM];
            way(&mut dst[to..to + bytes], &src[from..from + bytes]);
            dst == expected
        };
        prop_assert!(copied(&copy_cached) && copied(&copy_streaming));
        for way in RAW {
            prop_assert!(copied(&|dst: &mut [u8], src: &[u8]| raw(way, dst, src)));
        }
    }

    #[test]
    fn a_raw_copy_within_one_memory_is_a_move(
        (to, from) in (0..40_000_usize, 0..40_000_usize),
        bytes in 0..100_000_usize,
    ) {
        let before = pattern(ROOM);
        let mut expected = before.clone();
        expected.copy_within(from..from + bytes, to);
        for way in RAW {
            let mut moved = before.clone();
            let start = moved.as_mut_ptr();
            // SAFETY: both ranges lie within the vector, which nobody else uses.
            unsafe { way(start.wrapping_add(to), start.wrapping_add(from), bytes) };
            prop_assert!(moved == expected);
        }
    }
}

#[test]
fn slices_of_two_lengths_are_copied_as_far_as_both_go() {
    let src = pattern(70_000);
    for (to, from) in [(0, 70_000), (70_000, 0), (40_000, 70_000), (70_000, 40_000)] {
        let both = to.min(from);
        let mut dst = vec![0; to];
        copy_streaming(&mut dst, &src[..from]);
        assert_eq!(dst[..both], src[..both]);
        assert!(dst[both..].iter().all(|byte| *byte == 0));
    }
}
