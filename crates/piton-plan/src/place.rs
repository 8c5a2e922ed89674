//! Placing: an order, a pass, and then again with what stood out moved to the front.
//!
//! A pass takes the blocks in an order and gives each the lowest place that is free all through its lifetime. What ends
//! above the peak of live bytes came too late, when its places were taken by blocks that had others to go to; the next
//! pass takes it first. Three *trails* of passes, from three first orders, take turns until one reaches the peak, which no
//! placement can beat, or the allowance is used up. The best pass counts. All of it is a function of its input.

use crate::block::Block;
use crate::error::PlaceError;
use crate::instants::Instants;
use crate::occupancy::Occupancy;
use crate::order::Order;
use crate::placement::Placement;
use crate::runs::Run;

/// How blocks are placed, and how hard is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceConfig {
    /// Bytes that every offset is a multiple of: a power of two.
    pub alignment: u64,
    /// Most passes over all blocks; the first is always made.
    pub passes: u32,
    /// Most blocks placed in all passes together; the first pass is always made. This is what bounds the time.
    pub effort: u64,
}

impl Default for PlaceConfig {
    fn default() -> Self {
        Self {
            alignment: 512,
            passes: 48,
            effort: 1_000_000,
        }
    }
}

/// Blocks live at a time to instants of a bucket: with fewer instants, searches walk less and taking costs more.
const LIVE_TO_BUCKET: u32 = 8;

/// Most blocks that are placed together: what `u32` counts twice over.
pub const MAX_BLOCKS: usize = (u32::MAX / 4) as usize;

/// Gives each block an offset so that no two overlap while both live, and the height is near the peak of live bytes.
///
/// Takes `O(n (log n + m))` time a pass and `O(n log n)` memory, `m` being the runs of live memory that holes large enough
/// for a block leave apart.
///
/// # Errors
/// [`PlaceError`]: a block of no bytes, an alignment that is no power of two, too much of either to be counted.
pub fn place(blocks: &[Block], config: &PlaceConfig) -> Result<Placement, PlaceError> {
    let bytes = rounded(blocks, config.alignment)?;
    let instants = Instants::of(blocks);
    let peak_live = instants.peak(&bytes);
    let mut search = Search {
        occupancy: Occupancy::new(instants.count, instants.mean_live() / LIVE_TO_BUCKET),
        bytes: &bytes,
        instants: &instants,
        peak_live,
    };
    let mut trails = [Order::Size, Order::Area, Order::Lifetime].map(|first| Trail {
        first,
        order: first.of(&bytes, &instants.lifetimes),
    });
    let mut best: Option<(Order, Pass)> = None;
    let mut passes = 0;
    while passes == 0 || (passes < config.passes && effort(blocks, passes + 1) <= config.effort) {
        let trail = &mut trails[passes as usize % 3];
        let pass = search.pass(&trail.order);
        passes += 1;
        let is_perfect = pass.height == peak_live;
        search.raise(trail, &pass);
        if best
            .as_ref()
            .is_none_or(|(_, best)| pass.height < best.height)
        {
            best = Some((trail.first, pass));
        }
        if is_perfect {
            break;
        }
    }
    let (order, pass) = best.unwrap_or((Order::Size, Pass::default()));
    Ok(Placement {
        offsets: pass.offsets,
        alignment: config.alignment,
        height: pass.height,
        peak_live,
        order,
        passes,
    })
}

fn effort(blocks: &[Block], passes: u32) -> u64 {
    (blocks.len() as u64).saturating_mul(u64::from(passes))
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

/// What one pass came to.
#[derive(Debug, Default)]
struct Pass {
    offsets: Vec<u64>,
    height: u64,
}

/// Blocks placed one after the other with the same slack.
#[derive(Debug)]
struct Batch {
    len: usize,
    /// Bytes of the smallest.
    smallest: u64,
}

struct Search<'a> {
    occupancy: Occupancy,
    bytes: &'a [u64],
    instants: &'a Instants,
    peak_live: u64,
}

impl Search<'_> {
    fn pass(&mut self, order: &[u32]) -> Pass {
        let mut pass = Pass {
            offsets: vec![0; order.len()],
            height: 0,
        };
        let mut placed = 0;
        while let Some(rest) = order.get(placed..).filter(|rest| !rest.is_empty()) {
            let batch = self.batch(rest, placed);
            self.prepare(&order[..placed], &batch, &pass);
            for block in &rest[..batch.len] {
                self.place(*block as usize, &mut pass);
            }
            placed += batch.len;
        }
        pass
    }

    fn place(&mut self, index: usize, pass: &mut Pass) {
        let (bytes, lifetime) = (self.bytes[index], self.instants.lifetimes[index]);
        let start = self.occupancy.lowest_fit(lifetime, bytes);
        let end = start + bytes;
        self.occupancy.take(lifetime, Run { start, end });
        pass.offsets[index] = start;
        pass.height = pass.height.max(end);
    }

    /// How far sizes stay within a factor of four, but half as many as are placed at least, so that taking those anew for
    /// each batch costs no more than three times what it cost first.
    fn batch(&self, rest: &[u32], placed: usize) -> Batch {
        let bytes = |block: &u32| self.bytes[*block as usize];
        let quarter = rest.first().map_or(0, bytes) / 4;
        let similar = rest.iter().position(|block| bytes(block) < quarter);
        let len = similar
            .unwrap_or(rest.len())
            .max(placed / 2)
            .min(rest.len())
            .max(1);
        Batch {
            len,
            smallest: rest[..len].iter().map(bytes).min().unwrap_or(1),
        }
    }

    /// Takes anew what is placed, with the gaps filled that are too small for the batch.
    fn prepare(&mut self, placed: &[u32], batch: &Batch, pass: &Pass) {
        self.occupancy.clear(batch.smallest);
        for block in placed {
            let index = *block as usize;
            let start = pass.offsets[index];
            let end = start + self.bytes[index];
            self.occupancy
                .take(self.instants.lifetimes[index], Run { start, end });
        }
    }

    /// Moves the blocks that end above the peak to the front, keeping the order among them and among the others.
    fn raise(&self, trail: &mut Trail, pass: &Pass) {
        let stands_out = |block: &u32| {
            let index = *block as usize;
            pass.offsets[index] + self.bytes[index] > self.peak_live
        };
        let (mut raised, others): (Vec<u32>, Vec<u32>) =
            trail.order.iter().partition(|block| stands_out(block));
        raised.extend(others);
        trail.order = raised;
    }
}
