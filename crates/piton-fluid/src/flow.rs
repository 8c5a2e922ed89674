//! Flows and the resources they run through.

use core::fmt;

/// Something with a capacity: a direction of a link, a copy engine, a memory bus. A position in the list that
/// the capacities were given in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u32);

impl ResourceId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resource {}", self.0)
    }
}

/// A flow that was begun; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow {}", self.0)
    }
}

/// Who goes first. A class gets nothing that a higher one can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// What somebody waits for.
    High,
    /// Everything else.
    #[default]
    Normal,
    /// What may take for ever.
    Low,
}

impl Class {
    /// The classes, the first to be served first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// The next class up, or the highest.
    #[must_use]
    pub const fn raised(self) -> Self {
        match self {
            Self::High | Self::Normal => Self::High,
            Self::Low => Self::Normal,
        }
    }
}

/// A use that takes of a resource as many bytes as flow.
pub const WHOLE: u32 = 1_000;

/// One resource a flow runs through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Which.
    pub resource: ResourceId,
    /// How much of it a byte takes, in thousandths; at least 1. [`WHOLE`] for a link. 1200 for a host bridge that
    /// pays a fifth more to forward between devices.
    pub thousandths: u32,
}

impl Use {
    /// A use of as many bytes as flow.
    #[must_use]
    pub const fn whole(resource: ResourceId) -> Self {
        Self {
            resource,
            thousandths: WHOLE,
        }
    }
}

/// What is to flow, and through what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The resources. One named twice is used twice.
    pub uses: Box<[Use]>,
    /// How many bytes.
    pub bytes: u64,
    /// Nanoseconds until the first byte flows: launch and latency. Nothing is used meanwhile.
    pub delay: u64,
    /// Who it waits for.
    pub class: Class,
    /// Its share beside others of its class; at least 1.
    pub weight: u32,
}

impl FlowSpec {
    /// A flow of weight 1 and the normal class that begins at once.
    #[must_use]
    pub fn new(uses: impl Into<Box<[Use]>>, bytes: u64) -> Self {
        Self {
            uses: uses.into(),
            bytes,
            delay: 0,
            class: Class::Normal,
            weight: 1,
        }
    }
}
