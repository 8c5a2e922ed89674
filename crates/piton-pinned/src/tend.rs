//! What is done from time to time: memory asked for ahead of need, and given back when nobody has needed it for long.
//!
//! # The idea
//! The pool has no clock: a *round* is a call of [`PinnedPool::tend`](crate::PinnedPool::tend), by the program or by a
//! [`Keeper`](crate::Keeper). Over a round each depot remembers how few blocks it ever had: so many were not needed, and
//! go back into the books, where they merge. A region of which nothing has been out for as many rounds as configured goes
//! back to the driver, but not below what is to be kept. And if there is less memory ready than is to be had ahead, the
//! driver is asked, by whoever tends and under no lock, so that no request has to.

use crate::{PinnedError, core::Core, growth::Growth, magazine::Depot};

/// What a round has come to. Sizes are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tended {
    /// Asked of the driver ahead of need.
    pub grown_bytes: u64,
    /// Given back to the driver.
    pub released_bytes: u64,
}

impl Core {
    /// One round.
    pub(crate) fn tend(&self) -> Result<Tended, PinnedError> {
        self.leftovers.sweep();
        self.collect();
        self.take_unneeded();
        let released_bytes = self.release_old();
        Ok(Tended {
            released_bytes,
            grown_bytes: self.grow_ahead()?,
        })
    }

    /// Whether there is so little ready that somebody had better tend.
    pub(crate) fn is_short(&self) -> bool {
        self.regions.lock().uncut() < self.config.ahead_bytes / 2
    }

    /// Puts back into the books what depots did not need over the round.
    fn take_unneeded(&self) {
        let unneeded: Vec<_> = self.depots.iter().flat_map(Depot::take_unneeded).collect();
        let mut regions = self.regions.lock();
        for record in unneeded.into_iter().flatten() {
            self.put_back(&mut regions, record);
        }
    }

    fn release_old(&self) -> u64 {
        let old = self.regions.lock().remove_old(&self.config);
        let bytes = old.iter().map(|allocation| allocation.bytes as u64).sum();
        old.into_iter().for_each(|allocation| self.free(allocation));
        bytes
    }

    fn grow_ahead(&self) -> Result<u64, PinnedError> {
        let mut grown = 0;
        while self.regions.lock().uncut() < self.config.ahead_bytes {
            match self.grow(Growth::slab(&self.config)) {
                Ok(bytes) => grown += bytes,
                // At the cap there is nothing to be had ahead, which is nobody's error.
                Err(PinnedError::CapReached { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(grown)
    }
}
