//! What went wrong on the way, told so that a person finds the link.

use crate::way::Leg;
use core::fmt;
use piton_driver::{DeviceId, ErrorKind};
use piton_sync::Mutex;
use piton_topology::{LinkId, LinkKind, Machine};
use std::collections::VecDeque;

/// How many incidents are kept; the oldest go first.
pub const KEPT_INCIDENTS: usize = 256;

/// Why a leg is not trusted, or was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A command on it failed.
    Failed(ErrorKind),
    /// It took longer than its deadline. Times are in nanoseconds.
    Overdue {
        /// The time it should have taken.
        predicted_ns: u64,
        /// The most it may take.
        deadline_ns: u64,
    },
    /// A pattern that was sent over it arrived changed.
    Corrupted {
        /// Bytes that were wrong.
        wrong: u64,
        /// Bytes of the pattern.
        bytes: u64,
    },
    /// Bytes of a copy that were compared arrived changed.
    Changed {
        /// Bytes that were wrong.
        wrong: u64,
        /// Bytes that were compared.
        bytes: u64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(kind) => write!(f, "a copy failed: {kind}"),
            Self::Overdue {
                predicted_ns,
                deadline_ns,
            } => write!(
                f,
                "a copy of {predicted_ns} ns had not ended after {deadline_ns} ns"
            ),
            Self::Corrupted { wrong, bytes } => {
                write!(f, "{wrong} of {bytes} bytes of a pattern came wrong")
            }
            Self::Changed { wrong, bytes } => {
                write!(f, "{wrong} of {bytes} bytes looked at came changed")
            }
        }
    }
}

/// A link of the model, with the names of its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLink {
    /// Which.
    pub link: LinkId,
    /// What it is.
    pub kind: LinkKind,
    /// The names of its ends.
    pub ends: [Box<str>; 2],
}

impl NamedLink {
    pub(crate) fn of(machine: &Machine, id: LinkId) -> Option<Self> {
        let link = machine.link(id)?;
        let name = |node| machine.node(node).map_or("", |node| &node.name);
        Some(Self {
            link: id,
            kind: link.kind,
            ends: [name(link.a).into(), name(link.b).into()],
        })
    }
}

impl fmt::Display for NamedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = &self.ends;
        write!(f, "{} {a} - {b}", self.kind)
    }
}

/// Something that went wrong on a leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Where.
    pub leg: Leg,
    /// The links that the model says it crosses.
    pub links: Box<[NamedLink]>,
    /// What.
    pub reason: Reason,
    /// Whether copies avoid the leg from now on, in both directions.
    pub is_quarantined: bool,
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side =
            |device: Option<DeviceId>| device.map_or("the host".to_owned(), |id| id.to_string());
        write!(f, "{} to {}", side(self.leg.from), side(self.leg.to))?;
        for (number, link) in self.links.iter().enumerate() {
            write!(f, "{}{link}", if number == 0 { " over " } else { ", " })?;
        }
        write!(f, ": {}", self.reason)?;
        if self.is_quarantined {
            write!(f, "; no copy takes it any more")?;
        }
        Ok(())
    }
}

/// The last incidents. A leaf lock.
#[derive(Debug, Default)]
pub(crate) struct Incidents(Mutex<VecDeque<Incident>>);

impl Incidents {
    pub(crate) fn add(&self, incident: Incident) {
        let mut kept = self.0.lock();
        if kept.len() == KEPT_INCIDENTS {
            kept.pop_front();
        }
        kept.push_back(incident);
    }

    pub(crate) fn all(&self) -> Vec<Incident> {
        self.0.lock().iter().cloned().collect()
    }
}
