//! A request, checked and rounded to what the pool will take for it.

use crate::{
    PinnedError, PinnedPoolConfig,
    config::PAGE,
    label::{self, Label},
};
use piton_suballoc::SizeClass;

/// What is to be taken for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Bytes asked for.
    pub(crate) asked: u64,
    /// Bytes to be taken: a size class, or whole pages.
    pub(crate) bytes: u64,
    /// What the start must be a multiple of.
    pub(crate) alignment: u64,
    /// Its size class, unless it is of an exact size.
    pub(crate) class: Option<SizeClass>,
}

impl Request {
    /// # Errors
    /// [`PinnedError::InvalidSize`], [`PinnedError::InvalidAlignment`].
    pub(crate) fn new(
        given: usize,
        alignment: usize,
        config: &PinnedPoolConfig,
    ) -> Result<Self, PinnedError> {
        let (asked, alignment) = (given as u64, alignment as u64);
        if !alignment.is_power_of_two() || alignment > PAGE {
            return Err(PinnedError::InvalidAlignment {
                given: alignment,
                maximum: PAGE,
            });
        }
        let maximum = label::MOST_BYTES / PAGE * PAGE;
        if asked == 0 || asked > maximum {
            return Err(PinnedError::InvalidSize {
                given: asked,
                maximum,
            });
        }
        let is_small = asked <= config.large_above_bytes;
        let class = SizeClass::for_bytes(asked).filter(|_| is_small);
        Ok(Self {
            asked,
            bytes: class.map_or(asked.next_multiple_of(PAGE), SizeClass::bytes),
            alignment: alignment.max(SizeClass::GRAIN),
            class,
        })
    }

    /// What the handle of its block says.
    pub(crate) fn label(&self) -> Label {
        Label::new(self.asked, self.class)
    }

    /// The class whose free list has what the request needs: one that asks for no more than the common alignment.
    pub(crate) fn listed_class(&self) -> Option<SizeClass> {
        self.class.filter(|_| self.alignment <= SizeClass::GRAIN)
    }
}
