//! A model of the machine: devices, links, distances, routes.
//!
mod adjacency;
mod affinity;
mod builder;
mod candidate;
mod capture;
mod cpu_list;
pub mod defaults;
mod distance;
mod error;
mod id;
mod link;
mod machine;
mod matrix;
mod node;
mod path;
mod pci;
mod peer;
mod preset;
mod quantity;
mod route;
mod router;
mod search;
pub mod sysfs;

pub use builder::{
    MAX_DEVICES, MAX_LINKS, MAX_NAME_BYTES, MAX_NODES, MAX_NUMA_NODES, MachineBuilder,
};
pub use candidate::{Candidate, Missing, Verdict};
pub use capture::MAX_CAPTURE_BYTES;
pub use cpu_list::{CpuList, CpuListError, MAX_CPU};
pub use distance::{Distance, Relation};
pub use error::{BuildError, CaptureError, Field, ProbeError, RouteError, Warning};
pub use id::{DeviceId, LinkId, NodeId, NumaId};
pub use link::{Link, LinkKind, NvLinkVersion, PcieGeneration, Provenance, XgmiVersion};
pub use machine::Machine;
pub use matrix::Matrix;
pub use node::{Node, NodeKind, NumaNode};
pub use path::Transit;
pub use pci::{PciAddress, PciAddressError, PciIdentity};
pub use peer::PeerAccess;
pub use quantity::{BytesPerSec, Nanos};
pub use route::{CostModel, Route, RouteKind};
pub use router::Router;
