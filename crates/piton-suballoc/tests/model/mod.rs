//! The plain model: a sorted list of extents, every question answered by looking at all of them.

use piton_suballoc::{Domain, Extent, ExtentState};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Live { padding: u64 },
    Free { domain: Domain, stamp: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) state: State,
}

impl Piece {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    pub(crate) fn is_free_in(&self, domain: Domain) -> bool {
        matches!(self.state, State::Free { domain: of, .. } if of == domain)
    }

    fn stamp(&self) -> u64 {
        match self.state {
            State::Free { stamp, .. } => stamp,
            State::Live { .. } => 0,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// Sorted by offset.
    pub(crate) pieces: Vec<Piece>,
    /// Where ranges start: pieces do not merge across.
    starts: Vec<u64>,
}

impl Model {
    pub(crate) fn new() -> Self {
        Self {
            pieces: Vec::new(),
            starts: Vec::new(),
        }
    }

    pub(crate) fn add_range(&mut self, offset: u64, bytes: u64) {
        let overlaps = |piece: &Piece| piece.offset < offset + bytes && offset < piece.end();
        assert!(!self.pieces.iter().any(overlaps), "ranges never overlap");
        self.starts.push(offset);
        self.pieces.push(Piece {
            offset,
            bytes,
            state: State::Free {
                domain: Domain::SHARED,
                stamp: 0,
            },
        });
        self.pieces.sort_by_key(|piece| piece.offset);
    }

    /// Takes a range away that is one free piece of the shared domain.
    pub(crate) fn remove_range(&mut self, offset: u64) {
        self.starts.retain(|&start| start != offset);
        self.pieces.retain(|piece| piece.offset != offset);
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// Whether piece `at` and the one above are free in the domains and in one range.
    fn touches(&self, at: usize, domains: &[Domain]) -> bool {
        let Some([low, high]) = self.pieces.get(at..at + 2) else {
            return false;
        };
        let is_free = |piece: &Piece| domains.iter().any(|&domain| piece.is_free_in(domain));
        is_free(low)
            && is_free(high)
            && low.end() == high.offset
            && !self.starts.contains(&high.offset)
    }

    /// Makes `[offset, offset + bytes)` live if all of it is free and in one range; says whether it was.
    pub(crate) fn claim(&mut self, offset: u64, bytes: u64) -> bool {
        let end = offset + bytes;
        let inside = |piece: &Piece| piece.offset < end && offset < piece.end();
        let crosses = self
            .starts
            .iter()
            .any(|start| (offset + 1..end).contains(start));
        let is_free = |piece: &Piece| matches!(piece.state, State::Free { .. });
        let pieces = || self.pieces.iter().filter(|piece| inside(piece));
        let reaches = pieces()
            .map(Piece::end)
            .max()
            .is_some_and(|last| last >= end);
        if bytes == 0 || crosses || !reaches || !pieces().all(is_free) {
            return false;
        }
        let low = pieces()
            .next()
            .copied()
            .filter(|piece| piece.offset < offset);
        let high = pieces()
            .next_back()
            .copied()
            .filter(|piece| piece.end() > end);
        self.pieces.retain(|piece| !inside(piece));
        let live = State::Live { padding: 0 };
        let low = low.map(|piece| (piece.offset, offset, piece.state));
        let high = high.map(|piece| (end, piece.end(), piece.state));
        let parts = [low, Some((offset, end, live)), high].into_iter().flatten();
        self.pieces.extend(parts.map(|(start, end, state)| Piece {
            offset: start,
            bytes: end - start,
            state,
        }));
        self.pieces.sort_by_key(|piece| piece.offset);
        true
    }

    /// Cuts a live piece for a request of `bytes`; `kept` is that rounded to units.
    pub(crate) fn cut(&mut self, offset: u64, bytes: u64, kept: u64) {
        let at = self
            .pieces
            .iter()
            .position(|piece| piece.offset == offset)
            .expect("the piece exists");
        let whole = self.pieces[at];
        self.pieces[at] = Piece {
            bytes: kept,
            state: State::Live {
                padding: kept - bytes,
            },
            ..whole
        };
        if kept < whole.bytes {
            let rest = Piece {
                offset: offset + kept,
                bytes: whole.bytes - kept,
                state: State::Live { padding: 0 },
            };
            self.pieces.insert(at + 1, rest);
        }
    }

    /// Whether any free extent of the domain holds `bytes` bytes at a multiple of `align`.
    pub(crate) fn has_room(&self, domain: Domain, bytes: u64, align: u64) -> bool {
        self.pieces
            .iter()
            .filter(|piece| piece.is_free_in(domain))
            .any(|piece| piece.offset.next_multiple_of(align) + bytes <= piece.end())
    }

    /// Takes `[offset, offset + bytes)` out of the one free extent of the domain it must lie in.
    pub(crate) fn take(&mut self, domain: Domain, offset: u64, bytes: u64, padding: u64) {
        let at = self
            .pieces
            .iter()
            .position(|piece| {
                piece.is_free_in(domain) && piece.offset <= offset && offset + bytes <= piece.end()
            })
            .expect("a chunk lies inside one free extent of its domain");
        let whole = self.pieces[at];
        let live = Piece {
            offset,
            bytes,
            state: State::Live { padding },
        };
        let low = Piece {
            bytes: offset - whole.offset,
            ..whole
        };
        let high = Piece {
            offset: offset + bytes,
            bytes: whole.end() - offset - bytes,
            ..whole
        };
        let parts = [low, live, high].into_iter().filter(|part| part.bytes > 0);
        self.pieces.splice(at..=at, parts);
    }

    /// Makes the piece that starts at `offset` free in `domain` and joins it with its neighbours.
    pub(crate) fn give(&mut self, offset: u64, domain: Domain, stamp: u64) {
        let mut at = self
            .pieces
            .iter()
            .position(|piece| piece.offset == offset)
            .expect("the piece exists");
        let mut first = at;
        let mut last = at;
        self.pieces[at].state = State::Free { domain, stamp };
        if at > 0 && self.touches(at - 1, &[domain]) {
            first -= 1;
        }
        if self.touches(at, &[domain]) {
            last += 1;
        }
        let own = self.pieces[at].offset;
        let joined = self.pieces[first..=last]
            .iter()
            .filter(|piece| piece.offset != own)
            .map(Piece::stamp)
            .fold(stamp, u64::max);
        let bytes = self.pieces[first..=last]
            .iter()
            .map(|piece| piece.bytes)
            .sum();
        let offset = self.pieces[first].offset;
        self.pieces.drain(first + 1..=last);
        at = first;
        self.pieces[at].state = State::Live { padding: 0 };
        let newest = self
            .pieces
            .iter()
            .filter(|piece| piece.is_free_in(domain))
            .map(Piece::stamp)
            .fold(joined, u64::max);
        self.pieces[at] = Piece {
            offset,
            bytes,
            state: State::Free {
                domain,
                stamp: if domain.is_shared() || joined == 0 {
                    0
                } else {
                    newest
                },
            },
        };
    }

    /// Moves all of a domain up to a stamp to the shared one; returns the bytes.
    pub(crate) fn release_up_to(&mut self, domain: Domain, stamp: u64) -> u64 {
        let due: Vec<Piece> = self
            .pieces
            .iter()
            .copied()
            .filter(|piece| piece.is_free_in(domain) && piece.stamp() <= stamp)
            .collect();
        for piece in &due {
            self.give(piece.offset, Domain::SHARED, 0);
        }
        due.iter().map(|piece| piece.bytes).sum()
    }

    /// Moves all of a domain to another; returns the bytes.
    pub(crate) fn move_all(&mut self, from: Domain, to: Domain) -> u64 {
        if from == to {
            return 0;
        }
        let all: Vec<Piece> = self
            .pieces
            .iter()
            .copied()
            .filter(|piece| piece.is_free_in(from))
            .collect();
        for piece in &all {
            self.give(piece.offset, to, 0);
        }
        all.iter().map(|piece| piece.bytes).sum()
    }

    pub(crate) fn free_bytes(&self, domain: Domain) -> u64 {
        let free = self.pieces.iter().filter(|piece| piece.is_free_in(domain));
        free.map(|piece| piece.bytes).sum()
    }

    pub(crate) fn largest_free(&self, domain: Domain) -> u64 {
        let free = self.pieces.iter().filter(|piece| piece.is_free_in(domain));
        free.map(|piece| piece.bytes).max().unwrap_or(0)
    }

    /// Where the smallest free piece of at least `bytes` bytes begins, else the largest; the lowest among equals.
    pub(crate) fn nearest(&self, domain: Domain, bytes: u64) -> Option<u64> {
        let free = self.pieces.iter().filter(|piece| piece.is_free_in(domain));
        let distance = |piece: &&Piece| {
            (
                piece.bytes < bytes,
                piece.bytes.abs_diff(bytes),
                piece.offset,
            )
        };
        free.min_by_key(distance).map(|piece| piece.offset)
    }
}

/// The real thing's view of an extent in the model's words.
pub(crate) fn piece_of(extent: &Extent) -> Piece {
    Piece {
        offset: extent.offset,
        bytes: extent.bytes,
        state: match extent.state {
            ExtentState::Live { padding } => State::Live { padding },
            ExtentState::Free { domain, stamp } => State::Free { domain, stamp },
        },
    }
}
