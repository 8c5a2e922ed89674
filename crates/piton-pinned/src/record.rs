//! A block as the pool passes it on: its memory, what devices do to it, and its name in the books.
//!
//! # The idea
//! A record is made when a block is cut and lives on the heap until the block is put back. Magazines, depots and the
//! pending list hold boxes of records, and so does the handle of a block that is out: a request and a drop move one
//! pointer, and look at no record: what they need is in the handle's [label](crate::label).

use crate::{span::Span, visible::Visible};

/// What there is to a block, out or at rest.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) memory: Visible,
    pub(crate) span: Span,
}

impl Record {
    /// The record of a span just cut.
    pub(crate) fn new(span: Span) -> Box<Self> {
        Box::new(Self {
            memory: Visible::of_span(&span),
            span,
        })
    }
}
