//! Joining what lies side by side in a lane's domain and the shared one, when only together they hold a request.
//!
//! Extents of different domains do not merge by themselves, so a lane that frees much before any of it is known
//! complete sees its own memory cut from the shared memory beside it. Looking for such runs costs a walk over the
//! domain's extents, so it is a step to take before asking for more memory, not one of every allocation.

use super::Tlsf;
use crate::domain::Domain;
use crate::records::NIL;

impl Tlsf {
    /// Finds a run of neighbouring free extents of `domain` and [`Domain::SHARED`] that holds `bytes` bytes at a
    /// multiple of `align`, and moves the shared ones among them to `domain`, where all become one.
    ///
    /// Returns whether there was one; [`Tlsf::allocate`] from `domain` then succeeds. The joined extent has at
    /// least the largest stamp of the run. Does nothing for [`Domain::SHARED`] itself.
    pub fn join_run(&mut self, domain: Domain, bytes: u64, align: u64) -> bool {
        let Some(fit) = self.fit(bytes, align) else {
            return false;
        };
        let mut seed = self.oldest(domain);
        while let Some(index) = seed {
            let first = self.run_start(index, domain);
            let (offset, end) = self.run_span(first, domain);
            if fit.start_between(offset, end).is_some() {
                self.join_from(first, domain);
                return true;
            }
            let next = self.records.order(index).next;
            seed = (next != NIL).then_some(next);
        }
        false
    }

    /// First extent of the run around `index`.
    fn run_start(&self, index: u32, domain: Domain) -> u32 {
        let mut first = index;
        loop {
            let below = self.records.at(first).prev;
            if !self.joins(below, domain) {
                return first;
            }
            first = below;
        }
    }

    /// Start and end, in units, of the run that starts with extent `first`.
    fn run_span(&self, first: u32, domain: Domain) -> (u32, u32) {
        let offset = self.records.at(first).offset;
        let mut last = first;
        loop {
            let above = self.records.at(last).next;
            if !self.joins(above, domain) {
                return (offset, self.records.at(last).end());
            }
            last = above;
        }
    }

    fn join_from(&mut self, first: u32, domain: Domain) {
        let mut index = first;
        loop {
            if self.records.at(index).is_free_in(Domain::SHARED) {
                // Its neighbours in the run are of `domain`, and one extent with it from here on.
                let below = self.records.at(index).prev;
                let merges_below = self.is_own(below, domain);
                self.unhang(index, Domain::SHARED);
                self.merge_into(index, domain, 0);
                index = if merges_below { below } else { index };
            }
            let above = self.records.at(index).next;
            if !self.joins(above, domain) {
                return;
            }
            index = above;
        }
    }

    fn joins(&self, index: u32, domain: Domain) -> bool {
        self.is_own(index, domain) || self.is_own(index, Domain::SHARED)
    }

    fn is_own(&self, index: u32, domain: Domain) -> bool {
        index != NIL && self.records.at(index).is_free_in(domain)
    }
}
