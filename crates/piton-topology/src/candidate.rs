//! Why a route was chosen, and why each other was not: one sentence with numbers.

use core::fmt;

use serde::Serialize;

use crate::id::DeviceId;
use crate::quantity::Nanos;
use crate::route::{Route, RouteKind};

/// A kind of route that was looked for and not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missing {
    /// A path over the links of a device fabric.
    Fabric,
    /// A path over the host's buses.
    HostBus,
    /// Host memory that both devices reach.
    HostMemory,
}

/// The verdict on a route that was considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// The copy takes this one.
    Chosen {
        /// How long the copy takes.
        time: Nanos,
    },
    /// Another route is quicker.
    Slower {
        /// How long the copy would take.
        time: Nanos,
        /// How much longer than on the route chosen.
        later_by: Nanos,
    },
    /// The driver does not let the devices access each other's memory.
    NoPeerAccess {
        /// How long the copy would take if it did.
        time: Nanos,
    },
}

/// A route that was considered for a copy, or one that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Candidate<'r> {
    /// A route that exists.
    Route {
        /// Source of the copy.
        from: DeviceId,
        /// Destination of the copy.
        to: DeviceId,
        /// Bytes to copy.
        bytes: u64,
        /// The route.
        route: &'r Route,
        /// What became of it.
        verdict: Verdict,
    },
    /// A kind of route the machine does not have between these two.
    Missing {
        /// Source of the copy.
        from: DeviceId,
        /// Destination of the copy.
        to: DeviceId,
        /// What there is none of.
        what: Missing,
    },
}

impl Candidate<'_> {
    /// The kind of the route, if there is one.
    #[must_use]
    pub const fn kind(&self) -> Option<RouteKind> {
        match self {
            Self::Route { route, .. } => Some(route.kind),
            Self::Missing { .. } => None,
        }
    }

    /// Whether the copy takes this route.
    #[must_use]
    pub const fn is_chosen(&self) -> bool {
        matches!(
            self,
            Self::Route {
                verdict: Verdict::Chosen { .. },
                ..
            }
        )
    }
}

impl fmt::Display for Candidate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Route {
                from,
                to,
                bytes,
                route,
                verdict,
            } => {
                write!(f, "{from} to {to} {}: ", route.kind)?;
                write_verdict(f, (from, to), bytes, route, verdict)
            }
            Self::Missing { from, to, what } => write_missing(f, from, to, what),
        }
    }
}

fn write_verdict(
    f: &mut fmt::Formatter<'_>,
    (from, to): (DeviceId, DeviceId),
    bytes: u64,
    route: &Route,
    verdict: Verdict,
) -> fmt::Result {
    let rate = route.rate();
    match verdict {
        Verdict::Chosen { time } => {
            write!(f, "chosen, {bytes} bytes in {time} at {rate}")
        }
        Verdict::Slower { time, later_by } => write!(
            f,
            "refused, {bytes} bytes in {time} at {rate}, {later_by} later than the route chosen"
        ),
        Verdict::NoPeerAccess { time } => write!(
            f,
            "refused, {from} may not access the memory of {to} (it would take {time} at {rate})"
        ),
    }
}

fn write_missing(
    f: &mut fmt::Formatter<'_>,
    from: DeviceId,
    to: DeviceId,
    what: Missing,
) -> fmt::Result {
    let (way, reason) = match what {
        Missing::Fabric => (
            "over the device fabric",
            "no link and no link switch joins them",
        ),
        Missing::HostBus => ("over the host's buses", "no PCIe path joins them"),
        Missing::HostMemory => ("through host memory", "no NUMA node is reached by both"),
    };
    write!(f, "{from} to {to} {way}: refused, {reason}")
}
