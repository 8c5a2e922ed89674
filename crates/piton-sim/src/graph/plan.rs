//! What a replay runs: checked nodes in one list, cut into levels, with one block of arguments.
//!
//! # Invariants
//! 1. Nodes are in the order of the description, a body's right behind the node it belongs to. `level` of a node
//!    with a body names the list of that body; level 0 is the graph itself.
//! 2. `successors` of a node are of its own level; `unmet` counts the nodes it comes after.
//! 3. A launch's `room` lies within `arguments`, is nobody else's, and holds its packed arguments, then its extents;
//!    `filled` of it are in use.

use super::run::Spare;
use crate::{check, command::HostRange, device::SimDevice, kernel::SimKernel};
use piton_driver::{
    DevicePtr, DeviceRange, DriverError, ErrorKind, FillPattern, GraphDescription, GraphNode,
    GraphRefusal, Grid, Launch, NodeWork, Operation, Origin, PeerAddress, RepeatedHostFunction,
};
use std::{any::Any, fmt, ops::Range, sync::Arc};

/// Each launch's arguments start at a multiple of this, as in a queue's parameter ring.
const ARGUMENT_ALIGNMENT: usize = 64;

/// What a node does, checked.
#[derive(Clone)]
pub(crate) enum Work {
    Empty,
    Launch {
        kernel: Arc<SimKernel>,
        grid: Grid,
        arguments: Packed,
    },
    CopyToDevice {
        dst: DeviceRange,
        src: HostRange,
    },
    CopyToHost {
        dst: HostRange,
        src: DeviceRange,
    },
    CopyOnDevice {
        dst: DeviceRange,
        src: DeviceRange,
    },
    CopyPeer {
        dst: PeerAddress,
        src: PeerAddress,
        bytes: u64,
    },
    Fill {
        dst: DeviceRange,
        pattern: FillPattern,
    },
    CallHost(RepeatedHostFunction),
    If {
        condition: DeviceRange,
    },
    While {
        condition: DeviceRange,
    },
}

/// Where a launch's arguments are.
#[derive(Clone)]
pub(crate) enum Packed {
    /// On their way into a plan.
    Loose(Box<[u8]>),
    /// In a plan's block.
    Placed { room: Range<usize>, filled: usize },
}

impl Work {
    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Launch { .. } => Operation::Launch,
            Self::CopyToDevice { .. } => Operation::CopyToDevice,
            Self::CopyToHost { .. } => Operation::CopyToHost,
            Self::CopyOnDevice { .. } => Operation::CopyOnDevice,
            Self::CopyPeer { .. } => Operation::CopyPeer,
            Self::Fill { .. } => Operation::Fill,
            Self::CallHost(_) => Operation::CallHost,
            Self::Empty | Self::If { .. } | Self::While { .. } => Operation::RunGraph,
        }
    }

    /// Bytes it moves or fills.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::CopyToDevice { dst: range, .. }
            | Self::CopyToHost { src: range, .. }
            | Self::CopyOnDevice { src: range, .. }
            | Self::Fill { dst: range, .. } => range.bytes,
            Self::CopyPeer { bytes, .. } => *bytes,
            _ => 0,
        }
    }
}

/// What of a node never changes.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) origin: Origin,
    pub(crate) successors: Vec<u32>,
    pub(crate) unmet: u32,
    pub(crate) level: Option<u32>,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) shapes: Arc<[Shape]>,
    /// The nodes of each level.
    pub(crate) levels: Arc<[Vec<u32>]>,
    pub(crate) works: Vec<Work>,
    arguments: Vec<u8>,
    kept: Arc<[Arc<dyn Any + Send + Sync>]>,
    /// Shared by what updates make of the plan: their nodes are as many.
    pub(super) spare: Arc<Spare>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("nodes", &self.works.len())
            .field("levels", &self.levels.len())
            .field("argument_bytes", &self.arguments.len())
            .field("kept", &self.kept.len())
            .finish()
    }
}

