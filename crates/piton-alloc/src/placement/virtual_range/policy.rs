//! How much is mapped at once, and when pages are taken from holes rather than from the device.
//!
//! A call moves one handle. Many small handles fit a program's holes best but cost many calls. Few large ones are
//! pinned by whatever survives in them. So:
//!
//! - A handle has about a thousandth of the pool's limit. So a survivor pins a thousandth, and the number of handles
//!   does not grow with the memory.
//! - A program that needs little of a large device gets smaller handles once something is freed: at most a small
//!   share of what is held. Memory that only grows (weights) stays, whatever its handles.
//! - Beyond the peak of live bytes, pages are taken from holes first. The pool may hold a little more than the peak,
//!   so that not every request moves pages: a hundredth, or one request more, up to a fiftieth. A program that
//!   replaces a piece by another of about the same size needs room for one piece beside its peak, in whatever order
//!   it replaces them.

use crate::books::Books;
use crate::config::Settings;
use crate::ladder::Growth;

/// Part of the limit, and at least of what is held, that one handle may cover.
const HANDLE_SHARE: u64 = 1024;
/// Most of what is held that one handle may cover once something was freed.
const MOST_SHARE: u64 = 256;
/// Part of what is held that is mapped or taken from holes at least.
const STEP_SHARE: u64 = 256;
/// Part of the peak of what was live that the pool may hold beyond it before it takes pages from holes.
const SLACK_SHARE: u64 = 100;
/// The same where the request that needs pages is as large as that.
const MOST_SLACK_SHARE: u64 = 50;

/// What one growth may do. All in pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Pages the pool holds before it takes from holes.
    pub(crate) soft: u64,
    /// Pages it may hold.
    pub(crate) limit: u64,
    /// Most pages of a new handle.
    pub(crate) handle: u64,
    /// Pages to map or to take from holes, at least, if they are there.
    pub(crate) step: u64,
}

impl Policy {
    /// For a request of `bytes` bytes.
    pub(crate) fn now(books: &Books, settings: &Settings, bytes: u64, growth: Growth) -> Self {
        let page = settings.block_multiple;
        let held = books.held / page;
        let live = books.live + bytes;
        let peak = books.counters.peak_live.max(live);
        let slack = bytes.clamp(peak / SLACK_SHARE, peak / MOST_SLACK_SHARE);
        let soft = (peak + slack)
            .max(settings.release_threshold)
            .max(books.reserved);
        let soft = match growth {
            Growth::Usual => soft,
            Growth::Sparing => books.counters.peak_held.max(live),
            Growth::Within(most) => most,
        };
        let limit = growth.most(settings.limit) / page;
        let whole = settings.limit / page / HANDLE_SHARE;
        let (handle, step) = if books.counters.frees == 0 {
            (whole.max(held / MOST_SHARE), 0)
        } else {
            let handle = whole.min(held / MOST_SHARE).max(held / HANDLE_SHARE);
            (handle, held / STEP_SHARE)
        };
        Self {
            soft: soft.div_ceil(page).min(limit),
            limit,
            handle: handle.max(1),
            step,
        }
    }

    /// For `bytes` bytes to be mapped before anyone asks for them: no larger handles than they will need once they are
    /// in use, and nothing is taken from holes.
    pub(crate) fn ahead(books: &Books, settings: &Settings, bytes: u64) -> Self {
        let page = settings.block_multiple;
        let limit = settings.limit / page;
        Self {
            soft: limit,
            limit,
            handle: ((books.held + bytes) / page / HANDLE_SHARE).max(1),
            step: 0,
        }
    }
}
