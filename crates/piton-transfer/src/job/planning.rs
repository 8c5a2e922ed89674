//! What is done next of a copy: which ways what is left takes, or for whom it waits.

use super::Job;
use crate::{
    TransferError,
    book::{Claim, Ticket},
    config::Compared,
    incident::Reason,
    plans::{Plan, place},
    sample::PIECE_BYTES,
    way::{Leg, Share, Way},
};
use piton_driver::{DeviceId, ErrorKind};
use std::{collections::BTreeSet, ops::Range};

/// How often a copy is planned at most. Each round gives up a leg for good or for this copy, so that more would be needed
/// only by a machine that comes apart.
const MAX_ROUNDS: u32 = 16;

/// What is to be done next.
pub(super) enum Planned {
    /// A round carries this, and that is left for later ones.
    Goes(Vec<Share>, Vec<Range<u64>>),
    /// These rounds are in the way.
    Waits(BTreeSet<Ticket>),
}

/// With everything compared, bytes of a round at most: each is read back from both ends.
const MOST_COMPARED: u64 = 16 << 20;

impl Job {
    /// Which ways what is left takes, and what is not to be carried yet. Never over a device in error.
    pub(super) fn shares(&mut self) -> Result<Planned, TransferError> {
        loop {
            self.rounds += 1;
            if self.rounds > MAX_ROUNDS {
                return Err(self.given_up());
            }
            let (shares, later) = match self.plan()? {
                Planned::Goes(shares, later) => (shares, later),
                waits => {
                    // To wait is no try.
                    self.rounds -= 1;
                    return Ok(waits);
                }
            };
            let broken = shares.iter().find_map(|share| self.broken(&share.way));
            let Some((stop, legs, kind)) = broken else {
                return Ok(Planned::Goes(shares, later));
            };
            self.give_back();
            for leg in legs {
                self.engine.plans.give_up(leg, Reason::Failed(kind));
            }
            self.engine.plans.give_up_device(stop);
        }
    }

    fn plan(&mut self) -> Result<Planned, TransferError> {
        let (Some(from), Some(to)) = (place(self.src.device), place(self.dst.device)) else {
            return Err(self.given_up());
        };
        let (plans, avoid) = (&self.engine.plans, &self.avoid);
        let ends = (self.src.device, self.dst.device);
        let is_beside_host = !self.has_host_failed;
        let is_open = |way: &Way, is_beside: bool| {
            let legs = way.legs(ends.0, ends.1);
            let is_avoided = legs.iter().any(|leg| avoid.contains(leg));
            !is_avoided && (is_beside_host || !is_beside || !way.stops_in_the_host())
        };
        // What failed of a round is a piece of its own; one piece goes at a time.
        let Some((range, others)) = self.left.split_first() else {
            return Ok(Planned::Goes(Vec::new(), Vec::new()));
        };
        let most = match self.engine.config.compared {
            // A lane reads the pieces of a part with half of its commands.
            Compared::Everything => {
                let pieces = self.engine.ends.least_commands() / 2;
                MOST_COMPARED.min(PIECE_BYTES * u64::from(pieces.max(1)))
            }
            Compared::Nothing | Compared::Places(_) => u64::MAX,
        };
        let bytes = (range.end - range.start).min(most);
        let installment = self.engine.config.installment;
        let claim = Claim {
            class: self.age.class,
            weight: self.weight,
            start: self.start.clone(),
        };
        let plan = plans.several((from, to), bytes, installment, &claim, is_open)?;
        let (mut shares, first) = match plan {
            Plan::Goes(shares, first, ticket) => {
                self.ticket = Some(ticket);
                (shares, first)
            }
            Plan::Waits(behind) => return Ok(Planned::Waits(behind)),
        };
        for share in &mut shares {
            share.offset += range.start;
        }
        let rest = range.start + first..range.end;
        let rest = std::iter::once(rest).filter(|rest| !rest.is_empty());
        let later = rest.chain(others.iter().cloned()).collect();
        Ok(Planned::Goes(shares, later))
    }

    /// A device in error on a way, the legs that lead to it or from it, and the error; the copy's own devices apart.
    fn broken(&self, way: &Way) -> Option<(DeviceId, Vec<Leg>, ErrorKind)> {
        let mut status = way.relays().map(|stop| (stop, self.engine.ends.get(stop)));
        status.find_map(|(stop, end)| {
            let kind = end.ok()?.device.status().err()?.kind;
            let legs = way.legs(self.src.device, self.dst.device).into_iter();
            let touches = |leg: &Leg| leg.from == Some(stop) || leg.to == Some(stop);
            Some((stop, legs.filter(touches).collect(), kind))
        })
    }

    pub(super) fn untrusted(&self, shares: &[Share]) -> Vec<Leg> {
        let legs = shares
            .iter()
            .flat_map(|share| share.way.legs(self.src.device, self.dst.device));
        let mut untrusted: Vec<Leg> = legs
            .filter(|leg| !self.engine.plans.is_trusted(*leg))
            .collect();
        untrusted.sort_unstable();
        untrusted.dedup();
        untrusted
    }
}
