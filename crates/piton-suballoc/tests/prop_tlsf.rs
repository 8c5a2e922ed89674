//! Random programs against the plain model: after each step both must show the same extents, and `check` must hold.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod model;

use model::{Model, Piece, piece_of};
use piton_suballoc::{Chunk, Domain, ExtentError, ExtentId, ExtentState, Tlsf};
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
    Remove {
        domain: Domain,
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
        1 => domains().prop_map(|domain| Step::Remove { domain }),
    ]
}

/// The range, the model, and who holds what.
struct Pair {
    range: Tlsf,
    model: Model,
    live: Vec<Chunk>,
    stale: Vec<ExtentId>,
}

impl Pair {
    fn new() -> Self {
        Self {
            range: Tlsf::new(CAPACITY, UNIT).expect("a right configuration"),
            model: Model::new(CAPACITY),
            live: Vec::new(),
            stale: Vec::new(),
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
            Step::Remove { domain } => {
                let bytes = self.model.free_bytes(domain);
                let expected = if bytes == 0 {
                    Ok(())
                } else {
                    Err(ExtentError::DomainNotEmpty { bytes })
                };
                prop_assert_eq!(self.range.remove_domain(domain), expected);
            }
            Step::Free { .. } | Step::FreeAgain { .. } => {}
        }
        self.compare()
    }

    fn allocate(&mut self, domain: Domain, bytes: u64, align: u64) -> Result<(), TestCaseError> {
        let rounded = bytes.max(1).div_ceil(UNIT).saturating_mul(UNIT);
        let possible = align.is_power_of_two() && rounded <= CAPACITY && align <= 1 << 32;
        match self.range.allocate(domain, bytes, align) {
            None => prop_assert!(!possible || !self.model.has_room(domain, rounded, align)),
            Some(chunk) => {
                prop_assert_eq!(chunk.bytes, rounded);
                prop_assert_eq!(chunk.offset % align.max(UNIT), 0);
                self.model
                    .take(domain, chunk.offset, chunk.bytes, rounded - bytes);
                self.live.push(chunk);
            }
        }
        Ok(())
    }

    fn move_extent(&mut self, pick: usize, to: Domain) -> Result<(), TestCaseError> {
        let extents: Vec<_> = self.range.extents().collect();
        let extent = extents[pick % extents.len()];
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

    fn compare(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.range.check(), Ok(()));
        let pieces: Vec<Piece> = self
            .range
            .extents()
            .map(|extent| piece_of(&extent))
            .collect();
        prop_assert_eq!(&pieces, &self.model.pieces);
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
            free += usage.bytes;
        }
        let usage = self.range.usage();
        prop_assert_eq!(usage.shared + usage.reserved, free);
        prop_assert_eq!(usage.live + usage.padding + free, CAPACITY);
        prop_assert_eq!(usage.chunks as usize, self.live.len());
        prop_assert_eq!(
            self.range.is_whole(),
            self.model.free_bytes(Domain::SHARED) == CAPACITY
        );
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
    fn giving_everything_back_makes_one_extent_again(
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
        prop_assert_eq!(pair.range.extents().count(), 1);
    }
}
