//! A block as the pool passes it on: its memory, what devices do to it, and its name in the books.
//!
//! # The idea
//! A record is made when a block is cut and lives on the heap until the block is put back. Magazines, depots and the
//! pending list hold boxes of records, and so does the handle of a block that is out: a request and a drop move one
//! pointer.

use crate::{span::Span, visible::Visible};

/// What there is to a block, out or at rest.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) memory: Visible,
    pub(crate) span: Span,
}

impl Record {
    /// The record of a span just cut, for a request of `asked` bytes.
    pub(crate) fn new(span: Span, asked: u64) -> Box<Self> {
        let mut record = Box::new(Self {
            memory: Visible::of_span(&span),
            span,
        });
        record.hand_out(asked);
        record
    }

    /// Makes it that of a request of `asked` bytes; it was at rest until now.
    #[inline]
    pub(crate) fn hand_out(&mut self, asked: u64) {
        debug_assert!(asked <= self.span.bytes);
        self.memory.show(usize::try_from(asked).unwrap_or(0));
    }

    /// Bytes asked for by the request it is of.
    #[inline]
    pub(crate) fn asked(&self) -> u64 {
        self.memory.bytes() as u64
    }
}
