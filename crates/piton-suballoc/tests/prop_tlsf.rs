//! Random programs against the plain model: after each step both must show the same extents, and `check` must hold.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod model;

use model::{Model, Piece, piece_of};
use piton_suballoc::{Chunk, Domain, Extent, ExtentError, ExtentId, ExtentState, Tlsf};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

const CAPACITY: u64 = 1 << 16;
const UNIT: u64 = 256;

#[derive(Clone, Debug)]
enum Step {
    Allocate {
        domain: Domain,
        bytes: u64,
        align: u64,
    },
    Free {
        pick: usize,
        domain: Domain,
        stamp: u64,
    },
    FreeAgain {
        pick: usize,
    },
    Move {
        pick: usize,
        to: Domain,
    },
    Release {
        domain: Domain,
        stamp: u64,
    },
    MoveAll {
        from: Domain,
        to: Domain,
    },
    Remove {
        domain: Domain,
    },
    Cut {
        pick: usize,
        bytes: u64,
    },
    Claim {
        at: usize,
        units: u64,
        from: Option<usize>,
    },
    AddRange {
        units: u64,
    },
    RemoveRange {
        pick: usize,
    },
}

fn domains() -> impl Strategy<Value = Domain> {
    prop_oneof![
        3 => Just(Domain::SHARED),
        4 => (0u32..3).prop_map(|number| Domain::new(number).expect("small")),
    ]
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..3 * UNIT,
        4 => 0..40 * UNIT,
        1 => 0..CAPACITY * 2,
        1 => prop_oneof![Just(CAPACITY), Just(u64::MAX), Just(u64::MAX - UNIT + 1)],
    ]
}

fn alignments() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => Just(1u64),
        3 => (0u32..13).prop_map(|bits| 1 << bits),
        1 => prop_oneof![Just(0u64), Just(3), Just(1 << 63)],
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (domains(), sizes(), alignments())
            .prop_map(|(domain, bytes, align)| Step::Allocate { domain, bytes, align }),
        5 => (any::<usize>(), domains(), 0u64..20)
            .prop_map(|(pick, domain, stamp)| Step::Free { pick, domain, stamp }),
        1 => any::<usize>().prop_map(|pick| Step::FreeAgain { pick }),
        1 => (any::<usize>(), domains()).prop_map(|(pick, to)| Step::Move { pick, to }),
        1 => (domains(), 0u64..25).prop_map(|(domain, stamp)| Step::Release { domain, stamp }),
        1 => (domains(), domains()).prop_map(|(from, to)| Step::MoveAll { from, to }),
        1 => domains().prop_map(|domain| Step::Remove { domain }),
        1 => (any::<usize>(), sizes()).prop_map(|(pick, bytes)| Step::Cut { pick, bytes }),
        2 => (any::<usize>(), 0u64..50, any::<Option<usize>>())
            .prop_map(|(at, units, from)| Step::Claim { at, units, from }),
        1 => (0u64..60).prop_map(|units| Step::AddRange { units }),
        1 => any::<usize>().prop_map(|pick| Step::RemoveRange { pick }),
    ]
}

/// The range, the model, and who holds what.
struct Pair {
    range: Tlsf,
    model: Model,
    live: Vec<Chunk>,
    stale: Vec<ExtentId>,
    /// Range and place of a walk in parts.
    walked: (u64, u64),
}

