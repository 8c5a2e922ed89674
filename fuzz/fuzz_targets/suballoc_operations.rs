//! Any sequence of operations on a range of offsets, with any arguments: nothing panics, live chunks never overlap,
//! and `check` holds after each step.
//!
//! Ids that have gone stale are used on purpose. They must be refused and change nothing.

#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use piton_suballoc::{Chunk, Domain, ExtentId, Tlsf};

/// One call. Numbers are taken as they come: most are nonsense, and nonsense must be refused.
#[derive(Debug, Arbitrary)]
enum Step {
    Allocate {
        domain: u8,
        bytes: Size,
        align_bits: u8,
    },
    AllocateAlignedAnyhow {
        bytes: u64,
        align: u64,
    },
    Free {
        pick: u8,
        domain: u8,
        stamp: u8,
    },
    FreeStale {
        pick: u8,
    },
    Cut {
        pick: u8,
        bytes: Size,
    },
    Move {
        pick: u8,
        from: u8,
        to: u8,
    },
    Release {
        domain: u8,
        stamp: u8,
    },
    MoveAll {
        from: u8,
        to: u8,
    },
    Remove {
        domain: u8,
    },
    Claim {
        pick: u8,
        bytes: Size,
    },
    AddRange {
        bytes: Size,
    },
    RemoveRange {
        pick: u8,
    },
}

/// A size that often fits.
#[derive(Debug, Arbitrary)]
enum Size {
    Units(u8),
    Bytes(u16),
    Any(u64),
}

#[derive(Debug, Arbitrary)]
struct Program {
    unit_bits: u8,
    capacity_units: u16,
    steps: Vec<Step>,
}

/// The range under test and what its user holds.
struct User {
    range: Tlsf,
    live: Vec<Chunk>,
    stale: Vec<ExtentId>,
}

fuzz_target!(|program: Program| {
    let unit = 1_u64 << (program.unit_bits % 22);
    let capacity = unit * u64::from(program.capacity_units);
    let Ok(range) = Tlsf::new(capacity, unit) else {
        assert_eq!(
            capacity, 0,
            "every other capacity is a whole number of units"
        );
        return;
    };
    let mut user = User {
        range,
        live: Vec::new(),
        stale: Vec::new(),
    };
    for step in program.steps {
        user.step(&step);
        user.range.check().expect("the books are in order");
        user.no_two_chunks_overlap();
    }
    user.give_everything_back();
});

