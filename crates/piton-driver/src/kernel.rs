//! Modules, kernels and launches.

#![expect(
    unsafe_code,
    reason = "the contract declares what implementers promise"
)]

use crate::{DeviceId, DriverError, Signature};
use std::{any::Any, fmt::Debug, sync::Arc};

/// What a module is loaded from.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub enum ModuleImage<'a> {
    /// A module registered with the driver by this program, under this name: the simulated device's kernels.
    Registered(&'a str),
    /// Source text in the driver's language: OpenCL C, CUDA C, PTX.
    Source(&'a str),
    /// A binary in the driver's format: cubin, SPIR-V, an Ascend kernel object.
    Binary(&'a [u8]),
}

/// Loading kernels.
///
/// # Safety
/// Safe launches take kernels of [`ModuleImage::Registered`] modules, so implementers promise what nobody else does for those: a
/// kernel of one touches the memory that its arguments declare and nothing else, in the ways that its signature says. For
/// such an image they answer with a module that was registered under the name, by somebody who vouched for its kernels or with
/// kernels that cannot do otherwise, or with an error. What the module and its kernels say of themselves (their device, their
/// signature) is part of the promise, and does not change: both are traits that anybody may implement, and believed for nothing
/// else.
pub unsafe trait Kernels: Send + Sync {
    /// Loads a module. May take long (compilation). Load once and keep it.
    ///
    /// # Errors
    /// [`UnknownModule`](crate::ErrorKind::UnknownModule) if nothing has that name, or the format is not read.
    fn load(&self, image: ModuleImage<'_>) -> Result<Arc<dyn Module>, DriverError>;
}

/// Loaded kernels. Stays loaded while it or one of its kernels is held.
pub trait Module: Any + Send + Sync + Debug {
    /// Finds a kernel by name. Does not block; look up once and keep it.
    ///
    /// # Errors
    /// [`UnknownKernel`](crate::ErrorKind::UnknownKernel).
    fn kernel(&self, name: &str) -> Result<Arc<dyn Kernel>, DriverError>;
}

/// A kernel that is ready to run.
pub trait Kernel: Any + Send + Sync + Debug {
    /// Its name.
    fn name(&self) -> &str;

    /// The device it is loaded on.
    fn device(&self) -> DeviceId;

    /// What it takes.
    fn signature(&self) -> &Signature;
}

/// How many blocks run, in three dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Blocks along x.
    pub x: u32,
    /// Blocks along y.
    pub y: u32,
    /// Blocks along z.
    pub z: u32,
}

impl Grid {
    /// `x` blocks in a row.
    pub const fn linear(x: u32) -> Self {
        Self { x, y: 1, z: 1 }
    }

    /// How many blocks in all, or `None` past `u64::MAX`.
    pub fn blocks(self) -> Option<u64> {
        u64::from(self.x)
            .checked_mul(u64::from(self.y))?
            .checked_mul(u64::from(self.z))
    }
}

/// One launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The kernel.
    pub kernel: &'a Arc<dyn Kernel>,
    /// How many blocks.
    pub grid: Grid,
    /// The arguments, packed as [`Signature`] lays them out. Copied before the call returns.
    pub arguments: &'a [u8],
    /// How many bytes each buffer argument reaches from its address, in the order of the buffers; nothing at
    /// all where the caller does not say. A device that can watch its kernels holds them to it; what a device
    /// that cannot does past the end is the kernel's own guilt.
    pub extents: &'a [u64],
}

impl<'a> Launch<'a> {
    /// A launch that does not say how far its buffers reach.
    pub const fn new(kernel: &'a Arc<dyn Kernel>, grid: Grid, arguments: &'a [u8]) -> Self {
        Self {
            kernel,
            grid,
            arguments,
            extents: &[],
        }
    }
}
