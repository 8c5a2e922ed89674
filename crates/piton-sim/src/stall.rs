//! Who may end a stall: exactly one.
//!
//! A queue that hangs on a counter can be set going from several sides: by the counter, by loss of its device, by an abort,
//! by whoever finds a deadlock.
//! Each stall has a *ticket*, in the queue's state under its lock. Whoever takes the ticket out owns the queue's
//! front; whoever comes later, or with the ticket of an earlier stall, gets nothing.

/// The stall a queue is in, if it is in one.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    ticket: Option<u64>,
    issued: u64,
}

impl Stall {
    /// Begins a stall and returns its ticket.
    pub(crate) fn begin(&mut self) -> u64 {
        self.issued += 1;
        self.ticket = Some(self.issued);
        self.issued
    }

    /// Whether there is one.
    pub(crate) fn is_on(&self) -> bool {
        self.ticket.is_some()
    }

    /// Whether it is the one with this ticket.
    pub(crate) fn is(&self, ticket: u64) -> bool {
        self.ticket == Some(ticket)
    }

    /// Ends the stall with this ticket; `false` if it has ended.
    #[must_use = "only who ended the stall owns the front"]
    pub(crate) fn end(&mut self, ticket: u64) -> bool {
        self.ticket.take_if(|current| *current == ticket).is_some()
    }

    /// Ends the stall there is, whichever.
    #[must_use = "only who ended the stall owns the front"]
    pub(crate) fn end_any(&mut self) -> bool {
        self.ticket.take().is_some()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_ended_once_and_by_its_own_ticket() {
        let mut stall = Stall::default();
        assert!(!stall.end_any() && !stall.end(0));
        let first = stall.begin();
        assert!(stall.end(first));
        assert!(!stall.end(first) && !stall.end_any());
        let second = stall.begin();
        assert!(!stall.end(first), "an earlier ticket ends nothing");
        assert!(stall.end_any());
        assert!(!stall.end(second));
    }
}
