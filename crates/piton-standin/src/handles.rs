//! Handles: numbers that are never given out twice, so one that was taken back is known for what it is.

use crate::codes::{Answer, Code};
use std::collections::HashMap;

/// Things that were given out, by their handles.
#[derive(Debug)]
pub struct Handles<O> {
    things: HashMap<usize, O>,
    last: usize,
    bad: Code,
}

impl<O> Handles<O> {
    /// None yet; a handle that is none is answered with this code.
    pub fn new(bad: Code) -> Self {
        Self {
            things: HashMap::new(),
            last: 0,
            bad,
        }
    }

    /// Gives a thing out.
    pub fn give(&mut self, thing: O) -> usize {
        self.last += 16;
        self.things.insert(self.last, thing);
        self.last
    }

    /// Takes a thing back, for the caller to drop where no lock is held.
    ///
    /// # Errors
    /// The code of a bad handle.
    pub fn take(&mut self, handle: usize) -> Answer<O> {
        self.things.remove(&handle).ok_or(self.bad)
    }

    /// Puts another thing behind a handle.
    ///
    /// # Errors
    /// The code of a bad handle.
    pub fn replace(&mut self, handle: usize, thing: O) -> Answer<()> {
        *self.things.get_mut(&handle).ok_or(self.bad)? = thing;
        Ok(())
    }

    /// What `find` sees in the thing of this handle.
    ///
    /// # Errors
    /// The code of a bad handle, also where `find` sees nothing.
    pub fn get<T>(&self, handle: usize, find: impl FnOnce(&O) -> Option<T>) -> Answer<T> {
        let thing = self.things.get(&handle);
        thing.and_then(find).ok_or(self.bad)
    }
}
