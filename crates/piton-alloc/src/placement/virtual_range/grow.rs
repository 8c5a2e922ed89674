//! Serving a request by mapping pages: claim, map, settle.

use piton_driver::{DriverError, VirtualMemory};
use piton_suballoc::Chunk;

use super::VirtualRange;
use super::policy::Policy;
use super::supply::Supply;
use crate::allocation::Allocation;
use crate::books::Books;
use crate::config::CrossLane;
use crate::ladder::Growth;
use crate::pool::DevicePool;
use crate::recovery::Recovery;
use crate::region::Region;
use crate::request::Request;
use crate::reuse::Disposal;
use crate::run::{Run, Search};

/// Most pages mapped ahead for small requests.
const SMALL_AHEAD: u64 = 2;

/// Bytes claimed for a request, some of them without pages.
#[derive(Debug)]
struct Claim {
    chunk: Chunk,
    run: Run,
    region: Region,
    policy: Policy,
}

impl DevicePool {
    /// Maps the pages that a request needs and serves it. `Ok(None)` if no further growth is
    /// allowed. The caller holds `turn`.
    pub(crate) fn grow_range(
        &self,
        range: &VirtualRange,
        request: &Request,
        region: Region,
        growth: Growth,
        recovery: &mut Recovery,
    ) -> Result<Option<Allocation>, DriverError> {
        let Some(memory) = self.source.virtual_memory() else {
            return Ok(None);
        };
        let Some(claim) = self.claim_run(range, request, region, growth) else {
            return Ok(None);
        };
        let backed = self.back(range, memory, &claim, recovery);
        let is_backed = matches!(backed, Ok(true));
        let found = self.settle(claim, request, is_backed);
        backed.map(|_| found)
    }

    /// Maps pages for `bytes` bytes, whole pages, that nobody asked for yet. `Ok(false)` if the limit leaves no room.
    /// The caller holds `turn`.
    pub(crate) fn map_ahead(
        &self,
        range: &VirtualRange,
        bytes: u64,
        recovery: &mut Recovery,
    ) -> Result<bool, DriverError> {
        let Some(memory) = self.source.virtual_memory() else {
            return Ok(false);
        };
        let region = Region::Large;
        let mut books = self.books.lock();
        let unbacked = books.index.extents_by_stamp(region.unbacked());
        let Some(extent) = unbacked.max_by_key(|extent| extent.bytes) else {
            return Ok(false);
        };
        let run = Run::unbacked(&extent, bytes);
        let policy = Policy::ahead(&books, &self.settings, bytes);
        let Some(chunk) = books.claim(&run, run.start, bytes, region) else {
            return Ok(false);
        };
        books.claim_stretches(&chunk, true);
        drop(books);
        let claim = Claim {
            chunk,
            run,
            region,
            policy,
        };
        let backed = self.back(range, memory, &claim, recovery);
        let mut books = self.books.lock();
        books.claim_stretches(&claim.chunk, false);
        books.give_back_stretches(claim.chunk, region, || Disposal::Anyone);
        backed
    }

    /// Claims the best run, up to whole pages where they are missing, and some more to map ahead.
    fn claim_run(
        &self,
        range: &VirtualRange,
        request: &Request,
        region: Region,
        growth: Growth,
    ) -> Option<Claim> {
        let mut books = self.books.lock();
        let bytes = request.bytes.next_multiple_of(self.settings.unit);
        let search = Search {
            request,
            bytes,
            region,
            timeline: &self.timeline,
            waits: self.settings.cross_lane == CrossLane::Wait,
            page: Some(range.page),
            all: false,
        };
        let run = search.best(&books, &search.stretches(&books))?;
        let policy = Policy::now(&books, &self.settings, bytes, growth);
        let (start, end) = books.extent_of_growth(range, &run, region, &policy);
        let chunk = books.claim(&run, start, end - start, region)?;
        books.claim_stretches(&chunk, true);
        Some(Claim {
            chunk,
            run,
            region,
            policy,
        })
    }