impl Pair {
    fn new() -> Self {
        Self {
            range: Tlsf::new(CAPACITY, UNIT).expect("a right configuration"),
            model: {
                let mut model = Model::new();
                model.add_range(0, CAPACITY);
                model
            },
            live: Vec::new(),
            stale: Vec::new(),
            walked: (0, 0),
        }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Allocate {
                domain,
                bytes,
                align,
            } => self.allocate(domain, bytes, align)?,
            Step::Free {
                pick,
                domain,
                stamp,
            } if !self.live.is_empty() => {
                let chunk = self.live.swap_remove(pick % self.live.len());
                prop_assert_eq!(self.range.free(chunk.id, domain, stamp), Ok(()));
                self.model.give(chunk.offset, domain, stamp);
                self.stale.push(chunk.id);
            }
            Step::FreeAgain { pick } if !self.stale.is_empty() => {
                let id = self.stale[pick % self.stale.len()];
                prop_assert_eq!(
                    self.range.free(id, Domain::SHARED, 0),
                    Err(ExtentError::NotLive)
                );
            }
            Step::Move { pick, to } => self.move_extent(pick, to)?,
            Step::Release { domain, stamp } if !domain.is_shared() => {
                let moved = self.range.release_up_to(domain, stamp);
                prop_assert_eq!(moved, self.model.release_up_to(domain, stamp));
            }
            Step::Release { domain, stamp } => {
                prop_assert_eq!(self.range.release_up_to(domain, stamp), 0)
            }
            Step::MoveAll { from, to } => {
                let moved = self.range.move_all(from, to);
                prop_assert_eq!(moved, self.model.move_all(from, to));
            }
            Step::Remove { domain } => {
                let bytes = self.model.free_bytes(domain);
                let expected = if bytes == 0 {
                    Ok(())
                } else {
                    Err(ExtentError::DomainNotEmpty { bytes })
                };
                prop_assert_eq!(self.range.remove_domain(domain), expected);
            }
            Step::Cut { pick, bytes } if !self.live.is_empty() => self.cut(pick, bytes)?,
            Step::Claim { at, units, from } => self.claim(at, units, from)?,
            Step::AddRange { units } => {
                let added = self.range.add_range(units * UNIT);
                prop_assert_eq!(added.is_ok(), units > 0);
                if let Ok(offset) = added {
                    self.model.add_range(offset, units * UNIT);
                }
            }
            Step::RemoveRange { pick } => self.remove_range(pick)?,
            Step::Free { .. } | Step::FreeAgain { .. } | Step::Cut { .. } => {}
        }
        self.compare()
    }

    fn allocate(&mut self, domain: Domain, bytes: u64, align: u64) -> Result<(), TestCaseError> {
        let rounded = bytes.max(1).div_ceil(UNIT).saturating_mul(UNIT);
        let possible = align.is_power_of_two() && rounded <= CAPACITY && align <= 1 << 32;
        let peeked = self.range.peek(domain, bytes, align);
        match self.range.allocate(domain, bytes, align) {
            None => prop_assert!(!possible || !self.model.has_room(domain, rounded, align)),
            Some(chunk) => {
                prop_assert_eq!(chunk.bytes, rounded);
                let from = peeked.map(|extent| (extent.offset <= chunk.offset, extent.state));
                let stamp = chunk.stamp;
                prop_assert_eq!(from, Some((true, ExtentState::Free { domain, stamp })));
                prop_assert_eq!(chunk.offset % align.max(UNIT), 0);
                self.model
                    .take(domain, chunk.offset, chunk.bytes, rounded - bytes);
                self.live.push(chunk);
            }
        }
        Ok(())
    }

    fn cut(&mut self, pick: usize, bytes: u64) -> Result<(), TestCaseError> {
        let at = pick % self.live.len();
        let chunk = self.live[at];
        let kept = bytes.max(1).div_ceil(UNIT).saturating_mul(UNIT);
        match self.range.cut(chunk.id, bytes) {
            Err(error) => {
                prop_assert!(kept > chunk.bytes);
                prop_assert_eq!(error, ExtentError::TooShort { bytes: chunk.bytes });
            }
            Ok((low, rest)) => {
                prop_assert_eq!((low.offset, low.bytes), (chunk.offset, kept));
                self.model.cut(chunk.offset, bytes, kept);
                self.live[at] = low;
                self.live.extend(rest);
                self.stale.push(chunk.id);
            }
        }
        Ok(())
    }

    /// Claims what begins in the middle of some extent, walking from some extent below it or from the range's start.
    fn claim(&mut self, at: usize, units: u64, from: Option<usize>) -> Result<(), TestCaseError> {
        let extents: Vec<_> = self.range.extents().collect();
        let Some(extent) = extents.get(at % extents.len().max(1)) else {
            return Ok(());
        };
        let offset = extent.offset + extent.bytes / UNIT / 2 * UNIT;
        let bytes = units * UNIT;
        let below = |id| {
            let mut id = id;
            for _ in 0..from.unwrap_or(0) % 4 {
                id = self.range.below(id).map_or(id, |below| below.id);
            }
            id
        };
        let from = from.map(|_| below(extent.id));
        prop_assert_eq!(self.range.extent_at(offset, from), Some(*extent));
        let possible = self.model.claim(offset, bytes);
        let claimed = self.range.claim(offset, bytes, from);
        prop_assert_eq!(claimed.is_some(), possible);
        if let Some(chunk) = claimed {
            prop_assert_eq!((chunk.offset, chunk.bytes), (offset, bytes));
            self.live.push(chunk);
        }
        Ok(())
    }

    fn remove_range(&mut self, pick: usize) -> Result<(), TestCaseError> {
        let ranges: Vec<_> = self.range.ranges().collect();
        let Some(range) = ranges.get(pick % ranges.len().max(1)) else {
            return Ok(());
        };
        let whole = |piece: &Piece| piece.offset == range.offset && piece.bytes == range.bytes;
        let shared = |piece: &Piece| piece.is_free_in(Domain::SHARED);
        let is_free = self
            .model
            .pieces
            .iter()
            .any(|piece| whole(piece) && shared(piece));
        prop_assert_eq!(range.free_in == Some(Domain::SHARED), is_free);
        let offset = range.offset;
        let refused = Err(ExtentError::RangeInUse { offset });
        let expected = if is_free { Ok(()) } else { refused };
        prop_assert_eq!(self.range.remove_range(offset, Domain::SHARED), expected);
        if is_free {
            self.model.remove_range(offset);
        }
        Ok(())
    }

    fn pieces(&self) -> Vec<Piece> {
        self.range
            .extents()
            .map(|extent| piece_of(&extent))
            .collect()
    }

    fn move_extent(&mut self, pick: usize, to: Domain) -> Result<(), TestCaseError> {
        let extents: Vec<_> = self.range.extents().collect();
        let Some(extent) = extents.get(pick % extents.len().max(1)) else {
            return Ok(());
        };
        match extent.state {
            ExtentState::Live { .. } => {
                let refused = self.range.move_domain(extent.id, Domain::SHARED, to);
                prop_assert_eq!(refused, Err(ExtentError::NotFree));
            }
            ExtentState::Free { domain, stamp } => {
                prop_assert_eq!(self.range.move_domain(extent.id, domain, to), Ok(()));
                self.model.give(extent.offset, to, stamp);
                self.stale.push(extent.id);
            }
        }
        Ok(())
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.range.check(), Ok(()));
        prop_assert_eq!(&self.pieces(), &self.model.pieces);
        self.walk_on()?;
        let mut free = 0;
        for domain in [Domain::SHARED]
            .into_iter()
            .chain((0..3).filter_map(Domain::new))
        {
            let usage = self.range.domain_usage(domain);
            prop_assert_eq!(usage.bytes, self.model.free_bytes(domain));
            prop_assert_eq!(
                self.range.largest_free(domain),
                self.model.largest_free(domain)
            );
            for units in [0, 3, 40, u64::from(u32::MAX) + 1] {
                let bytes = units * self.range.unit();
                prop_assert_eq!(
                    self.range
                        .nearest(domain, bytes)
                        .map(|extent| extent.offset),
                    self.model.nearest(domain, bytes)
                );
            }
            free += usage.bytes;
        }
        let usage = self.range.usage();
        prop_assert_eq!(usage.shared + usage.reserved, free);
        prop_assert_eq!(usage.live + usage.padding + free, self.model.capacity());
        prop_assert_eq!(usage.chunks as usize, self.live.len());
        prop_assert_eq!(
            self.range.is_whole(),
            self.model.free_bytes(Domain::SHARED) == self.model.capacity()
        );
        Ok(())
    }
}

