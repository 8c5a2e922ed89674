//! A log: records of commands that one thread ended, with their sites.

use super::{
    record::{CompactRecord, MAX_SITES},
    site::{Draft, Site, SiteKey},
};
use piton_driver::{ExecutionRecord, Position};
use std::{collections::HashMap, sync::Arc};

/// Records in a piece of memory: one page, so that a log grows without being moved.
const PIECE: usize = 4096 / size_of::<CompactRecord>();

/// Records with what they have in common. `places` finds a site's number by its key.
#[derive(Debug, Default)]
pub(super) struct Log {
    pieces: Vec<Vec<CompactRecord>>,
    sites: Vec<Site>,
    places: HashMap<SiteKey, u32>,
    /// The site of the record before: mostly that of the next too.
    latest: Option<(SiteKey, u32)>,
    /// Records that may still be pushed.
    room: u64,
    dropped: u64,
    /// No log has room left, nor has the trace.
    is_over: bool,
}

impl Log {
    pub(super) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Whether it is full and another log may have room.
    pub(super) fn may_borrow(&self) -> bool {
        self.is_full() && !self.is_over
    }

    /// No other log has room either, and that stays so.
    pub(super) fn stop_borrowing(&mut self) {
        self.is_over = true;
    }

    /// Takes at most so much of its room away; says how much.
    pub(super) fn give_room(&mut self, most: u64) -> u64 {
        let given = self.room.min(most);
        self.room -= given;
        given
    }

    pub(super) fn add_room(&mut self, records: u64) {
        self.room += records;
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }

    /// Keeps a record, if there is room for it.
    pub(super) fn push(
        &mut self,
        draft: &Draft,
        times: (u64, u64),
        names: impl FnOnce() -> (Option<Arc<str>>, Option<Arc<str>>),
    ) {
        let site = if self.room > 0 {
            self.site(&draft.site, names)
        } else {
            None
        };
        let Some(site) = site else {
            self.dropped += 1;
            return;
        };
        self.room -= 1;
        let record = CompactRecord::new(draft.position, draft.value, times, site);
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(record),
            _ => self.begin_piece(record),
        }
    }

    #[cold]
    fn begin_piece(&mut self, record: CompactRecord) {
        let mut piece = Vec::with_capacity(PIECE);
        piece.push(record);
        self.pieces.push(piece);
    }

    /// The number of a site; `None` if it is new and there are too many.
    fn site(
        &mut self,
        key: &SiteKey,
        names: impl FnOnce() -> (Option<Arc<str>>, Option<Arc<str>>),
    ) -> Option<u32> {
        if let Some((latest, site)) = &self.latest
            && latest == key
        {
            return Some(*site);
        }
        let site = match self.places.get(key) {
            Some(site) => *site,
            None => self.add_site(key, names())?,
        };
        self.latest = Some((*key, site));
        Some(site)
    }

    #[cold]
    fn add_site(
        &mut self,
        key: &SiteKey,
        (label, kernel): (Option<Arc<str>>, Option<Arc<str>>),
    ) -> Option<u32> {
        let site = u32::try_from(self.sites.len()).ok()?;
        if self.sites.len() >= MAX_SITES {
            return None;
        }
        self.sites.push(Site {
            key: *key,
            label,
            kernel,
        });
        self.places.insert(*key, site);
        Some(site)
    }

    /// Appends all records, in the order they were pushed.
    pub(super) fn unpack(self, records: &mut Vec<ExecutionRecord>) {
        let compact = self.pieces.iter().flatten();
        let whole = compact.filter_map(|record| {
            // INVARIANT: a record's site was added before it was pushed.
            let site = self.sites.get(record.site())?;
            Some(put_together(record, site))
        });
        records.extend(whole);
    }
}

fn put_together(record: &CompactRecord, site: &Site) -> ExecutionRecord {
    let key = &site.key;
    let (start_ns, end_ns) = record.times();
    ExecutionRecord {
        queue: key.queue,
        label: site.label.clone(),
        position: Position::new(record.position),
        operation: key.operation,
        start_ns,
        end_ns,
        bytes: key.tie.bytes(record.value),
        kernel: site.kernel.clone(),
        peer: key.peer,
        origin: Some(key.origin),
        awaited: key.tie.awaited(record.value),
        signal: key.tie.signal(record.value),
    }
}
