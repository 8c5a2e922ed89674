//! What a queue waits for, and who may end that: exactly one.
//!
//! A queue that hangs on a counter can be set going from several sides: by the counter, by loss of its device, by an abort,
//! by whoever finds a deadlock.
//! Each stall has a *ticket*. Whoever takes the ticket out owns the queue's front; whoever comes later, or with the ticket of
//! an earlier stall, gets nothing. Ticket and what is waited for come and go together, under one brief lock: nobody sees
//! the one without the other.

use crate::deadlock::Awaits;
use piton_driver::Awaited;
use piton_sync::Brief;

/// The stall a queue is in, if it is in one.
#[derive(Debug, Default)]
pub(crate) struct Stall(Brief<State>);

#[derive(Debug, Default)]
struct State {
    on: Option<(u64, Awaits)>,
    issued: u64,
}

impl Stall {
    /// Begins a stall and returns its ticket.
    pub(crate) fn begin(&self, awaits: Awaits) -> u64 {
        let mut state = self.0.lock();
        state.issued += 1;
        let ticket = state.issued;
        let former = state.on.replace((ticket, awaits));
        drop(state);
        drop(former);
        ticket
    }

    /// Whether there is one.
    pub(crate) fn is_on(&self) -> bool {
        self.0.lock().on.is_some()
    }

    /// Whether it is the one with this ticket.
    pub(crate) fn is(&self, ticket: u64) -> bool {
        let state = self.0.lock();
        state.on.as_ref().is_some_and(|(on, _)| *on == ticket)
    }

    /// Ends the stall with this ticket; `false` if it has ended.
    #[must_use = "only who ended the stall owns the front"]
    pub(crate) fn end(&self, ticket: u64) -> bool {
        let mut state = self.0.lock();
        let ended = state.on.take_if(|(on, _)| *on == ticket);
        drop(state);
        // Dropped under no lock: it may be the last handle of another queue.
        ended.is_some()
    }

    /// Ends the stall there is, whichever.
    #[must_use = "only who ended the stall owns the front"]
    pub(crate) fn end_any(&self) -> bool {
        let ended = self.0.lock().on.take();
        ended.is_some()
    }

    /// As [`end_any`](Self::end_any), but for a wait for another queue, which no trouble cuts short.
    #[must_use = "only who ended the stall owns the front"]
    pub(crate) fn end_by_abort(&self) -> bool {
        let is_for_a_queue = |(_, awaits): &(u64, Awaits)| matches!(awaits, Awaits::Queue(..));
        let ended = self.0.lock().on.take_if(|on| !is_for_a_queue(on));
        ended.is_some()
    }

    /// Ticket, and what is waited for.
    pub(crate) fn get(&self) -> Option<(u64, Awaits)> {
        self.0.lock().on.clone()
    }

    /// What is waited for, in the contract's words.
    pub(crate) fn told(&self) -> Option<Awaited> {
        let (_, awaits) = self.get()?;
        awaits.told()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_ended_once_and_by_its_own_ticket() {
        let stall = Stall::default();
        let begin = || stall.begin(Awaits::Never);
        assert!(!stall.end_any() && !stall.end(0));
        let first = begin();
        assert!(stall.end(first));
        assert!(!stall.end(first) && !stall.end_any());
        let second = begin();
        assert!(!stall.end(first), "an earlier ticket ends nothing");
        assert!(stall.is(second) && !stall.is(first));
        assert!(stall.end_any());
        assert!(!stall.end(second) && !stall.is_on());
    }
}