impl Plan {
    pub(crate) fn of(device: &SimDevice, graph: GraphDescription) -> Result<Self, GraphRefusal> {
        let mut maker = Maker {
            device,
            shapes: Vec::new(),
            levels: Vec::new(),
            works: Vec::new(),
            arguments: Vec::new(),
        };
        maker.level(&graph.nodes)?;
        Ok(Self {
            shapes: maker.shapes.into(),
            levels: maker.levels.into(),
            works: maker.works,
            arguments: maker.arguments,
            kept: graph.kept.into(),
            spare: Arc::default(),
        })
    }

    pub(crate) fn node_count(&self) -> u32 {
        u32::try_from(self.works.len()).unwrap_or(u32::MAX)
    }

    /// The packed arguments, and behind them the extents, of a launch of this plan.
    pub(crate) fn arguments<'a>(&'a self, arguments: &'a Packed) -> &'a [u8] {
        match arguments {
            Packed::Loose(bytes) => bytes,
            Packed::Placed { room, filled } => {
                let held = self.arguments.get(room.clone());
                held.and_then(|held| held.get(..*filled))
                    .unwrap_or_default()
            }
        }
    }

    /// Gives a node other parameters; on a refusal nothing has changed.
    pub(crate) fn replace(&mut self, node: u32, mut work: Work) -> Result<(), ErrorKind> {
        let limit = self.works.len() as u64;
        let Some(old) = self.works.get_mut(node as usize) else {
            let index = u64::from(node);
            return Err(ErrorKind::InvalidIndex { index, limit });
        };
        if std::mem::discriminant(old) != std::mem::discriminant(&work) {
            return Err(ErrorKind::OtherNode { node });
        }
        if let (
            Work::Launch {
                kernel: former,
                arguments: place,
                ..
            },
            Work::Launch {
                kernel, arguments, ..
            },
        ) = (&*old, &mut work)
        {
            if former.definition.signature() != kernel.definition.signature() {
                return Err(ErrorKind::OtherNode { node });
            }
            let placed = overwrite(&mut self.arguments, place, arguments);
            *arguments = placed.ok_or(ErrorKind::OtherNode { node })?;
        }
        *old = work;
        Ok(())
    }
}

/// Puts loose arguments where those of the same signature are.
fn overwrite(block: &mut [u8], place: &Packed, loose: &Packed) -> Option<Packed> {
    let (Packed::Placed { room, .. }, Packed::Loose(bytes)) = (place, loose) else {
        return None;
    };
    let held = block.get_mut(room.clone())?;
    held.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(Packed::Placed {
        room: room.clone(),
        filled: bytes.len(),
    })
}

/// Checks a node as the submission of such a command is checked.
pub(crate) fn check(device: &SimDevice, work: &NodeWork) -> Result<Work, DriverError> {
    let operation = work.operation();
    let error = |kind| device.error(kind, operation);
    Ok(match work {
        NodeWork::Empty => Work::Empty,
        NodeWork::Launch {
            kernel,
            grid,
            arguments,
            extents,
        } => {
            let launch = Launch {
                kernel,
                grid: *grid,
                arguments,
                extents,
            };
            check_launch(device, &launch)?
        }
        NodeWork::CopyToDevice { dst, src, bytes } => Work::CopyToDevice {
            dst: device.device_range(*dst, *bytes, operation)?,
            src: device.host_range(*src, *bytes, operation)?,
        },
        NodeWork::CopyToHost { dst, src, bytes } => Work::CopyToHost {
            src: device.device_range(*src, *bytes, operation)?,
            dst: device.host_range(*dst, *bytes, operation)?,
        },
        NodeWork::CopyOnDevice { dst, src, bytes } => {
            let (dst, src) = device.check_copy(*dst, *src, *bytes)?;
            Work::CopyOnDevice { dst, src }
        }
        NodeWork::CopyPeer { dst, src, bytes } => {
            let (dst, src, bytes) = (*dst, *src, *bytes);
            device.check_peer_copy(dst, src, bytes).map_err(error)?;
            Work::CopyPeer { dst, src, bytes }
        }
        NodeWork::Fill {
            dst,
            pattern,
            bytes,
        } => Work::Fill {
            dst: device.check_fill(*dst, *pattern, *bytes)?,
            pattern: *pattern,
        },
        NodeWork::CallHost(function) => Work::CallHost(Arc::clone(function)),
        NodeWork::If { condition, .. } => Work::If {
            condition: check_condition(device, *condition)?,
        },
        NodeWork::While { condition, .. } => Work::While {
            condition: check_condition(device, *condition)?,
        },
        _ => return Err(error(ErrorKind::Unsupported)),
    })
}

