//! Why a part of a copy has not arrived, and what is given up for it.

use super::Job;
use crate::{incident::Reason, part::Part, probe::is_inherited, way::Leg};
use piton_driver::{DeviceId, ErrorKind};

/// Why a part has not arrived.
enum Blame {
    /// A leg; other ways may do.
    Leg(Leg, Reason),
    /// A leg refused to take part of it, which says nothing of others.
    Refused(Leg),
    /// Whatever way is taken.
    Hopeless,
}

impl Job {
    /// Finds out why a part has not arrived; says whether another way may do.
    pub(super) fn blame(&mut self, part: &Part) -> bool {
        let blame = self.find_blame(part);
        if let Blame::Leg(leg, _) | Blame::Refused(leg) = &blame {
            self.has_host_failed |= leg.pair().is_none();
        }
        match blame {
            Blame::Leg(leg, reason) => self.engine.plans.give_up(leg, reason),
            // Host memory is what is left where nothing else works: it is tried again.
            Blame::Refused(leg) if leg.pair().is_some() => self.avoid.push(leg),
            Blame::Refused(_) => {}
            Blame::Hopeless => return false,
        }
        true
    }

    fn find_blame(&self, part: &Part) -> Blame {
        let own = [self.src.device, self.dst.device];
        let is_lost = |device: &DeviceId| {
            let end = self.engine.ends.get(*device);
            end.is_ok_and(|end| end.device.status().is_err())
        };
        if own.iter().any(is_lost) {
            return Blame::Hopeless;
        }
        for carrier in &part.carriers {
            let Some(failure) = carrier.lane.failure() else {
                continue;
            };
            if carrier.is_overdue() {
                let predicted_ns = part.share.predicted_ns;
                let deadline_ns = self.engine.deadline_ns(predicted_ns);
                let reason = Reason::Overdue {
                    predicted_ns,
                    deadline_ns,
                };
                return Blame::Leg(carrier.leg, reason);
            }
            let kind = failure.error.kind;
            if is_own_fault(kind) {
                return Blame::Hopeless;
            }
            if !is_inherited(kind) {
                return Blame::Leg(carrier.leg, Reason::Failed(kind));
            }
        }
        if let Some((leg, _)) = &part.refused {
            return Blame::Refused(*leg);
        }
        let legs = part.share.way.legs(self.src.device, self.dst.device);
        // Which of several legs did it nobody knows: one at a time is given up until all is well.
        let between = legs.iter().find(|leg| leg.pair().is_some());
        match (part.changed(), between.or(legs.first())) {
            (Some((wrong, bytes)), Some(leg)) => Blame::Leg(*leg, Reason::Changed { wrong, bytes }),
            // What the program's stream did before has failed.
            _ => Blame::Hopeless,
        }
    }
}

/// Whether it failed for what was asked and not for the way it took.
fn is_own_fault(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnknownAddress { .. }
            | ErrorKind::InvalidSize { .. }
            | ErrorKind::Misaligned { .. }
            | ErrorKind::AlreadyMapped { .. }
    )
}
