//! What is reported: two places in the program, the bytes they share, and the order that is missing.

use crate::Space;
use piton_driver::{DeviceRange, Operation, Origin};
use piton_timeline::Timepoint;
use std::{fmt, sync::Arc};

/// What is wrong between two places.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hazard {
    /// Both write, in no order.
    WriteWrite,
    /// The first reads what the second writes, in no order.
    ReadWrite,
    /// The first writes what the second reads, in no order.
    WriteRead,
    /// The memory had been given back when the second was submitted; or it had been given back and was handed out
    /// again, and the second is not ordered after that.
    UseAfterFree,
    /// The second is not ordered after the stream that the memory was allocated for.
    UseBeforeAllocation,
    /// The memory was given back, and its last uses as they were told do not cover the first.
    FreeWhileUsed,
}

impl Hazard {
    /// The hazard in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WriteWrite => "two writes in no order",
            Self::ReadWrite => "a read and a write in no order",
            Self::WriteRead => "a write and a read in no order",
            Self::UseAfterFree => "use after free",
            Self::UseBeforeAllocation => "use not ordered after the allocation",
            Self::FreeWhileUsed => "free not ordered after a use",
        }
    }

    /// What would repair it.
    const fn hint(self, are_nodes: bool) -> &'static str {
        match self {
            Self::WriteWrite | Self::ReadWrite | Self::WriteRead if are_nodes => {
                "add an edge to the graph, from the first to the second"
            }
            Self::WriteWrite | Self::ReadWrite | Self::WriteRead => {
                "record an event behind the first and let the second's stream wait for it"
            }
            Self::UseAfterFree => {
                "keep the memory until the second is submitted, or let go of its address"
            }
            Self::UseBeforeAllocation => {
                "let the second's stream wait for the place the first names before it uses the memory"
            }
            Self::FreeWhileUsed => {
                "name the first among the last uses when the memory is given back, or wait for it before"
            }
        }
    }
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What was done to memory.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// A command read it.
    Read(Operation),
    /// A command wrote it, or may have.
    Write(Operation),
    /// It was handed out.
    Allocate,
    /// It was given back.
    Free,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(operation) => write!(f, "{operation}, which reads"),
            Self::Write(operation) => write!(f, "{operation}, which writes"),
            Self::Allocate => f.write_str("allocation of"),
            Self::Free => f.write_str("freeing of"),
        }
    }
}

/// One of the two: who did what, and where in the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// What was done.
    pub action: Action,
    /// The lane and seq of the command; for an allocation the place its lane had reached; `None` where no stream
    /// has a part in it.
    pub point: Option<Timepoint>,
    /// The stream's name.
    pub label: Option<Arc<str>>,
    /// Where in the program. Memory that its owner's drop gave back names where it was allocated: a drop has no
    /// place of its own.
    pub origin: Option<Origin>,
    /// All the bytes it named.
    pub range: DeviceRange,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action, Bytes(self.range))?;
        if let Some(point) = self.point {
            write!(f, ", {} at seq {}", Stream(self), point.seq)?;
        }
        match (self.origin, self.action) {
            (Some(origin), Action::Free) => write!(f, ", of memory allocated at {origin}"),
            (Some(origin), _) => write!(f, ", {origin}"),
            (None, _) => Ok(()),
        }
    }
}

/// Two places in the program that no order ties together and that need one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What is wrong.
    pub kind: Hazard,
    /// Whose memory.
    pub space: Space,
    /// The bytes both name.
    pub overlap: DeviceRange,
    /// The one that was looked at earlier.
    pub first: Site,
    /// The other.
    pub second: Site,
    /// Up to which seq of the first's lane the second *is* ordered; `None` if it has waited for nothing of it.
    pub ordered_up_to: Option<u64>,
    /// How often the same two places met so.
    pub times: u64,
}

impl Report {
    /// Whether `other` is about the same two places of the program and the same streams.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let site = |a: &Site, b: &Site| {
            a.action == b.action
                && a.origin == b.origin
                && a.point.map(|point| point.lane) == b.point.map(|point| point.lane)
        };
        self.kind == other.kind
            && self.space == other.space
            && site(&self.first, &other.first)
            && site(&self.second, &other.second)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            space,
            first,
            second,
            ..
        } = self;
        writeln!(f, "{kind}: {} of {space}", Bytes(self.overlap))?;
        writeln!(f, "  first:  {first}")?;
        writeln!(f, "  second: {second}")?;
        if let (Some(point), Some(_)) = (first.point, second.point) {
            write!(f, "  order:  {} has waited for ", Stream(second))?;
            match self.ordered_up_to {
                Some(seq) => writeln!(f, "{} up to seq {seq}, not {}", Stream(first), point.seq)?,
                None => writeln!(f, "nothing of {}", Stream(first))?,
            }
        }
        let are_nodes = first.point.is_none() && second.point.is_none();
        write!(f, "  hint:   {}", kind.hint(are_nodes))?;
        if self.times > 1 {
            write!(f, " (met {} times)", self.times)?;
        }
        Ok(())
    }
}

/// A range as its first and last-but-one address.
struct Bytes(DeviceRange);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceRange { start, bytes } = self.0;
        write!(f, "{bytes} bytes at {start}")
    }
}

/// A site's stream by name, or by lane if it has none.
struct Stream<'a>(&'a Site);

impl fmt::Display for Stream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.label, self.0.point) {
            (Some(label), _) => write!(f, "stream `{label}`"),
            (None, Some(point)) => write!(f, "{:?}", point.lane),
            (None, None) => f.write_str("the host"),
        }
    }
}