    /// Maps every missing page of the claim. `Ok(false)` if there are not enough.
    fn back(
        &self,
        range: &VirtualRange,
        memory: &dyn VirtualMemory,
        claim: &Claim,
        recovery: &mut Recovery,
    ) -> Result<bool, DriverError> {
        let stretches = self
            .books
            .lock()
            .pages
            .stretches(claim.chunk.offset, claim.chunk.bytes);
        let missing = stretches.into_iter().filter(|(.., is_backed)| !is_backed);
        let missing: Vec<(u64, u64)> = missing
            .map(|(start, end, _)| (start / range.page, (end - start) / range.page))
            .collect();
        let mut left = missing.iter().map(|(_, pages)| pages).sum();
        let mut supply = Supply {
            pool: self,
            range,
            memory,
            policy: claim.policy,
            recovery,
        };
        if !supply.prepare(left)? {
            return Ok(false);
        }
        for (first, pages) in missing {
            left -= pages;
            supply.map(first, pages, left)?;
        }
        Ok(true)
    }

    /// Serves the request from the claim if it is backed; what is left of it goes where it belongs.
    fn settle(&self, claim: Claim, request: &Request, is_backed: bool) -> Option<Allocation> {
        let mut books = self.books.lock();
        books.claim_stretches(&claim.chunk, false);
        let Claim {
            chunk, run, region, ..
        } = claim;
        if !is_backed {
            let disposal = || Disposal::of(&run.uses, region, &self.timeline);
            books.give_back_stretches(chunk, region, disposal);
            return None;
        }
        let lead = run.start - chunk.offset;
        let chunk = if lead > 0 {
            let (low, rest) = books.index.cut(chunk.id, lead).ok()?;
            books.dispose(low.id, low.bytes, region, Disposal::Anyone);
            rest?
        } else {
            chunk
        };
        let (chunk, rest) = books.index.cut(chunk.id, request.bytes).ok()?;
        if let Some(rest) = rest {
            books.dispose(rest.id, rest.bytes, region, Disposal::Anyone);
        }
        books.issue(chunk, request, region, run.wait, run.uses)
    }
}

impl Books {
    /// From where to where a run is claimed: whole pages where they are missing, and unbacked ones beyond its end that
    /// are mapped ahead.
    fn extent_of_growth(
        &self,
        range: &VirtualRange,
        run: &Run,
        region: Region,
        policy: &Policy,
    ) -> (u64, u64) {
        let page = range.page;
        let is_missing = |offset: u64| self.pages.at(offset / page).is_none();
        let start = if is_missing(run.start) {
            run.start / page * page
        } else {
            run.start
        };
        let end = run.start + run.bytes;
        if !is_missing(end - 1) {
            return (start, end);
        }
        let end = end.next_multiple_of(page);
        let wanted = policy.step.saturating_sub(run.missing / page);
        let room = policy
            .soft
            .saturating_sub(self.held / page + run.missing / page);
        let mut ahead = wanted.min(room);
        if region == Region::Small {
            ahead = ahead.min(SMALL_AHEAD);
        }
        let limit = self.blocks.end_of(run.start).unwrap_or(end);
        let reach =
            |pages: &u64| end + (pages + 1) * page <= limit && is_missing(end + pages * page);
        let ahead = (0..ahead).take_while(reach).count() as u64;
        (start, end + ahead * page)
    }

    /// Counts a claimed chunk in or out, by what is mapped in it now.
    fn claim_stretches(&mut self, chunk: &Chunk, is_claimed: bool) {
        let (mut backed, mut hollow) = (0, 0);
        for (start, end, is_backed) in self.pages.stretches(chunk.offset, chunk.bytes) {
            *(if is_backed { &mut backed } else { &mut hollow }) += end - start;
        }
        let claims = &mut self.claims;
        if is_claimed {
            claims.chunks += 1;
            claims.backed += backed;
            claims.hollow += hollow;
        } else {
            claims.chunks -= 1;
            claims.backed -= backed;
            claims.hollow -= hollow;
        }
    }

    /// Puts a claimed chunk back: what has pages where its uses say, the rest to the unbacked.
    pub(super) fn give_back_stretches(
        &mut self,
        chunk: Chunk,
        region: Region,
        disposal: impl Fn() -> Disposal,
    ) {
        let mut rest = chunk;
        for (start, end, is_backed) in self.pages.stretches(chunk.offset, chunk.bytes) {
            let Ok((part, above)) = self.index.cut(rest.id, end - start) else {
                return;
            };
            if is_backed {
                self.dispose(part.id, part.bytes, region, disposal());
            } else {
                let freed = self.index.free(part.id, region.unbacked(), 0);
                debug_assert!(freed.is_ok());
            }
            let Some(above) = above else {
                return;
            };
            rest = above;
        }
    }
}
