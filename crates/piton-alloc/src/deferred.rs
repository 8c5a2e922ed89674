//! Memory that several lanes used last: it waits in a list, each Chunk with its frontier, until all but one lane's uses
//! are complete, or until a lane takes it with waits.
//!
//! These Chunks are live for the index, so they neither split nor merge by themselves. Few blocks are used on more
//! than one lane, so the list is short and looked through only when nothing else fits.

use piton_suballoc::{Chunk, ExtentId};
use piton_timeline::{Frontier, Timeline};

/// A Chunk that was freed while several lanes' uses were pending.
#[derive(Clone, Debug)]
pub(crate) struct Deferral {
    pub(crate) chunk: Chunk,
    pub(crate) uses: Frontier,
}

/// All of them, in the order of freeing.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    entries: Vec<Deferral>,
    bytes: u64,
}

impl Deferred {
    pub(crate) fn push(&mut self, chunk: Chunk, uses: Frontier) {
        self.bytes += chunk.bytes;
        self.entries.push(Deferral { chunk, uses });
    }

    /// Takes out those of whose uses at most one is still pending, with what is pending.
    pub(crate) fn drain_settled(&mut self, timeline: &Timeline) -> Vec<Deferral> {
        for entry in &mut self.entries {
            entry.uses.retain_pending(timeline);
        }
        let is_settled = |entry: &mut Deferral| entry.uses.points().len() <= 1;
        let settled: Vec<Deferral> = self.entries.extract_if(.., is_settled).collect();
        self.bytes -= settled.iter().map(|entry| entry.chunk.bytes).sum::<u64>();
        settled
    }

    /// The smallest one that holds `bytes` bytes at `align` and passes `allowed`.
    pub(crate) fn find(
        &self,
        bytes: u64,
        align: u64,
        allowed: impl Fn(&Frontier) -> bool,
    ) -> Option<usize> {
        let fits = |entry: &Deferral| {
            entry.chunk.bytes >= bytes && entry.chunk.offset.is_multiple_of(align)
        };
        let candidates = self.entries.iter().enumerate();
        candidates
            .filter(|(_, entry)| fits(entry) && allowed(&entry.uses))
            .min_by_key(|(_, entry)| entry.chunk.bytes)
            .map(|(at, _)| at)
    }

    pub(crate) fn remove(&mut self, at: usize) -> Deferral {
        let entry = self.entries.remove(at);
        self.bytes -= entry.chunk.bytes;
        entry
    }

    pub(crate) fn contains(&self, id: ExtentId) -> bool {
        self.entries.iter().any(|entry| entry.chunk.id == id)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Deferral> {
        self.entries.iter()
    }

    /// Bytes of all of them.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}
