//! Flows and the resources they run through.

use core::fmt;

/// Something with a capacity: a direction of a link, a copy engine, a memory bus. The number is its position in the
/// list of capacities.
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

/// Identifies a flow. Ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow {}", self.0)
    }
}

/// The class of a flow. A class gets only what no higher class can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// What somebody waits for.
    High,
    /// Everything else.
    #[default]
    Normal,
    /// What may take forever.
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

/// The [thousandths](Use::thousandths) of a use that takes as many bytes of a resource as flow.
pub const WHOLE: u32 = 1_000;

/// A resource that a flow runs through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Which.
    pub resource: ResourceId,
    /// How much of the resource a byte takes, in thousandths; at least 1. [`WHOLE`] for a link; 1200 for a host
    /// bridge that pays a fifth more to forward between devices.
    pub thousandths: u32,
}

impl Use {
    /// A use that takes as many bytes of the resource as flow.
    #[must_use]
    pub const fn whole(resource: ResourceId) -> Self {
        Self {
            resource,
            thousandths: WHOLE,
        }
    }
}

/// How many bytes flow, and through which resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The resources. A resource that is named twice is used twice.
    pub uses: Box<[Use]>,
    /// How many bytes.
    pub bytes: u64,
    /// Nanoseconds until the first byte flows: launch and latency. The flow uses nothing until then.
    pub delay: u64,
    /// Its class: which flows it waits for.
    pub class: Class,
    /// Its share relative to other flows of its class; at least 1.
    pub weight: u32,
}

impl FlowSpec {
    /// A flow of weight 1 and [`Class::Normal`] that begins at once.
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
