//! Placing: an order, a pass, and then again with what stood out moved to the front.
//!
//! A pass takes the blocks in an order and gives each the lowest place that is free all through its lifetime. What ends
//! above the peak of live bytes came too late, when its places were taken by blocks that had others to go to; the next
//! pass takes it first. Three *trails* of passes, from three first orders, take turns until one reaches the peak, which no
//! placement can beat, or their share of the allowance is used up. Then the large blocks are placed among themselves
//! ([`levels`]), and the order that does best for them begins a fourth. The best pass counts. All of it is a function of its
//! input.

use crate::block::Block;
use crate::error::PlaceError;
use crate::instants::Instants;
use crate::levels::{self, Allowance};
use crate::order::Order;
use crate::pass::{Pass, Passes};
use crate::placement::Placement;

/// How blocks are placed, and how hard is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceConfig {
    /// Every offset is a multiple of this many bytes, a power of two.
    pub alignment: u64,
    /// Most passes over all blocks; the first is always made. With one pass nothing is improved on.
    /// Half of them follow trails, the others what is learned from the large blocks alone.
    pub passes: u32,
    /// Most blocks placed in all passes together, those over the large ones alone included, a sixth of it on trails; the
    /// first pass is always made. This is what bounds the time.
    pub effort: u64,
}

impl Default for PlaceConfig {
    fn default() -> Self {
        Self {
            alignment: 512,
            passes: 96,
            effort: 6_000_000,
        }
    }
}

/// A placement is good, and only trails go on, when what it is higher than the peak is less than one in so many.
const GOOD: u64 = 1000;

/// Passes over the large blocks alone to one over all.
const PASSES_AT_A_LEVEL: u32 = 8;

/// Most blocks that are placed together: what `u32` counts twice over.
pub const MAX_BLOCKS: usize = (u32::MAX / 4) as usize;

/// Gives each block an offset so that no two overlap while both live, and the height is near the peak of live bytes.
///
/// Takes `O(n (log n + m))` time per pass and `O(n log n)` memory, where `m` is the number of runs of live memory
/// between holes that are large enough for a block.
///
/// # Errors
/// [`PlaceError`]: a block of no bytes, an alignment that is not a power of two, or too many blocks or bytes to
/// count.
pub fn place(blocks: &[Block], config: &PlaceConfig) -> Result<Placement, PlaceError> {
    let bytes = rounded(blocks, config.alignment)?;
    let instants = Instants::of(blocks);
    let mut attempts = Attempts {
        passes: Passes::new(&bytes, &instants),
        best: None,
        made: 0,
    };
    attempts.follow_trails(config);
    if !attempts.is_good() && config.passes > 1 {
        let effort = config.effort - attempts.passes.placed.min(config.effort);
        let at_a_level = Allowance {
            passes: config.passes.saturating_mul(PASSES_AT_A_LEVEL),
            blocks: effort / 2 / levels::SHARES.len() as u64,
        };
        let peak = attempts.passes.peak_live;
        let order = levels::order(blocks, &bytes, peak, at_a_level);
        let over_all = Allowance {
            passes: config.passes / 2,
            blocks: effort / 2,
        };
        let (_, improved) = levels::improve(&mut attempts.passes, order, over_all);
        attempts.keep(Order::Levels, improved);
    }
    let peak_live = attempts.passes.peak_live;
    let (order, pass) = attempts.best.unwrap_or((Order::Size, Pass::default()));
    Ok(Placement {
        offsets: pass.offsets,
        alignment: config.alignment,
        height: pass.height,
        peak_live,
        order,
        passes: attempts.made,
    })
}

/// The bytes of each block, rounded; their sum can be counted, and so can every place that is ever looked at.
fn rounded(blocks: &[Block], alignment: u64) -> Result<Vec<u64>, PlaceError> {
    if !alignment.is_power_of_two() {
        return Err(PlaceError::Alignment { alignment });
    }
    if blocks.len() > MAX_BLOCKS {
        return Err(PlaceError::TooManyBlocks {
            blocks: blocks.len(),
            limit: MAX_BLOCKS,
        });
    }
    let mut total = 0_u64;
    let rounded = blocks.iter().enumerate().map(|(index, block)| {
        let bytes = block.rounded(index, alignment)?;
        total = total
            .checked_add(bytes)
            .ok_or(PlaceError::BytesOverflow { index })?;
        Ok(bytes)
    });
    rounded.collect()
}

/// Passes that improve on each other.
#[derive(Debug)]
struct Trail {
    first: Order,
    order: Vec<u32>,
}

/// What was tried, and the best that came of it.
#[derive(Debug)]
struct Attempts<'a> {
    passes: Passes<'a>,
    best: Option<(Order, Pass)>,
    /// Passes over all blocks.
    made: u32,
}

impl Attempts<'_> {
    fn follow_trails(&mut self, config: &PlaceConfig) {
        let (passes, effort) = (config.passes.div_ceil(2), config.effort / 6);
        let (bytes, lifetimes) = (self.passes.bytes, &self.passes.instants.lifetimes);
        let mut trails = [Order::Size, Order::Area, Order::Lifetime].map(|first| Trail {
            first,
            order: first.of(bytes, lifetimes),
        });
        for turn in (0..3).cycle() {
            let trail: &mut Trail = &mut trails[turn];
            let pass = self.try_order(trail.first, &trail.order);
            self.passes.raise(&mut trail.order, &pass);
            if self.is_perfect() || self.made >= passes || !self.has_room(effort) {
                return;
            }
        }
    }

    /// Makes a pass, and keeps it if it is the best so far.
    fn try_order(&mut self, first: Order, order: &[u32]) -> Pass {
        let pass = self.passes.pass(order);
        self.made += 1;
        self.keep(first, pass.clone());
        pass
    }

    fn keep(&mut self, first: Order, pass: Pass) {
        let is_better = |best: &(Order, Pass)| pass.height < best.1.height;
        if self.best.as_ref().is_none_or(is_better) {
            self.best = Some((first, pass));
        }
    }

    fn is_perfect(&self) -> bool {
        let is_perfect = |(_, best): &(Order, Pass)| best.height == self.passes.peak_live;
        self.best.as_ref().is_none_or(is_perfect)
    }

    /// Is what could still be won not worth much?
    fn is_good(&self) -> bool {
        let peak = self.passes.peak_live;
        let is_good = |(_, best): &(Order, Pass)| best.height - peak <= peak / GOOD;
        self.best.as_ref().is_none_or(is_good)
    }

    /// Is there room for one more pass?
    fn has_room(&self, effort: u64) -> bool {
        let one_more = self.passes.bytes.len() as u64;
        self.passes.placed.saturating_add(one_more) <= effort
    }
}
