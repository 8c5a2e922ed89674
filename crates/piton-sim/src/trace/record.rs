//! One command in 32 bytes.

/// Bits for the site; the rest of the word is the duration.
const SITE_BITS: u32 = 24;
/// Longest duration that is told apart from longer ones: some 18 minutes.
pub(super) const LONGEST_NS: u64 = (1 << (64 - SITE_BITS)) - 1;
/// Sites a log holds at most.
pub(super) const MAX_SITES: usize = 1 << SITE_BITS;

/// A command that ended, less what its site says.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompactRecord {
    pub(super) position: u64,
    /// Bytes moved, the awaited position, or the value waited for or told.
    pub(super) value: u64,
    end: u64,
    duration_and_site: u64,
}

const _: () = assert!(
    size_of::<CompactRecord>() == 32,
    "two records to a cache line"
);

impl CompactRecord {
    /// `site` is below [`MAX_SITES`]. Of a duration past [`LONGEST_NS`] the end is kept and the start moved.
    pub(super) fn new(position: u64, value: u64, (start, end): (u64, u64), site: u32) -> Self {
        let duration = end.saturating_sub(start).min(LONGEST_NS);
        Self {
            position,
            value,
            end,
            duration_and_site: duration << SITE_BITS | u64::from(site),
        }
    }

    /// Start and end in nanoseconds.
    pub(super) fn times(&self) -> (u64, u64) {
        let duration = self.duration_and_site >> SITE_BITS;
        (self.end.saturating_sub(duration), self.end)
    }

    /// Which of its log's sites.
    pub(super) fn site(&self) -> usize {
        let site = self.duration_and_site & (MAX_SITES as u64 - 1);
        usize::try_from(site).unwrap_or(usize::MAX)
    }
}
