//! A model of the machine: devices, links, distances and routes.
//!
//! ```
//! use piton_topology::{DeviceId, LinkKind, Machine, PeerAccess, RouteKind, Router};
//!
//! // Four devices in pairs. Two links join each pair; the pairs meet at the host.
//! let machine = Machine::linked_pairs(4, LinkKind::Hccs, 2)?;
//! let router = Router::new(&machine, &PeerAccess::all());
//! let [a, b, c] = [0, 1, 2].map(DeviceId::new);
//!
//! let near = router.route(a, b, 1 << 20)?; // for a copy of 1 MiB
//! assert_eq!(near.kind, RouteKind::Direct);
//! let far = router.route(a, c, 1 << 20)?;
//! assert_eq!(far.kind, RouteKind::HostBridge);
//! assert!(router.duration(near, 1 << 20) < router.duration(far, 1 << 20));
//! // Each route that was considered, with the reason why it was taken or not.
//! for candidate in router.candidates(a, c, 1 << 20)? {
//!     println!("{candidate}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Problem
//! A copy between two devices can take very different routes: a fast link between the two, a switch they share, the
//! host bridge, or a stop in host memory. Which is best depends on how the machine is wired, on what the driver
//! permits, and on the size of the copy. This crate knows the first, is told the second, and answers for the third,
//! each time with its reason.
//!
//! # Idea
//! There is one graph. Devices, switches, host bridges and the memory of NUMA nodes are nodes. Each link has a rate in
//! each direction (bytes per second) and a latency (nanoseconds). All numbers are integers, so the same machine gives
//! the same answer everywhere. What vendors call `PIX`, `NODE` or `NV4` is read off the nearest path. A route is a
//! path with its bottleneck and latency; the time of a copy is launch, latency, and bytes over the bottleneck.
//!
//! # Guarantees
//! - The crate is pure: apart from [`Machine::from_sysfs`] it touches nothing outside its arguments, never blocks, and
//!   never copies a byte itself.
//! - Malformed input is a typed error or a [`Warning`], never a panic.
//!
//! | I want to … | look at |
//! |---|---|
//! | read this machine, or a captured sysfs tree | [`Machine::from_sysfs`], [`sysfs`] |
//! | read a NCCL or RCCL topology file | [`Machine::from_nccl_xml`] |
//! | read an hwloc XML file | [`Machine::from_hwloc_xml`] |
//! | read what a vendor's tool prints | [`Machine::from_tool_matrix`], [`ToolMatrix`] |
//! | write a machine down and read it elsewhere | [`Machine::to_json`], [`Machine::from_json`], [`Machine::to_nccl_xml`] |
//! | put together what several of these say | [`Partial`], [`merge`] |
//! | build one by hand or from a number | [`MachineBuilder`], [`Machine::mesh`] and its neighbours |
//! | know how far apart devices are | [`Machine::distances`], [`Machine::relations`], [`matrix_text`] |
//! | know what lies between them | [`Machine::nearest_paths`], [`Machine::bandwidths`], [`Machine::latencies`] |
//! | know where such a value comes from | [`Machine::valued_bandwidths`], [`Machine::valued_latencies`], [`Machine::valued_numa_affinity`] |
//! | put measured values in place of modelled ones | [`Calibration`], [`Machine::calibrated`] |
//! | know which memory is near a device | [`Machine::numa_affinity`], [`Machine::nearest_numa`] |
//! | choose a route, and hear why | [`Router::route`], [`Router::candidates`] |
//! | split a large copy over several routes | [`StripePlanner`], [`Residual`] |
//! | see it | [`svg`] |
//!
//! # Not here
//! Carrying copies out (`piton-transfer`), and what copies that share links make of each other (`piton-fluid`).

#![forbid(unsafe_code)]

mod adjacency;
mod affinity;
mod builder;
mod calibration;
mod candidate;
mod capture;
mod command_ways;
mod cpu_list;
pub mod defaults;
mod distance;
mod drawing;
mod error;
mod hwloc;
mod id;
mod link;
mod machine;
mod matrix;
mod matrix_text;
mod nccl;
mod nearest;
mod node;
mod partial;
mod path;
mod pci;
mod peer;
mod preset;
mod quantity;
mod relay;
mod route;
mod router;
mod search;
mod staging;
mod stripe;
pub mod sysfs;
mod tool_matrix;
mod valued;
mod warning_text;
mod xml;

pub use builder::{
    MAX_DEVICES, MAX_LINKS, MAX_NAME_BYTES, MAX_NODES, MAX_NUMA_NODES, MachineBuilder,
};
pub use calibration::{Calibration, Compared, Measured};
pub use candidate::{Candidate, Missing, Verdict};
pub use capture::MAX_CAPTURE_BYTES;
pub use command_ways::CommandWays;
pub use cpu_list::{CpuList, CpuListError, MAX_CPU};
pub use distance::{Distance, Relation};
pub use drawing::{Highlight, svg};
pub use error::{
    AttributeError, BuildError, CaptureError, Field, HwlocError, MatrixError, NcclError,
    ProbeError, RouteError, Warning,
};
pub use hwloc::MAX_HWLOC_BYTES;
pub use id::{DeviceId, LinkId, NodeId, NumaId};
pub use link::{Link, LinkKind, NvLinkVersion, PcieGeneration, Provenance, XgmiVersion};
pub use machine::Machine;
pub use matrix::Matrix;
pub use matrix_text::matrix_text;
pub use nccl::{MAX_NCCL_BYTES, NcclRates};
pub use nearest::NearestPath;
pub use node::{Node, NodeKind, NumaNode};
pub use partial::{
    FabricEnd, FabricFact, MergeError, Merged, MergedField, Note, NumberedDevice, Origin, Partial,
    merge,
};
pub use path::Transit;
pub use pci::{PciAddress, PciAddressError, PciIdentity};
pub use peer::PeerAccess;
pub use quantity::{BytesPerSec, Nanos};
pub use route::{CostModel, Route, RouteKind};
pub use router::Router;
pub use stripe::{
    CopyEngines, Residual, SharedPlan, Stop, Stripe, StripeOptions, StripePlan, StripePlanner,
};
pub use tool_matrix::{MAX_MATRIX_BYTES, ToolEndpoint, ToolMatrix};
pub use valued::Valued;
pub use warning_text::warning_lines;