fn check_launch(device: &SimDevice, launch: &Launch<'_>) -> Result<Work, DriverError> {
    let error = |kind| device.error(kind, Operation::Launch);
    let kernel = device.own_kernel(launch.kernel).map_err(error)?;
    check::launch(&kernel, launch).map_err(error)?;
    let mut packed = launch.arguments.to_vec();
    packed.extend_from_slice(bytemuck::cast_slice(launch.extents));
    Ok(Work::Launch {
        kernel,
        grid: launch.grid,
        arguments: Packed::Loose(packed.into()),
    })
}

fn check_condition(device: &SimDevice, at: DevicePtr) -> Result<DeviceRange, DriverError> {
    if !at.is_aligned_to(4) {
        let (value, alignment) = (at.address(), 4);
        let kind = ErrorKind::Misaligned { value, alignment };
        return Err(device.error(kind, Operation::InstantiateGraph));
    }
    device.device_range(at, 4, Operation::InstantiateGraph)
}

/// A plan being made.
struct Maker<'a> {
    device: &'a SimDevice,
    shapes: Vec<Shape>,
    levels: Vec<Vec<u32>>,
    works: Vec<Work>,
    arguments: Vec<u8>,
}

impl Maker<'_> {
    /// Adds a list of nodes and the bodies in it; returns the level's number.
    fn level(&mut self, nodes: &[GraphNode]) -> Result<u32, GraphRefusal> {
        let level = self.levels.len();
        self.levels.push(Vec::with_capacity(nodes.len()));
        let mut numbers = Vec::with_capacity(nodes.len());
        for node in nodes {
            let number = self.node(node, &numbers)?;
            numbers.push(number);
        }
        self.levels[level] = numbers;
        Ok(u32::try_from(level).unwrap_or(u32::MAX))
    }

    /// Adds a node behind those of its level so far; returns its number.
    fn node(&mut self, node: &GraphNode, earlier: &[u32]) -> Result<u32, GraphRefusal> {
        let number = u32::try_from(self.works.len()).unwrap_or(u32::MAX);
        let refuse = |error| GraphRefusal {
            node: number,
            error,
        };
        let work = check(self.device, &node.work).map_err(refuse)?;
        let mut after = node.after.clone();
        after.sort_unstable();
        after.dedup();
        for index in &after {
            let Some(before) = earlier.get(*index as usize) else {
                let (index, limit) = (u64::from(*index), earlier.len() as u64);
                let kind = ErrorKind::InvalidIndex { index, limit };
                let error = self.device.error(kind, Operation::InstantiateGraph);
                return Err(refuse(error));
            };
            self.shapes[*before as usize].successors.push(number);
        }
        let work = self.place(work);
        self.works.push(work);
        self.shapes.push(Shape {
            origin: node.origin,
            successors: Vec::new(),
            unmet: u32::try_from(after.len()).unwrap_or(u32::MAX),
            level: None,
        });
        if let Some(body) = node.work.body() {
            let level = self.level(body)?;
            self.shapes[number as usize].level = Some(level);
        }
        Ok(number)
    }

    /// Puts a launch's arguments into the block, with room for its extents whether it names them now or not.
    fn place(&mut self, mut work: Work) -> Work {
        if let Work::Launch {
            kernel, arguments, ..
        } = &mut work
            && let Packed::Loose(bytes) = arguments
        {
            let signature = kernel.definition.signature();
            let packed = usize::try_from(signature.packed_bytes()).unwrap_or(bytes.len());
            let start = self.arguments.len().next_multiple_of(ARGUMENT_ALIGNMENT);
            let end = start + packed + 8 * signature.buffers();
            self.arguments.resize(end, 0);
            let filled = bytes.len();
            // INVARIANT: (3) fresh room, as long as arguments and all extents can be.
            self.arguments[start..start + filled].copy_from_slice(bytes);
            *arguments = Packed::Placed {
                room: start..end,
                filled,
            };
        }
        work
    }
}
