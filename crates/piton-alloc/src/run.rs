//! Runs: neighbouring free memory of different owners, large enough only together.
//!
//! Memory that one lane freed, that others freed, that several lanes used last, that is free for all, and that has no
//! pages are extents of different domains, and coalesce only within a domain. A request may take neighbours of
//! several domains together if its lane is ordered behind every use in them, or with the waits that make it so.
//! Missing pages must be mapped first.
//!
//! The search for runs starts from the extents that the ordinary search cannot see, the *seeds*, and costs a step per
//! extent of their runs. So it is done before the source is asked, not in every allocation. Most runs are too short
//! whoever owns their parts, so lengths are compared first (`stretch_from`), and uses and waits only where there is
//! room. Those are looked up in what the timeline knows: whoever searches has asked the lanes before, each once, and not
//! for each piece of their memory.

use std::slice;

use piton_suballoc::{Domain, Extent, ExtentId, ExtentState};
use piton_timeline::{Frontier, Timeline, Timepoint};

use crate::allocation::Allocation;
use crate::books::Books;
use crate::region::{self, Region};
use crate::request::Request;

/// What a run may be made of, and for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search<'a> {
    pub(crate) request: &'a Request,
    /// Bytes with rounding.
    pub(crate) bytes: u64,
    pub(crate) region: Region,
    pub(crate) timeline: &'a Timeline,
    /// Whether memory is taken that its lane must wait for.
    pub(crate) waits: bool,
    /// Bytes of a page, where addresses without pages may be part of the run.
    pub(crate) page: Option<u64>,
    /// Whether runs count that are everyone's as a whole, which the plain search sees too.
    pub(crate) all: bool,
}

/// A place for a request in a run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// Bytes of the pages that are missing.
    pub(crate) missing: u64,
    /// All pending uses of its memory.
    pub(crate) uses: Frontier,
    /// What the lane must wait for.
    pub(crate) wait: Frontier,
    /// An extent below it that taking it does not change; `None` if it begins a range.
    below: Option<ExtentId>,
}

impl Run {
    /// The first bytes of one extent, all of them without pages.
    pub(crate) fn unbacked(extent: &Extent, bytes: u64) -> Self {
        Self {
            start: extent.offset,
            bytes,
            missing: bytes,
            uses: Frontier::new(),
            wait: Frontier::new(),
            below: Some(extent.id),
        }
    }
}

/// A part of a run.
#[derive(Clone, Debug)]
struct Piece<'a> {
    offset: u64,
    end: u64,
    is_backed: bool,
    uses: PieceUses<'a>,
    needs_wait: bool,
}

/// What last used a part of a run.
#[derive(Clone, Debug)]
enum PieceUses<'a> {
    None,
    Of(Timepoint),
    Several(&'a Frontier),
}

impl PieceUses<'_> {
    fn points(&self) -> &[Timepoint] {
        match self {
            Self::None => &[],
            Self::Of(point) => slice::from_ref(point),
            Self::Several(uses) => uses.points(),
        }
    }
}

/// Smaller is better: pages missing, whether there is a wait, bytes of the whole run, place.
type Cost = (u64, bool, u64, u64);

