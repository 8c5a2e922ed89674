//! How a part of a copy that stops on its way is cut into chunks.
//!
//! Each leg carries a chunk while the next leg carries the one before. A chunk takes its time on the wire and, before that,
//! what lies between two copies of an engine, or all of a start where it came late; meanwhile the leg's other lane is to use the wire,
//! so a chunk must take longer than a start. And the next leg has nothing to do until a chunk has arrived, so chunks are to be short. They take
//! [`CHUNK_TIME`] on the wire, which is a few times a start.
//!
//! The first chunks are shorter still, each than the next, one for each lane of a leg and two at least: the next leg begins
//! sooner, and the lanes of a leg do not end, and then start, at the same times, in which the wire would rest. So are the last,
//! since the last leg carries those alone.

use piton_topology::{Nanos, defaults};

/// The fewest bytes of a chunk, if the part has that many.
pub const LEAST_CHUNK_BYTES: u64 = 1 << 19;
/// Bytes of a chunk at most, unless there would be too many of them.
pub(crate) const LARGEST_CHUNK_BYTES: u64 = 8 << 20;
/// What a chunk takes on the wire; plans count on it.
const CHUNK_TIME: Nanos = defaults::CHUNK_TIME;
/// The same on the way into host memory or out of it, for which a device may have but one engine: then nothing is carried while
/// a chunk is started.
const HOST_CHUNK_TIME: Nanos = defaults::HOST_CHUNK_TIME;
/// Short chunks at each end at most.
const MOST_SHORT: u16 = 16;
/// Chunks begin at multiples of this many bytes.
const ALIGN: u64 = 256;

/// What carries chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engines {
    /// As many as there are lanes.
    Many,
    /// Those for the host, among others.
    Host,
    /// One for each part, which stops so many times.
    Few {
        /// In a device's memory or the host's.
        stops: u16,
        /// From one chunk to the next, which was ready before the engine was free.
        between: Nanos,
    },
}

impl Engines {
    /// What a chunk takes on the wire, in nanoseconds, of a part that takes so many.
    fn chunk_ns(self, part_ns: u64) -> u128 {
        match self {
            Self::Many => CHUNK_TIME.get().into(),
            Self::Host => HOST_CHUNK_TIME.get().into(),
            // Each stop waits for a chunk, and each chunk for what is between two: so both together are least.
            Self::Few { stops, between } => {
                let all = u128::from(part_ns) * u128::from(between.get());
                let least = u128::from(CHUNK_TIME.get());
                (all / u128::from(stops.max(1))).isqrt().max(least)
            }
        }
    }
}

/// The chunks of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunks {
    /// Of the whole part.
    bytes: u64,
    /// Of the longest chunk.
    pub(crate) longest: u64,
    /// How many chunks at each end are shorter.
    short: u64,
}

impl Chunks {
    /// A part that stops nowhere: a chunk for each of so many lanes.
    pub(crate) fn side_by_side(bytes: u64, lanes: u16) -> Self {
        let each = bytes.div_ceil(u64::from(lanes.max(1)));
        Self {
            bytes,
            longest: each.next_multiple_of(ALIGN).min(bytes),
            short: 0,
        }
    }

    /// A part of so many bytes that should take so long, of which each leg has so many lanes that hold so many chunks each.
    pub(crate) fn of(
        (bytes, predicted_ns): (u64, u64),
        (lanes, held): (u16, u64),
        engines: Engines,
    ) -> Self {
        let time = engines.chunk_ns(predicted_ns);
        let carried = u128::from(bytes) * time / u128::from(predicted_ns.max(1));
        let carried = u64::try_from(carried).unwrap_or(u64::MAX);
        let fits = carried.clamp(LEAST_CHUNK_BYTES, LARGEST_CHUNK_BYTES);
        let most = u64::from(lanes.max(1)).saturating_mul(held).max(1);
        let lanes = u64::from(lanes.clamp(2, MOST_SHORT));
        // Each lane has so much less of the wire for itself.
        let fits = fits / lanes * 2;
        // Short ones where there is room for as many others.
        let short = if most >= 4 * lanes { lanes } else { 0 };
        let least = bytes.div_ceil(most - 2 * short);
        Self {
            bytes,
            longest: fits.max(least).next_multiple_of(ALIGN).min(bytes),
            short,
        }
    }

    /// How many there are.
    pub(crate) fn count(self) -> u64 {
        self.sizes().count() as u64
    }

    /// Bytes of each, in order.
    pub(crate) fn sizes(self) -> impl Iterator<Item = u64> {
        let Self { bytes, longest, .. } = self;
        let (short, end) = if self.has_short_ends() {
            (self.short, self.short_bytes())
        } else {
            (0, 0)
        };
        let body = bytes - 2 * end;
        let whole =
            std::iter::repeat_n(longest, usize::try_from(body / longest.max(1)).unwrap_or(0));
        let rest = body % longest.max(1);
        // What is no multiple is at the very end.
        let odd = if short > 0 { rest % ALIGN } else { 0 };
        let rest = rest - odd;
        let last = move |place| self.short_size(place) + if place == 1 { odd } else { 0 };
        (1..=short)
            .map(move |place| self.short_size(place))
            .chain(whole)
            .chain((rest > 0).then_some(rest))
            .chain((1..=short).rev().map(last))
    }

