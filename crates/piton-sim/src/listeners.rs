//! How many listen to something that others change, so that who changes it need not look for them.
//!
//! # Protocol
//! A listener [joins](Listeners::join) and looks once more; who has changed something asks then whether
//! [anybody is there](Listeners::are_there). Both are read-modify-writes of one word, AcqRel, so one comes first. Either the
//! join does, and the other side sees the listener; or the other side's does, and the join, which reads from it, sees the
//! change in the look that follows. A plain load in place of the latter would not do: it could be satisfied before the
//! change is visible. What was changed may be any memory: the two give it its order.

use piton_sync::atomic::{AtomicUsize, Ordering};

/// A number of listeners.
#[derive(Debug)]
pub(crate) struct Listeners(AtomicUsize);

impl Listeners {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// One more, who looks once more after this.
    pub(crate) fn join(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// So many go.
    pub(crate) fn leave(&self, count: usize) {
        self.0.fetch_sub(count, Ordering::AcqRel);
    }

    /// Whether there are any, for who has just changed what they listen to.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.0.fetch_add(0, Ordering::AcqRel) > 0
    }
}
