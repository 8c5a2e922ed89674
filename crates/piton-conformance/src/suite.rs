//! The list of cases.

use crate::{
    cases,
    outcome::Failure,
    subject::{Facet, Subject},
};

/// A property of the contract, and how it is tried.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// A sentence.
    pub name: &'static str,
    /// The part of the contract it belongs to.
    pub area: &'static str,
    /// What the device must offer for the case to make sense.
    pub needs: &'static [Facet],
    pub(crate) run: fn(&Subject) -> Result<(), Failure>,
}

/// All cases, area by area.
pub fn suite() -> Vec<Case> {
    [
        cases::device::CASES,
        cases::memory::CASES,
        cases::virtual_memory::CASES,
        cases::mappings::CASES,
        cases::page_sharing::CASES,
        cases::host_memory::CASES,
        cases::copies::CASES,
        cases::queues::CASES,
        cases::activity::CASES,
        cases::writers::CASES,
        cases::placement::CASES,
        cases::waits::CASES,
        cases::semaphores::CASES,
        cases::semaphore_sharing::CASES,
        cases::memory_operations::CASES,
        cases::host_functions::CASES,
        cases::kernels::CASES,
        cases::failures::CASES,
        cases::recovery::CASES,
        cases::graphs::CASES,
        cases::timestamps::CASES,
        cases::peers::CASES,
        cases::trace::CASES,
        cases::wakers::CASES,
        cases::threads::CASES,
        cases::teardown::CASES,
    ]
    .concat()
}
