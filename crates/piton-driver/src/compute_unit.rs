//! A device's cores: how many of which kind, and sets of them that a queue may be limited to.

/// What a core is made for.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComputeUnitKind {
    /// Anything: a CUDA multiprocessor, an OpenCL compute unit.
    General,
    /// Matrix products: the cube cores of an Ascend device.
    Matrix,
    /// Vectors: the vector cores of an Ascend device.
    Vector,
}

/// A set of a device's cores; bit `i` of the word is core `i`, up to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ComputeUnitSet(pub u64);

impl ComputeUnitSet {
    /// How many cores are in it.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

/// The cores of a device. A queue is limited to some of them by [`crate::QueueOptions::compute_units`].
pub trait ComputeUnits: Send + Sync {
    /// How many cores of each kind there are.
    fn counts(&self) -> &[(ComputeUnitKind, u32)];

    /// The set of all of them.
    fn all(&self) -> ComputeUnitSet;
}