impl Search<'_> {
    /// What an extent is for this request, if it may be part of a run.
    fn piece<'a>(&self, books: &'a Books, extent: &Extent) -> Option<Piece<'a>> {
        let (uses, is_backed) = match extent.state {
            ExtentState::Live { .. } => {
                (PieceUses::Several(&books.deferred.of(extent)?.uses), true)
            }
            ExtentState::Free { domain, .. } if domain == self.region.shared() => {
                (PieceUses::None, true)
            }
            ExtentState::Free { domain, .. } if domain == self.region.unbacked() => {
                self.page.map(|_| (PieceUses::None, false))?
            }
            ExtentState::Free { domain, stamp } => {
                let lane = books.lane_of(domain)?;
                (PieceUses::Of(Timepoint { lane, seq: stamp }), true)
            }
        };
        let needs_wait = !uses.points().iter().all(|point| self.is_free(*point));
        if needs_wait && !(self.waits && self.request.lane.is_some()) {
            return None;
        }
        Some(Piece {
            offset: extent.offset,
            end: extent.offset + extent.bytes,
            is_backed,
            uses,
            needs_wait,
        })
    }

    /// Whether memory last used at the point is the request's without a wait, as far as is known.
    fn is_free(&self, point: Timepoint) -> bool {
        match self.request.lane {
            Some(lane) => self.timeline.is_known_free(lane, point),
            None => self.timeline.is_known_complete(point),
        }
    }

    /// Whether an extent can be part of a run if its uses allow it: [`piece`](Self::piece) without asking the timeline.
    fn may_be_part(&self, books: &Books, extent: &Extent) -> bool {
        match extent.state {
            ExtentState::Live { .. } => books.deferred.contains(extent),
            ExtentState::Free { domain, .. } => {
                domain == self.region.shared()
                    || self.page.is_some() && domain == self.region.unbacked()
                    || books.lane_of(domain).is_some()
            }
        }
    }

    /// Whether an extent is one of those that every run worth looking at has one of.
    fn is_seed(&self, books: &Books, extent: &Extent) -> bool {
        match extent.state {
            ExtentState::Free { domain, .. } if self.all && domain == self.region.shared() => true,
            ExtentState::Free { domain, .. } if self.page.is_some() => {
                domain == self.region.unbacked()
            }
            ExtentState::Free { domain, .. } => self.has_pending(books, domain),
            ExtentState::Live { .. } => {
                let entry = books.deferred.of(extent);
                self.page.is_none() && entry.is_some_and(|entry| entry.region == self.region)
            }
        }
    }

    /// Whether a domain is a lane's, in the request's region. What a lane has that has the region to itself is like everyone's:
    /// the plain search sees all of it but Blocks that are pending as a whole.
    fn has_pending(&self, books: &Books, domain: Domain) -> bool {
        let home = books.index.home_of(domain).unwrap_or(domain);
        let is_lanes = region::slot_of(domain).is_some() && Region::of(home) == self.region;
        is_lanes && !books.is_soles(domain)
    }

    /// Calls `visit` with each seed, in no order that matters.
    fn each_seed(&self, books: &Books, mut visit: impl FnMut(Extent)) {
        let index = &books.index;
        if self.page.is_some() {
            index
                .extents_by_stamp(self.region.unbacked())
                .for_each(visit);
            return;
        }
        let lanes = index
            .domains()
            .filter(|domain| self.has_pending(books, *domain));
        lanes
            .flat_map(|domain| index.extents_by_stamp(domain))
            .for_each(&mut visit);
        let deferred = books.deferred.ids(self.region);
        deferred
            .filter_map(|id| index.extent_of(id))
            .for_each(&mut visit);
        if self.all {
            index.extents_by_size(self.region.shared()).for_each(visit);
        }
    }

    /// The lowest extent of the neighbours around a seed that may be parts of one run; `None` if another seed lies below it,
    /// or all of them together have too few bytes.
    fn stretch_from(&self, books: &Books, seed: Extent) -> Option<Extent> {
        let mut lowest = seed;
        while let Some(below) = books.index.below(lowest.id) {
            if !self.may_be_part(books, &below) {
                break;
            }
            if self.is_seed(books, &below) {
                return None;
            }
            lowest = below;
        }
        let mut highest = seed;
        while highest.offset + highest.bytes - lowest.offset < self.bytes {
            highest = books.index.above(highest.id)?;
            self.may_be_part(books, &highest).then_some(())?;
        }
        Some(lowest)
    }

    /// Where the stretches of neighbours begin that are long enough for a run, whatever their uses.
    pub(crate) fn stretches(&self, books: &Books) -> Vec<Extent> {
        let mut found = Vec::new();
        self.each_seed(books, |seed| found.extend(self.stretch_from(books, seed)));
        found
    }

    /// The best place in the runs of these stretches.
    pub(crate) fn best(&self, books: &Books, stretches: &[Extent]) -> Option<Run> {
        let mut best = None;
        for lowest in stretches {
            self.look_through(books, *lowest, &mut best);
        }
        best.map(|(_, run)| run)
    }

    /// The best place in the shortest stretch that has one.
    pub(crate) fn tightest(&self, books: &Books) -> Option<Run> {
        let stretches = self.stretches(books);
        let mut by_length: Vec<(u64, Extent)> = stretches
            .into_iter()
            .map(|lowest| (self.length_of(books, &lowest), lowest))
            .collect();
        by_length.sort_unstable_by_key(|(length, lowest)| (*length, lowest.offset));
        by_length
            .into_iter()
            .find_map(|(_, lowest)| self.best(books, &[lowest]))
    }

    /// Bytes from the lowest extent of a stretch to its end.
    fn length_of(&self, books: &Books, lowest: &Extent) -> u64 {
        let mut highest = *lowest;
        while let Some(above) = books.index.above(highest.id)
            && self.may_be_part(books, &above)
        {
            highest = above;
        }
        highest.offset + highest.bytes - lowest.offset
    }

    /// Looks at the runs from `lowest` on, up to where no part of one can be.
    fn look_through(&self, books: &Books, lowest: Extent, best: &mut Option<(Cost, Run)>) {
        let mut below = books.index.below(lowest.id).map(|extent| extent.id);
        let mut pieces = Vec::new();
        let mut has_seed = false;
        let mut next = Some(lowest);
        while let Some(extent) = next.filter(|extent| self.may_be_part(books, extent)) {
            next = books.index.above(extent.id);
            if let Some(piece) = self.piece(books, &extent) {
                has_seed |= self.is_seed(books, &extent);
                pieces.push(piece);
                continue;
            }
            if has_seed {
                better_of(best, self.best_of(&pieces, below));
            }
            pieces.clear();
            has_seed = false;
            below = Some(extent.id);
        }
        if has_seed {
            better_of(best, self.best_of(&pieces, below));
        }
    }

    /// The best place in one run: at the start or the end of one of its pieces.
    fn best_of(&self, pieces: &[Piece<'_>], below: Option<ExtentId>) -> Option<(Cost, Run)> {
        let (start, end) = (pieces.first()?.offset, pieces.last()?.end);
        if end - start < self.bytes {
            return None;
        }
        let align = self.request.align.max(1);
        let mut best: Option<(Cost, u64)> = None;
        for piece in pieces {
            let at_end = piece.end.saturating_sub(self.bytes);
            let places = [
                piece.offset.next_multiple_of(align),
                at_end - at_end % align,
            ];
            for place in places {
                if place < start || end - place.min(end) < self.bytes {
                    continue;
                }
                let (missing, waits) = self.cost_at(pieces, place);
                let cost = (missing, waits, end - start, place);
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, place));
                }
            }
        }
        let (cost, place) = best?;
        Some((cost, self.run_at(pieces, place, cost.0, below)))
    }

    fn inside<'p, 'a>(
        &self,
        pieces: &'p [Piece<'a>],
        place: u64,
    ) -> impl Iterator<Item = &'p Piece<'a>> {
        let end = place + self.bytes;
        let first = pieces.partition_point(|piece| piece.end <= place);
        pieces[first..]
            .iter()
            .take_while(move |piece| piece.offset < end)
    }

    fn cost_at(&self, pieces: &[Piece<'_>], place: u64) -> (u64, bool) {
        let mut missing = 0;
        let mut waits = false;
        for piece in self.inside(pieces, place) {
            waits |= piece.needs_wait;
            if let Some(page) = self.page.filter(|_| !piece.is_backed) {
                let start = piece.offset.max(place);
                let end = piece.end.min(place + self.bytes);
                missing += end.next_multiple_of(page) - start / page * page;
            }
        }
        (missing, waits)
    }

    fn run_at(
        &self,
        pieces: &[Piece<'_>],
        start: u64,
        missing: u64,
        below: Option<ExtentId>,
    ) -> Run {
        let inside = self.inside(pieces, start);
        let uses: Frontier = inside
            .flat_map(|piece| piece.uses.points())
            .copied()
            .collect();
        let awaited = uses.points().iter().filter(|point| !self.is_free(**point));
        let wait = awaited.copied().collect();
        Run {
            start,
            bytes: self.bytes,
            missing,
            uses,
            wait,
            below,
        }
    }
}

/// Keeps the better of two.
fn better_of(best: &mut Option<(Cost, Run)>, found: Option<(Cost, Run)>) {
    let is_better = |(cost, _): &(Cost, Run)| best.as_ref().is_none_or(|(least, _)| cost < least);
    if found.as_ref().is_some_and(is_better) {
        *best = found;
    }
}

impl Books {
    /// A run's memory for a request, if all of it is backed.
    pub(crate) fn take_run(
        &mut self,
        search: &Search<'_>,
        stretches: &[Extent],
    ) -> Option<Allocation> {
        let run = search.best(self, stretches)?;
        self.take_place(search, run)
    }

    /// A backed run's memory for a request.
    pub(crate) fn take_place(&mut self, search: &Search<'_>, run: Run) -> Option<Allocation> {
        let chunk = self.claim(&run, run.start, run.bytes, search.region)?;
        let (chunk, _) = self.index.cut(chunk.id, search.request.bytes).ok()?;
        self.issue(chunk, search.request, search.region, run.wait, run.uses)
    }

    /// Takes the bytes of a run, or more of it, out of the index as one chunk.
    pub(crate) fn claim(
        &mut self,
        run: &Run,
        start: u64,
        bytes: u64,
        region: Region,
    ) -> Option<piton_suballoc::Chunk> {
        self.free_deferred(start, start + bytes, run.below, region);
        self.index.claim(start, bytes, run.below)
    }

    /// Makes what of deferred Chunks lies in `start..end` free for a moment; the rest of them stays deferred. `from` is where to
    /// look from, as in [`piton_suballoc::Tlsf::claim`].
    fn free_deferred(&mut self, start: u64, end: u64, from: Option<ExtentId>, region: Region) {
        if self.deferred.bytes() == 0 {
            return;
        }
        let first = self.index.extent_at(start, from);
        let walk = std::iter::successors(first, |extent| self.index.above(extent.id));
        let inside = walk.take_while(|extent| extent.offset < end);
        let deferred = inside.filter(|extent| self.deferred.contains(extent));
        let ids: Vec<ExtentId> = deferred.map(|extent| extent.id).collect();
        for id in ids {
            let Some(entry) = self.deferred.remove(id) else {
                continue;
            };
            let mut inside = entry.chunk;
            if inside.offset < start
                && let Ok((low, Some(rest))) = self.index.cut(inside.id, start - inside.offset)
            {
                self.deferred.push(low, entry.uses.clone(), region);
                inside = rest;
            }
            if inside.offset + inside.bytes > end
                && let Ok((low, Some(rest))) = self.index.cut(inside.id, end - inside.offset)
            {
                self.deferred.push(rest, entry.uses, region);
                inside = low;
            }
            // It is live until here, so this cannot fail.
            let freed = self.index.free(inside.id, region.shared(), 0);
            debug_assert!(freed.is_ok());
        }
    }
}
