//! Queues that have something to run, by urgency.
//!
//! Bands are served from the most urgent to the least, first come first served inside one. *Aging*: a band that
//! was passed over [`PATIENCE`] times is served once before the others, so the lowest always progresses.

use std::collections::VecDeque;

/// Priority bands: priorities -2, -1 and 0.
pub(crate) const BANDS: usize = 3;
/// How often a band is passed over before it is served once.
pub(crate) const PATIENCE: u32 = 16;

/// Ready things of type `T`.
#[derive(Debug)]
pub(crate) struct Ready<T> {
    bands: [VecDeque<T>; BANDS],
    passed: [u32; BANDS],
}

impl<T> Ready<T> {
    pub(crate) fn new() -> Self {
        Self {
            bands: std::array::from_fn(|_| VecDeque::new()),
            passed: [0; BANDS],
        }
    }

    pub(crate) fn push(&mut self, band: usize, item: T) {
        self.bands[band.min(BANDS - 1)].push_back(item);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bands.iter().all(VecDeque::is_empty)
    }

    /// Puts an item that is here into a more urgent band; nothing happens where it is not.
    pub(crate) fn promote(&mut self, band: usize, is_it: impl Fn(&T) -> bool) {
        let below = self.bands.iter_mut().skip(band + 1);
        let found = below
            .filter_map(|items| {
                let at = items.iter().position(&is_it)?;
                items.remove(at)
            })
            .next();
        if let Some(item) = found {
            self.push(band, item);
        }
    }

    /// Everything, the most urgent first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        let bands = std::mem::replace(self, Self::new()).bands;
        bands.into_iter().flatten()
    }

    /// The oldest item of the band whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let band = self.turn()?;
        self.bands[band].pop_front()
    }

    /// As [`pop`](Self::pop), but `choose` says which of the band's items, by index.
    pub(crate) fn pop_chosen(&mut self, choose: impl FnOnce(usize) -> usize) -> Option<T> {
        let band = self.turn()?;
        let at = choose(self.bands[band].len());
        self.bands[band].remove(at)
    }

    /// The item with the smallest key; the most urgent band, then `choose`, decide among equals.
    pub(crate) fn pop_least(
        &mut self,
        key: impl Fn(&T) -> u64,
        choose: impl FnOnce(usize) -> usize,
    ) -> Option<T> {
        let least = self.bands.iter().flatten().map(&key).min()?;
        let has_least = |items: &VecDeque<T>| items.iter().any(|item| key(item) == least);
        let band = self.bands.iter_mut().find(|items| has_least(items))?;
        let equals: Vec<usize> = (0..band.len())
            .filter(|at| band.get(*at).is_some_and(|i| key(i) == least))
            .collect();
        let at = equals.get(choose(equals.len()))?;
        band.remove(*at)
    }

    fn turn(&mut self) -> Option<usize> {
        let waiting = |band: &usize| !self.bands[*band].is_empty();
        let starved = (0..BANDS)
            .rev()
            .filter(waiting)
            .find(|band| self.passed[*band] >= PATIENCE);
        let band = starved.or_else(|| (0..BANDS).find(waiting))?;
        for other in 0..BANDS {
            if other == band {
                self.passed[other] = 0;
            } else if other > band && !self.bands[other].is_empty() {
                self.passed[other] += 1;
            }
        }
        Some(band)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn urgent_items_go_first_and_the_lowest_band_still_moves() {
        let mut ready = Ready::new();
        for _ in 0..100 {
            ready.push(0, "high");
        }
        ready.push(2, "low");
        let order: Vec<_> = std::iter::from_fn(|| ready.pop()).collect();
        assert_eq!(
            order.iter().position(|item| *item == "low"),
            Some(PATIENCE as usize)
        );
    }

    #[test]
    fn a_promoted_item_goes_with_the_more_urgent() {
        let mut ready = Ready::new();
        ready.push(0, 1);
        ready.push(2, 2);
        ready.push(2, 3);
        ready.promote(0, |item| *item == 3);
        ready.promote(0, |item| *item == 9);
        let order: Vec<_> = std::iter::from_fn(|| ready.pop()).collect();
        assert_eq!(order, [1, 3, 2]);
    }

    #[test]
    fn the_least_key_wins_over_the_band() {
        let mut ready = Ready::new();
        ready.push(0, 7);
        ready.push(2, 3);
        assert_eq!(ready.pop_least(|key| *key, |_| 0), Some(3));
    }
}