    /// Bytes of the short ones at one end.
    fn short_bytes(self) -> u64 {
        (1..=self.short).map(|place| self.short_size(place)).sum()
    }

    fn short_size(self, place: u64) -> u64 {
        // Of two a quarter and a half: what ends is to be short too.
        let of = if self.short == 2 { 4 } else { self.short + 1 };
        (self.longest / of * place).next_multiple_of(ALIGN)
    }

    /// Whether the part is long enough to have them.
    fn has_short_ends(self) -> bool {
        let are_apart = self.longest / (self.short + 1) > 2 * ALIGN;
        self.short > 0 && are_apart && 2 * self.short_bytes() + self.longest <= self.bytes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const fn few(stops: u16) -> Engines {
        let between = piton_topology::defaults::COPY_BETWEEN;
        Engines::Few { stops, between }
    }

    /// Chunks that a lane holds.
    const HELD: u64 = 320;

    /// 24 GB/s.
    fn chunks(bytes: u64, lanes: u16, engines: Engines) -> Chunks {
        Chunks::of((bytes, bytes / 24), (lanes, HELD), engines)
    }

    #[test]
    fn chunks_are_as_long_as_they_must_be_and_short_at_both_ends() {
        let two = chunks(64 << 20, 2, Engines::Many);
        assert_eq!(two.longest, LEAST_CHUNK_BYTES);
        let sizes: Vec<u64> = two.sizes().collect();
        let [half, quarter] = [2, 4].map(|part| LEAST_CHUNK_BYTES / part);
        assert_eq!(sizes[..3], [quarter, half, LEAST_CHUNK_BYTES]);
        assert_eq!(sizes[sizes.len() - 2..], [half, quarter]);
        let alone = chunks(64 << 20, 1, few(1));
        assert!(alone.longest > 3 * LEAST_CHUNK_BYTES, "{alone:?}");
        let four = chunks(64 << 20, 4, Engines::Many);
        assert_eq!(four.longest, LEAST_CHUNK_BYTES / 2);
    }

    #[test]
    fn lanes_of_a_leg_begin_with_chunks_of_different_lengths_and_end_so() {
        let six = chunks(256 << 20, 6, Engines::Many);
        let sizes: Vec<u64> = six.sizes().collect();
        let rises = |sizes: &[u64]| sizes.is_sorted_by(|first, next| first < next);
        assert!(rises(&sizes[..7]), "{sizes:?}");
        let last: Vec<u64> = sizes.iter().rev().take(6).copied().collect();
        assert!(rises(&last) && last[5] < six.longest, "{last:?}");
    }

    #[test]
    fn a_part_that_has_an_engine_to_itself_has_shorter_chunks_the_more_often_it_stops() {
        let [once, often] = [1, 4].map(|stops| chunks(256 << 20, 1, few(stops)));
        // Twice as many starts, four times as many chunks to wait for.
        assert!(
            once.longest.abs_diff(2 * often.longest) < 1024,
            "{once:?} {often:?}"
        );
    }

    #[test]
    fn a_fast_leg_has_longer_chunks() {
        let fast = Chunks::of((256 << 20, 2_684_354), (2, HELD), Engines::Many);
        assert_eq!(fast.longest, 1_400_064);
    }

    #[test]
    fn chunks_are_the_part_and_not_too_many() {
        for bytes in [
            1,
            255,
            300,
            1 << 19,
            (2 << 20) + 1,
            5 << 20,
            (1 << 30) + 7,
            1 << 40,
        ] {
            let mut kinds = vec![(Chunks::side_by_side(bytes, 3), 3)];
            for (lanes, held) in [
                (1, HELD),
                (2, HELD),
                (8, HELD),
                (2, 1),
                (12, 1),
                (2, 4),
                (1, 5),
            ] {
                let many = Chunks::of((bytes, bytes / 24), (lanes, held), Engines::Many);
                kinds.push((many, u64::from(lanes) * held));
            }
            kinds.push((chunks(bytes, 1, few(3)), HELD));
            for (chunks, most) in kinds {
                let sizes: Vec<u64> = chunks.sizes().collect();
                assert_eq!(sizes.iter().sum::<u64>(), bytes);
                assert!(
                    sizes
                        .iter()
                        .all(|size| *size > 0 && *size <= chunks.longest)
                );
                assert!(sizes.len() as u64 <= most, "{bytes} in {most}");
                assert_eq!(sizes.len() as u64, chunks.count());
                let (_last, starts) = sizes.split_last().unwrap();
                assert!(
                    starts.iter().all(|size| size.is_multiple_of(ALIGN)),
                    "{sizes:?}"
                );
            }
        }
        assert_eq!(
            Chunks::side_by_side(300, 1).sizes().collect::<Vec<_>>(),
            [300]
        );
    }
}
