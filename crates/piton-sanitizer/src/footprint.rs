//! What memory a command touches.
//!
//! Copies and fills name their bytes. A launch names addresses in its packed arguments; how far each reaches is
//! what the caller said with the launch, and where nothing was said, the end of the allocation it points into.
//! A kernel counts as touching all it could reach, the way its signature says: two kernels that write disjoint
//! halves of one buffer through the same extent are taken for a race.

use piton_driver::{Access, Command, DeviceId, DevicePtr, Launch, Parameter};
use smallvec::SmallVec;
use std::fmt;

/// Whose addresses: a device's, or the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// The device's memory.
    Device(DeviceId),
    /// Host memory, page-locked, that devices copy from and to.
    Host,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(device) => device.fmt(f),
            Self::Host => f.write_str("the host"),
        }
    }
}

/// A run of bytes that a command reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Touched {
    /// Whose addresses.
    pub space: Space,
    /// First byte.
    pub start: DevicePtr,
    /// How many; `None` where the command does not say.
    pub bytes: Option<u64>,
    /// What is done to them. [`Access::Write`] may read too.
    pub access: Access,
}

/// All that one command touches; mostly one or two runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint(SmallVec<[Touched; 2]>);

impl Footprint {
    /// What a command of a queue on `device` touches. Commands that only order others touch nothing, the words of
    /// memory waits and writes included: those are there to be raced on.
    pub fn of(command: &Command<'_>, device: DeviceId) -> Self {
        let (here, host) = (Space::Device(device), Space::Host);
        match *command {
            Command::Launch(launch) => Self::of_launch(&launch, device),
            Command::CopyToDevice { dst, src, bytes } => {
                let src = DevicePtr::new(src.addr().get() as u64);
                Self::copy((here, dst), (host, src), bytes)
            }
            Command::CopyToHost { dst, src, bytes } => {
                let dst = DevicePtr::new(dst.addr().get() as u64);
                Self::copy((host, dst), (here, src), bytes)
            }
            Command::CopyOnDevice { dst, src, bytes } => {
                Self::copy((here, dst), (here, src), bytes)
            }
            Command::CopyPeer { dst, src, bytes } => {
                let (to, from) = (Space::Device(dst.device), Space::Device(src.device));
                Self::copy((to, dst.ptr), (from, src.ptr), bytes)
            }
            Command::Fill { dst, bytes, .. } => Self::default().write(here, dst, bytes),
            _ => Self::default(),
        }
    }

    /// The same and `bytes` bytes that are read.
    pub fn read(self, space: Space, start: DevicePtr, bytes: u64) -> Self {
        self.and(space, start, Some(bytes), Access::Read)
    }

    /// The same and `bytes` bytes that are written.
    pub fn write(self, space: Space, start: DevicePtr, bytes: u64) -> Self {
        self.and(space, start, Some(bytes), Access::Write)
    }

    /// The runs.
    pub fn touched(&self) -> &[Touched] {
        &self.0
    }

    fn and(mut self, space: Space, start: DevicePtr, bytes: Option<u64>, access: Access) -> Self {
        self.0.push(Touched {
            space,
            start,
            bytes,
            access,
        });
        self
    }

    fn copy(dst: (Space, DevicePtr), src: (Space, DevicePtr), bytes: u64) -> Self {
        Self::default()
            .read(src.0, src.1, bytes)
            .write(dst.0, dst.1, bytes)
    }

    fn of_launch(launch: &Launch<'_>, device: DeviceId) -> Self {
        let signature = launch.kernel.signature();
        let mut footprint = Self::default();
        let mut buffer = 0;
        for (index, parameter) in signature.parameters().iter().enumerate() {
            let Parameter::Buffer { access, .. } = *parameter else {
                continue;
            };
            let extent = launch.extents.get(buffer).copied();
            buffer += 1;
            // Arguments shorter than the signature are refused by the device, not here.
            if let Some(start) = signature
                .offset(index)
                .and_then(|offset| address_at(launch.arguments, offset))
            {
                footprint = footprint.and(Space::Device(device), start, extent, access);
            }
        }
        footprint
    }
}

/// The device address packed at `offset`.
fn address_at(arguments: &[u8], offset: u64) -> Option<DevicePtr> {
    let rest = arguments.get(usize::try_from(offset).ok()?..)?;
    let bytes = rest.first_chunk::<8>()?;
    Some(DevicePtr::new(u64::from_ne_bytes(*bytes)))
}
