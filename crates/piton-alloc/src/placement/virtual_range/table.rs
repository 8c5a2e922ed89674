//! Which physical handle backs which page of the range, and which handles are mapped nowhere.
//!
//! Pages are numbered by their offset in the index. Invariant, checked by `check`: the pages of free extents that are
//! not unbacked, and of live chunks, are exactly those that have a mapping.

use std::collections::BTreeMap;

use piton_driver::PhysicalHandle;

/// A handle mapped at consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) handle: PhysicalHandle,
    /// First page.
    pub(crate) first: u64,
    /// Pages it covers.
    pub(crate) pages: u64,
}

/// The physical page behind an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The handle that is mapped there.
    pub handle: PhysicalHandle,
    /// Bytes from the start of the handle's memory.
    pub offset: u64,
}

/// All pages of a pool.
#[derive(Debug, Default)]
pub(crate) struct PageTable {
    page: u64,
    /// By page, one more than the index of its mapping; 0 if nothing backs it.
    slots: Vec<u32>,
    mappings: Vec<Mapping>,
    vacant: Vec<u32>,
    /// By pages, the handles that are mapped nowhere.
    spare: BTreeMap<u64, Vec<PhysicalHandle>>,
    spare_pages: u64,
}

impl PageTable {
    pub(crate) fn new(page: u64, pages: u64) -> Self {
        Self {
            page,
            slots: vec![0; usize::try_from(pages).unwrap_or(0)],
            ..Self::default()
        }
    }

    /// Bytes of a page; 0 without virtual addressing.
    pub(crate) const fn page_bytes(&self) -> u64 {
        self.page
    }

    /// The mapping that backs a page.
    pub(crate) fn at(&self, page: u64) -> Option<&Mapping> {
        let slot = *self.slots.get(usize::try_from(page).ok()?)?;
        self.mappings.get(slot.checked_sub(1)? as usize)
    }

    /// What lies behind an offset of the index.
    pub(crate) fn translate(&self, offset: u64) -> Option<Translation> {
        let mapping = self.at(offset.checked_div(self.page)?)?;
        Some(Translation {
            handle: mapping.handle,
            offset: offset - mapping.first * self.page,
        })
    }

    pub(crate) fn insert(&mut self, mapping: Mapping) {
        let index = match self.vacant.pop() {
            Some(index) => {
                self.mappings[index as usize] = mapping;
                index
            }
            None => {
                self.mappings.push(mapping);
                u32::try_from(self.mappings.len() - 1).unwrap_or(u32::MAX - 1)
            }
        };
        self.fill(mapping, index + 1);
    }

    /// Takes out the mapping that backs a page.
    pub(crate) fn remove(&mut self, page: u64) -> Option<Mapping> {
        let slot = *self.slots.get(usize::try_from(page).ok()?)?;
        let mapping = *self.mappings.get(slot.checked_sub(1)? as usize)?;
        self.fill(mapping, 0);
        self.vacant.push(slot - 1);
        Some(mapping)
    }

    fn fill(&mut self, mapping: Mapping, slot: u32) {
        let first = usize::try_from(mapping.first).unwrap_or(usize::MAX);
        let pages = usize::try_from(mapping.pages).unwrap_or(usize::MAX);
        if let Some(slots) = self.slots.get_mut(first..first.saturating_add(pages)) {
            slots.fill(slot);
        }
    }

    /// The mappings that lie wholly in a backed hole, as first page and number of pages: they are neighbours.
    pub(crate) fn whole_in(&self, offset: u64, bytes: u64) -> (u64, u64) {
        let mut first = offset.div_ceil(self.page);
        let mut end = (offset + bytes) / self.page;
        if let Some(mapping) = self.at(first).filter(|mapping| mapping.first < first) {
            first = mapping.first + mapping.pages;
        }
        if let Some(mapping) = self.at(end).filter(|mapping| mapping.first < end) {
            end = mapping.first;
        }
        (first, end.saturating_sub(first))
    }

    /// Of neighbouring mappings from `first` on, the fewest that have `wanted` pages; their pages.
    pub(crate) fn prefix(&self, first: u64, pages: u64, wanted: u64) -> u64 {
        let mut taken = 0;
        while taken < wanted.min(pages) {
            let Some(mapping) = self.at(first + taken) else {
                break;
            };
            taken += mapping.pages;
        }
        taken
    }

    /// The stretches of `offset..offset + bytes` with and without pages, in order: start, end, whether it has them.
    pub(crate) fn stretches(&self, offset: u64, bytes: u64) -> Vec<(u64, u64, bool)> {
        let end = offset + bytes;
        let mut stretches: Vec<(u64, u64, bool)> = Vec::new();
        let mut at = offset;
        while at < end && self.page > 0 {
            let next = (at / self.page + 1) * self.page;
            let is_backed = self.at(at / self.page).is_some();
            match stretches.last_mut() {
                Some(last) if last.2 == is_backed => last.1 = next.min(end),
                _ => stretches.push((at, next.min(end), is_backed)),
            }
            at = next;
        }
        stretches
    }

    /// Keeps a handle that is mapped nowhere.
    pub(crate) fn put_spare(&mut self, handle: PhysicalHandle, pages: u64) {
        self.spare.entry(pages).or_default().push(handle);
        self.spare_pages += pages;
    }

    /// Takes the largest spare handle of at most `most` pages.
    pub(crate) fn take_spare(&mut self, most: u64) -> Option<(PhysicalHandle, u64)> {
        let (&pages, handles) = self.spare.range_mut(..=most).next_back()?;
        let handle = handles.pop()?;
        if handles.is_empty() {
            self.spare.remove(&pages);
        }
        self.spare_pages -= pages;
        Some((handle, pages))
    }

    /// Pages of the largest spare handle of at most `most` pages.
    pub(crate) fn largest_spare(&self, most: u64) -> Option<u64> {
        self.spare
            .range(..=most)
            .next_back()
            .map(|(&pages, _)| pages)
    }

    /// Pages of all spare handles.
    pub(crate) const fn spare_pages(&self) -> u64 {
        self.spare_pages
    }

    /// Pages of all mappings, counted by page and by mapping; for `check`.
    pub(crate) fn counted(&self) -> (u64, u64) {
        let by_page = self.slots.iter().filter(|&&slot| slot != 0).count() as u64;
        let vacant: u64 = self
            .vacant
            .iter()
            .map(|&index| self.mappings[index as usize].pages)
            .sum();
        let all: u64 = self.mappings.iter().map(|mapping| mapping.pages).sum();
        (by_page, all - vacant)
    }
}