impl User {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Allocate {
                domain,
                bytes,
                align_bits,
            } => {
                let align = 1_u64 << (align_bits % 64);
                self.allocate(domain_of(*domain), self.bytes(bytes), align);
            }
            Step::AllocateAlignedAnyhow { bytes, align } => {
                self.allocate(Domain::SHARED, *bytes, *align);
            }
            Step::Free {
                pick,
                domain,
                stamp,
            } => self.free(*pick, domain_of(*domain), *stamp),
            Step::FreeStale { pick } => self.free_stale(*pick),
            Step::Cut { pick, bytes } => self.cut(*pick, self.bytes(bytes)),
            Step::Move { pick, from, to } => {
                self.move_domain(*pick, domain_of(*from), domain_of(*to))
            }
            Step::Release { domain, stamp } => {
                self.range
                    .release_up_to(domain_of(*domain), u64::from(*stamp));
            }
            Step::MoveAll { from, to } => {
                self.range.move_all(domain_of(*from), domain_of(*to));
            }
            Step::Remove { domain } => {
                let _ = self.range.remove_domain(domain_of(*domain));
            }
            Step::Claim { pick, bytes } => self.claim(*pick, self.bytes(bytes)),
            Step::AddRange { bytes } => {
                let _ = self.range.add_range(self.bytes(bytes));
            }
            Step::RemoveRange { pick } => self.remove_range(*pick),
        }
    }

    fn bytes(&self, size: &Size) -> u64 {
        match size {
            Size::Units(units) => u64::from(*units) * self.range.unit(),
            Size::Bytes(bytes) => u64::from(*bytes),
            Size::Any(bytes) => *bytes,
        }
    }

    fn allocate(&mut self, domain: Domain, bytes: u64, align: u64) {
        if let Some(chunk) = self.range.allocate(domain, bytes, align) {
            assert!(chunk.bytes >= bytes.max(1));
            assert_eq!(chunk.offset % align, 0);
            self.live.push(chunk);
        }
    }

    fn free(&mut self, pick: u8, domain: Domain, stamp: u8) {
        if let Some(at) = position(pick, self.live.len()) {
            let chunk = self.live.swap_remove(at);
            let freed = self.range.free(chunk.id, domain, u64::from(stamp));
            freed.expect("a live chunk can be freed");
            self.stale.push(chunk.id);
        }
    }

    fn free_stale(&mut self, pick: u8) {
        if let Some(at) = position(pick, self.stale.len()) {
            let freed = self.range.free(self.stale[at], Domain::SHARED, 0);
            freed.expect_err("a stale id names nothing");
        }
    }

    fn cut(&mut self, pick: u8, bytes: u64) {
        let Some(at) = position(pick, self.live.len()) else {
            return;
        };
        let whole = self.live[at];
        if let Ok((kept, rest)) = self.range.cut(whole.id, bytes) {
            let rest_bytes = rest.map_or(0, |rest| rest.bytes);
            assert_eq!(kept.bytes + rest_bytes, whole.bytes);
            self.live[at] = kept;
            self.live.extend(rest);
            self.stale.push(whole.id);
        }
    }

    fn move_domain(&mut self, pick: u8, from: Domain, to: Domain) {
        let ids: Vec<ExtentId> = self.range.extents().map(|extent| extent.id).collect();
        if let Some(at) = position(pick, ids.len()) {
            let _ = self.range.move_domain(ids[at], from, to);
        }
    }

    /// Claims from the start of some extent on, whatever lies there.
    fn claim(&mut self, pick: u8, bytes: u64) {
        let extents: Vec<_> = self.range.extents().collect();
        if let Some(at) = position(pick, extents.len()) {
            let extent = extents[at];
            if let Some(chunk) = self.range.claim(extent.offset, bytes, Some(extent.id)) {
                assert_eq!((chunk.offset, chunk.bytes), (extent.offset, bytes));
                self.live.push(chunk);
            }
        }
    }

    fn remove_range(&mut self, pick: u8) {
        let offsets: Vec<u64> = self.range.ranges().map(|range| range.offset).collect();
        if let Some(at) = position(pick, offsets.len()) {
            let _ = self.range.remove_range(offsets[at], Domain::SHARED);
        }
    }

    fn no_two_chunks_overlap(&self) {
        let by_offset: BTreeMap<u64, u64> = self
            .live
            .iter()
            .map(|chunk| (chunk.offset, chunk.offset + chunk.bytes))
            .collect();
        assert_eq!(
            by_offset.len(),
            self.live.len(),
            "two chunks start together"
        );
        let starts = by_offset.keys().skip(1);
        for (end, next) in by_offset.values().zip(starts) {
            assert!(
                end <= next,
                "a chunk ends at {end}, the next starts at {next}"
            );
        }
    }

    /// With nothing live and every domain's memory released, each range is one free extent again.
    fn give_everything_back(mut self) {
        for chunk in self.live.drain(..) {
            let freed = self.range.free(chunk.id, Domain::SHARED, 0);
            freed.expect("a live chunk can be freed");
        }
        for number in 0..DOMAINS {
            self.range.release_up_to(domain_of(number), u64::MAX);
        }
        self.range.check().expect("the books are in order");
        assert!(self.range.is_unused() && self.range.is_whole());
        assert!(self.range.ranges().all(|range| range.free_in.is_some()));
    }
}

/// How many domains the programs use, the shared one among them.
const DOMAINS: u8 = 4;

fn domain_of(number: u8) -> Domain {
    match number % DOMAINS {
        0 => Domain::SHARED,
        number => Domain::new(u32::from(number)).expect("a small number"),
    }
}

/// A position in a list of `len` items, if it has any.
fn position(pick: u8, len: usize) -> Option<usize> {
    usize::from(pick).checked_rem(len)
}
