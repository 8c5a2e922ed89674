//! One pass: the blocks in an order, each at the lowest place that is free all through its lifetime.

use crate::instants::Instants;
use crate::occupancy::Occupancy;
use crate::runs::Run;

/// What one pass came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pass {
    /// By block.
    pub(crate) offsets: Vec<u64>,
    pub(crate) height: u64,
}

/// Makes passes over the same blocks.
#[derive(Debug)]
pub(crate) struct Passes<'a> {
    occupancy: Occupancy,
    /// Where many blocks live at a time, what is placed is taken anew whenever sizes have shrunk, with the gaps filled that
    /// are too small for what is to come. With few it costs more than it saves.
    takes_anew: bool,
    pub(crate) bytes: &'a [u64],
    pub(crate) instants: &'a Instants,
    pub(crate) peak_live: u64,
    /// Blocks placed in all passes.
    pub(crate) placed: u64,
}

/// Blocks that live at a time, on average, from which on what is placed is taken anew.
const MANY_LIVE: u32 = 4096;

/// Blocks placed one after the other with the same slack.
#[derive(Debug)]
struct Batch {
    len: usize,
    /// Bytes of the smallest.
    smallest: u64,
}

impl<'a> Passes<'a> {
    pub(crate) fn new(bytes: &'a [u64], instants: &'a Instants) -> Self {
        Self {
            occupancy: Occupancy::new(instants),
            takes_anew: instants.mean_live() >= MANY_LIVE,
            bytes,
            instants,
            peak_live: instants.peak(bytes),
            placed: 0,
        }
    }

    /// Places all blocks in this order.
    pub(crate) fn pass(&mut self, order: &[u32]) -> Pass {
        let mut pass = Pass {
            offsets: vec![0; order.len()],
            height: 0,
        };
        let mut placed = 0;
        while let Some(rest) = order.get(placed..).filter(|rest| !rest.is_empty()) {
            let batch = self.batch(rest, placed);
            let (coming, _) = rest.split_at(batch.len);
            self.prepare(&order[..placed], coming, batch.smallest, &pass);
            for block in coming {
                self.place(*block as usize, &mut pass);
            }
            placed += batch.len;
        }
        self.placed = self.placed.saturating_add(order.len() as u64);
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
    /// each batch costs no more than three times what it cost first. All, where nothing is taken anew.
    fn batch(&self, rest: &[u32], placed: usize) -> Batch {
        let bytes = |block: &u32| self.bytes[*block as usize];
        let quarter = rest.first().map_or(0, bytes) / 4;
        let similar = rest.iter().position(|block| bytes(block) < quarter);
        let len = similar
            .filter(|_| self.takes_anew)
            .unwrap_or(rest.len())
            .max(placed / 2)
            .clamp(1, rest.len().max(1));
        Batch {
            len,
            smallest: rest[..len].iter().map(bytes).min().unwrap_or(1),
        }
    }

    /// Takes anew what is placed, with the gaps filled that are too small for what is to come.
    fn prepare(&mut self, placed: &[u32], coming: &[u32], smallest: u64, pass: &Pass) {
        let lifetimes = &self.instants.lifetimes;
        let to_come = coming.iter().map(|block| lifetimes[*block as usize]);
        self.occupancy.clear(smallest, to_come);
        for block in placed {
            let index = *block as usize;
            let start = pass.offsets[index];
            let end = start + self.bytes[index];
            self.occupancy.take(lifetimes[index], Run { start, end });
        }
    }

    /// Does the block end above the peak?
    pub(crate) fn stands_out(&self, block: u32, pass: &Pass) -> bool {
        let index = block as usize;
        pass.offsets[index] + self.bytes[index] > self.peak_live
    }

    /// Moves the blocks that end above the peak to the front, keeping the order among them and among the others.
    pub(crate) fn raise(&self, order: &mut Vec<u32>, pass: &Pass) {
        let stands_out = |block: &u32| self.stands_out(*block, pass);
        let (mut raised, others): (Vec<u32>, Vec<u32>) = order.iter().partition(|b| stands_out(b));
        raised.extend(others);
        *order = raised;
    }
}