impl Pair {
    /// Two extents more of a walk that goes on while everything changes.
    fn walk_on(&mut self) -> Result<(), TestCaseError> {
        let (range, at) = self.walked;
        let rest = self.range.extents_of(range);
        let rest = rest.filter(|extent| extent.offset + extent.bytes > at);
        let expected: Vec<Extent> = rest.take(2).collect();
        let part = self.range.walk_on(range, at, 2);
        prop_assert_eq!(&part, &expected);
        self.walked = if let Some(last) = part.last() {
            (range, last.offset + last.bytes)
        } else {
            let starts: Vec<u64> = self.range.ranges().map(|range| range.offset).collect();
            let next = starts.iter().find(|start| **start > range);
            let next = next.or(starts.first()).copied().unwrap_or(0);
            (next, next)
        };
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn any_program_does_what_a_sorted_list_does(program in prop::collection::vec(steps(), 1..150)) {
        let mut pair = Pair::new();
        for step in program {
            pair.step(step)?;
        }
    }

    #[test]
    fn giving_everything_back_makes_each_range_one_extent_again(
        program in prop::collection::vec(steps(), 1..100),
    ) {
        let mut pair = Pair::new();
        for step in program {
            pair.step(step)?;
        }
        for chunk in std::mem::take(&mut pair.live) {
            prop_assert_eq!(pair.range.free(chunk.id, Domain::SHARED, 0), Ok(()));
        }
        for number in 0..3 {
            pair.range.release_up_to(Domain::new(number).expect("small"), u64::MAX);
        }
        prop_assert!(pair.range.is_whole());
        let ranges: Vec<u64> = pair.range.ranges().map(|range| range.offset).collect();
        prop_assert_eq!(pair.range.extents().count(), ranges.len());
        for offset in ranges {
            prop_assert_eq!(pair.range.remove_range(offset, Domain::SHARED), Ok(()));
        }
        prop_assert_eq!(pair.range.capacity(), 0);
        prop_assert_eq!(pair.range.check(), Ok(()));
    }
}
