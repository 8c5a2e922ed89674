//! What the pool's addresses hold over a trace, for a picture.
//!
//! The trace is played twice more, with a snapshot at each of so many moments. A pool reserves far more addresses than it
//! has memory, so the first pass finds the pages that ever have some; the second counts, for each stretch of those in
//! order of address, what most of its bytes are. Snapshots call back what lanes keep at hand, so these passes are not the
//! ones that figures come from.

use std::collections::BTreeSet;

use piton_alloc::{ChunkSnapshot, ChunkState, PoolSnapshot};

use super::player::{PAGE_BYTES, Player};
use super::{ReplayError, ReplayOptions};
use crate::report::{AddressUse, AddressView};
use crate::trace::CheckedEvent;

/// Moments at most: about one for four of a screen's pixels.
const MOMENTS: usize = 128;
/// Stretches of addresses at most.
const ROWS: usize = 64;

/// The picture of a trace.
pub(super) fn draw(
    title: String,
    events: &[CheckedEvent],
    options: &ReplayOptions,
) -> Result<AddressView, ReplayError> {
    let mut pages = BTreeSet::new();
    at_moments(events, options, |_, snapshot| {
        pages.extend(backed(snapshot).flat_map(|chunk| parts(chunk).map(|(page, _)| page)));
    })?;
    let rows = Rows::new(pages);
    let mut view = AddressView {
        title,
        bytes: rows.bytes(),
        ..AddressView::default()
    };
    at_moments(events, options, |event, snapshot| {
        if view.columns.is_empty() {
            view.events.0 = event;
        }
        view.events.1 = event;
        view.columns.push(rows.column(snapshot));
    })?;
    Ok(view)
}

/// Plays the trace, and looks at the pool after so many events, at equal distances, the last among them.
fn at_moments(
    events: &[CheckedEvent],
    options: &ReplayOptions,
    mut look: impl FnMut(u64, &PoolSnapshot),
) -> Result<(), ReplayError> {
    let mut player = Player::new(options)?;
    let mut played = 0;
    for stretch in events.chunks(events.len().div_ceil(MOMENTS).max(1)) {
        for event in stretch {
            player.play(*event)?;
        }
        played += stretch.len() as u64;
        look(played, &player.snapshot());
    }
    Ok(())
}

fn backed(snapshot: &PoolSnapshot) -> impl Iterator<Item = &ChunkSnapshot> {
    let chunks = snapshot.blocks.iter().flat_map(|block| &block.chunks);
    chunks.filter(|chunk| chunk.state != ChunkState::Unbacked)
}

/// The pages a chunk lies in, and how many of its bytes lie in each.
fn parts(chunk: &ChunkSnapshot) -> impl Iterator<Item = (u64, u64)> {
    let (start, end) = (chunk.ptr.address(), chunk.ptr.address() + chunk.bytes);
    (start / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).map(move |page| {
        let (first, last) = (page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
        (page, end.min(last) - start.max(first))
    })
}

/// The rows of a picture: the pages that ever have memory, in order of address, cut into equal stretches.
struct Rows {
    pages: Vec<u64>,
    count: usize,
}

impl Rows {
    fn new(pages: BTreeSet<u64>) -> Self {
        let count = pages.len().min(ROWS);
        let pages = pages.into_iter().collect();
        Self { pages, count }
    }

    fn bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE_BYTES
    }

    fn row_of(&self, page: u64) -> Option<usize> {
        let rank = self.pages.binary_search(&page).ok()?;
        Some(rank * self.count / self.pages.len())
    }

    /// What most bytes of each row are.
    fn column(&self, snapshot: &PoolSnapshot) -> Vec<AddressUse> {
        let mut bytes = vec![[0_u64; AddressUse::ALL.len()]; self.count];
        for page in &self.pages {
            if let Some(row) = self.row_of(*page) {
                bytes[row][AddressUse::Unbacked as usize] += PAGE_BYTES;
            }
        }
        for chunk in backed(snapshot) {
            let shown = shown(chunk.state) as usize;
            for (page, part) in parts(chunk) {
                if let Some(row) = self.row_of(page) {
                    bytes[row][shown] += part;
                    bytes[row][AddressUse::Unbacked as usize] -= part;
                }
            }
        }
        bytes.iter().map(most).collect()
    }
}

fn shown(state: ChunkState) -> AddressUse {
    match state {
        ChunkState::Live { .. } => AddressUse::Live,
        ChunkState::Pending { .. } => AddressUse::Pending,
        _ => AddressUse::Hole,
    }
}

/// The use with the most bytes; the first of the legend if several have.
fn most(bytes: &[u64; AddressUse::ALL.len()]) -> AddressUse {
    let uses = AddressUse::ALL.into_iter().rev();
    uses.max_by_key(|shown| bytes[*shown as usize])
        .unwrap_or(AddressUse::Unbacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceReader;
    use std::path::Path;

    fn picture(text: &str) -> AddressView {
        let reader = TraceReader::new(text.as_bytes(), Path::new("test.csv")).unwrap();
        let events: Result<Vec<CheckedEvent>, _> = reader.collect();
        draw(
            "test".to_owned(),
            &events.unwrap(),
            &ReplayOptions::default(),
        )
        .unwrap()
    }

    #[test]
    fn a_column_shows_what_is_in_use_and_what_was_given_back() {
        use AddressUse::{Hole, Live};
        let bytes = 4 * PAGE_BYTES;
        let text = format!("a,1,{bytes},0\na,2,{bytes},0\nf,1,0\nf,2,0\n");
        let view = picture(&text);
        assert_eq!((view.events, view.columns.len()), ((1, 4), 4));
        assert_eq!(view.bytes, 2 * bytes);
        let count = |column: usize, shown| {
            let cells = view.columns[column].iter();
            cells.filter(|cell| **cell == shown).count()
        };
        assert_eq!(
            (0..4).map(|column| count(column, Live)).collect::<Vec<_>>(),
            [4, 8, 4, 0]
        );
        assert_eq!(count(2, Hole), 4);
    }

    #[test]
    fn a_long_trace_over_many_pages_has_so_many_columns_and_rows_and_no_more() {
        let bytes = 3 * PAGE_BYTES;
        let lines = (0..1000).map(|block| format!("a,{block},{bytes},0\n"));
        let view = picture(&lines.collect::<String>());
        assert!((MOMENTS / 2..=MOMENTS).contains(&view.columns.len()));
        assert!(view.columns.iter().all(|rows| rows.len() == ROWS));
        assert_eq!((view.bytes, view.events.1), (1000 * bytes, 1000));
    }
}
