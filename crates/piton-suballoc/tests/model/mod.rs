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

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) pieces: Vec<Piece>,
}

impl Model {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            pieces: vec![Piece {
                offset: 0,
                bytes: capacity,
                state: State::Free {
                    domain: Domain::SHARED,
                    stamp: 0,
                },
            }],
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
        if at > 0 && self.pieces[at - 1].is_free_in(domain) {
            first -= 1;
        }
        if at + 1 < self.pieces.len() && self.pieces[at + 1].is_free_in(domain) {
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
                stamp: if domain.is_shared() { 0 } else { newest },
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

    pub(crate) fn free_bytes(&self, domain: Domain) -> u64 {
        let free = self.pieces.iter().filter(|piece| piece.is_free_in(domain));
        free.map(|piece| piece.bytes).sum()
    }

    pub(crate) fn largest_free(&self, domain: Domain) -> u64 {
        let free = self.pieces.iter().filter(|piece| piece.is_free_in(domain));
        free.map(|piece| piece.bytes).max().unwrap_or(0)
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
