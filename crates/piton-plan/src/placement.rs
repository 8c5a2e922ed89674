//! Where blocks were placed, and the proof that none lies on another.

use std::collections::BTreeMap;

use crate::block::Block;
use crate::error::Overlap;
use crate::order::Order;

/// An offset for each block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub(crate) offsets: Vec<u64>,
    pub(crate) alignment: u64,
    pub(crate) height: u64,
    pub(crate) peak_live: u64,
    pub(crate) order: Order,
    pub(crate) passes: u32,
}

impl Placement {
    /// The offset of each block in bytes, in the order the blocks were given: multiples of the alignment.
    #[must_use]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The bytes that the blocks take up, from offset 0 on.
    #[must_use]
    pub fn height(&self) -> u64 {
        self.height
    }

    /// The most bytes live at once, each block rounded up to the alignment: no placement is lower.
    #[must_use]
    pub fn peak_live(&self) -> u64 {
        self.peak_live
    }

    /// Height over peak live bytes: 1 is perfect. 1 if there are no blocks.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio of a few digits")]
    pub fn ratio(&self) -> f64 {
        if self.peak_live == 0 {
            return 1.0;
        }
        self.height as f64 / self.peak_live as f64
    }

    /// The order from which the best placement came.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// How often all blocks were placed.
    #[must_use]
    pub fn passes(&self) -> u32 {
        self.passes
    }

    /// Walks time and checks that no two blocks overlap: `O(n log n)`, and independent of how they were placed.
    ///
    /// # Errors
    /// [`Overlap`] with two of the blocks that do. Blocks without an offset are passed over.
    pub fn check(&self, blocks: &[Block]) -> Result<(), Overlap> {
        let mut live = LiveRanges::default();
        let mut births: Vec<usize> = (0..blocks.len().min(self.offsets.len())).collect();
        let mut deaths = births.clone();
        births.sort_by_key(|index| blocks[*index].birth);
        deaths.sort_by_key(|index| blocks[*index].death);
        for index in &births {
            if blocks[*index].is_carried_over() {
                live.insert(self.range(blocks, *index), *index)?;
            }
        }
        let mut deaths = deaths.into_iter().peekable();
        for index in births {
            while let Some(dead) = deaths.next_if(|dead| blocks[*dead].death <= blocks[index].birth)
            {
                live.remove(self.offsets[dead], dead);
            }
            live.insert(self.range(blocks, index), index)?;
        }
        Ok(())
    }

    fn range(&self, blocks: &[Block], index: usize) -> (u64, u64) {
        let rounded = blocks[index].bytes.checked_next_multiple_of(self.alignment);
        let start = self.offsets[index];
        (start, start.saturating_add(rounded.unwrap_or(u64::MAX)))
    }
}

/// Ranges that do not overlap, by their starts.
#[derive(Debug, Default)]
struct LiveRanges(BTreeMap<u64, (u64, usize)>);

impl LiveRanges {
    fn insert(&mut self, (start, end): (u64, u64), index: usize) -> Result<(), Overlap> {
        let below = self.0.range(..end).next_back();
        if let Some((_, &(other_end, other))) = below
            && other_end > start
        {
            return Err(Overlap {
                first: other,
                second: index,
            });
        }
        self.0.insert(start, (end, index));
        Ok(())
    }

    fn remove(&mut self, start: u64, index: usize) {
        if self.0.get(&start).is_some_and(|(_, owner)| *owner == index) {
            self.0.remove(&start);
        }
    }
}
