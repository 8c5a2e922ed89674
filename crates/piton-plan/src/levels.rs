//! An order found from coarse to fine: the largest blocks among themselves, then with the next smaller, and so on.
//!
//! Where a few blocks make up most of what is live, it is their places that decide, and there are few of them: a pass over
//! those alone costs a hundredth of one over all, so hundreds of orders can be tried. The best one stays at the front when the
//! next level comes in behind it. An order is changed where it hurts: a block that ends above the peak is moved before, or
//! changes turns with, one that lives at its time and was placed earlier, and that one perhaps in its turn.

use crate::block::Block;
use crate::instants::Instants;
use crate::order::Order;
use crate::pass::{Pass, Passes};

/// Levels: blocks of at least the peak over this.
pub(crate) const SHARES: [u64; 3] = [50, 200, 1000];
/// Changes without success after which one that makes it a little worse is accepted.
const PATIENCE: u32 = 300;
/// How much worse, as a share of the height: one in so many.
const CONCESSION: u64 = 512;

/// How hard is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// Most passes beyond the first.
    pub(crate) passes: u32,
    /// Most blocks placed in them.
    pub(crate) blocks: u64,
}

/// The order of all blocks, the large ones as was best among themselves, the others by size. Each level has the allowance.
pub(crate) fn order(blocks: &[Block], bytes: &[u64], peak: u64, allowance: Allowance) -> Vec<u32> {
    let mut order = Vec::new();
    for share in SHARES {
        let is_large = |index: &u32| bytes[*index as usize].saturating_mul(share) >= peak;
        let level: Vec<u32> = (0_u32..).take(bytes.len()).filter(is_large).collect();
        if level.len() > order.len() && level.len() < bytes.len() {
            order = refine(blocks, bytes, &level, &order, allowance);
        }
    }
    with_the_rest(
        order,
        Order::Size.of(bytes, &Instants::of(blocks).lifetimes),
    )
}

/// The best order found of the blocks of a level, given one of those of the level before.
fn refine(
    blocks: &[Block],
    bytes: &[u64],
    level: &[u32],
    before: &[u32],
    allowance: Allowance,
) -> Vec<u32> {
    let part: Vec<Block> = level.iter().map(|index| blocks[*index as usize]).collect();
    let bytes: Vec<u64> = level.iter().map(|index| bytes[*index as usize]).collect();
    let instants = Instants::of(&part);
    let within = |index: &u32| level.binary_search(index).ok();
    let kept = before.iter().filter_map(within);
    let kept = kept.filter_map(|index| u32::try_from(index).ok()).collect();
    let first = with_the_rest(kept, Order::Size.of(&bytes, &instants.lifetimes));
    let (best, _) = improve(&mut Passes::new(&bytes, &instants), first, allowance);
    best.into_iter()
        .map(|index| level[index as usize])
        .collect()
}

/// An order with what is missing of another behind it.
fn with_the_rest(mut order: Vec<u32>, all: Vec<u32>) -> Vec<u32> {
    let mut is_there = vec![false; all.len()];
    order
        .iter()
        .for_each(|index| is_there[*index as usize] = true);
    order.extend(all.into_iter().filter(|index| !is_there[*index as usize]));
    order
}

/// Changes an order until it is perfect or the allowance is used up; the best, and its pass. The first pass is always made.
pub(crate) fn improve(
    passes: &mut Passes<'_>,
    order: Vec<u32>,
    allowance: Allowance,
) -> (Vec<u32>, Pass) {
    let end = passes.placed.saturating_add(allowance.blocks);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut now = Tried::new(passes, order);
    let mut best = now.clone();
    let mut in_vain = 0;
    for _ in 0..allowance.passes {
        if best.pass.height == passes.peak_live || passes.placed >= end {
            break;
        }
        let Some(changed) = changed(passes, &now, &mut random) else {
            break;
        };
        let next = Tried::new(passes, changed);
        let is_better = next.rank() < now.rank();
        let is_conceded = in_vain > PATIENCE
            && next.pass.height <= now.pass.height.saturating_add(now.pass.height / CONCESSION);
        in_vain = if is_better { 0 } else { in_vain + 1 };
        if is_better || is_conceded || next.rank() == now.rank() {
            now = next;
        }
        if now.rank() < best.rank() {
            best = now.clone();
        }
    }
    (best.order, best.pass)
}

/// An order and what it comes to.
#[derive(Debug, Clone)]
struct Tried {
    order: Vec<u32>,
    pass: Pass,
    /// Bytes above the peak, over all blocks.
    excess: u128,
}

impl Tried {
    fn new(passes: &mut Passes<'_>, order: Vec<u32>) -> Self {
        let pass = passes.pass(&order);
        let ends = pass.offsets.iter().zip(passes.bytes);
        let above = ends.map(|(start, bytes)| (start + bytes).saturating_sub(passes.peak_live));
        Self {
            excess: above.map(u128::from).sum(),
            order,
            pass,
        }
    }

    fn rank(&self) -> (u64, u128) {
        (self.pass.height, self.excess)
    }
}

/// The order with a block that stands out, and up to two that it meets on the way, placed earlier.
fn changed(passes: &Passes<'_>, tried: &Tried, random: &mut Random) -> Option<Vec<u32>> {
    let mut order = tried.order.clone();
    let stand_out = |place: &usize| passes.stands_out(order[*place], &tried.pass);
    let standing_out: Vec<usize> = (0..order.len()).filter(stand_out).collect();
    let mut place = *standing_out.get(random.below(standing_out.len()))?;
    for _ in 0..=random.below(3) {
        let Some(earlier) = met_before(passes, &order, place, random) else {
            break;
        };
        if random.below(2) == 0 {
            order[earlier..=place].rotate_right(1);
            place = earlier + 1;
        } else {
            order.swap(earlier, place);
        }
    }
    Some(order)
}

/// A place before this one, at random, of a block that lives at the same time.
fn met_before(
    passes: &Passes<'_>,
    order: &[u32],
    place: usize,
    random: &mut Random,
) -> Option<usize> {
    let lifetime = |place: usize| passes.instants.lifetimes[order[place] as usize];
    let meets = |earlier: &usize| lifetime(*earlier).meets(lifetime(place));
    let met: Vec<usize> = (0..place).filter(meets).collect();
    met.get(random.below(met.len())).copied()
}

/// Numbers that look random and are the same every time.
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// Below `end`; 0 if that is 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // A remainder of 64 bits: as even as it needs to be.
        usize::try_from(self.0 >> 1).unwrap_or(0) % end.max(1)
    }
}
