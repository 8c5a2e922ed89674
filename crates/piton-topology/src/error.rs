//! Everything that can be wrong with a machine, a file or a question, with the numbers that say why.

mod document;

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::{DeviceId, LinkId, NodeId, NumaId};
use crate::pci::PciAddress;

pub use document::{AttributeError, HwlocError, MatrixError};

/// A description of a machine that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// More nodes than a machine may have.
    #[error("more than {limit} nodes")]
    TooManyNodes {
        /// The most a machine may have.
        limit: usize,
    },
    /// More links than a machine may have.
    #[error("more than {limit} links")]
    TooManyLinks {
        /// The most a machine may have.
        limit: usize,
    },
    /// More devices than a machine may have.
    #[error("more than {limit} devices")]
    TooManyDevices {
        /// The most a machine may have.
        limit: usize,
    },
    /// More NUMA nodes than a machine may have.
    #[error("more than {limit} NUMA nodes")]
    TooManyNumaNodes {
        /// The most a machine may have.
        limit: usize,
    },
    /// A link ends at a node that does not exist.
    #[error("{link} ends at {node}, but there are {nodes} nodes")]
    UnknownNode {
        /// The link.
        link: LinkId,
        /// Its end.
        node: NodeId,
        /// How many nodes there are.
        nodes: usize,
    },
    /// A link without lanes.
    #[error("{link} from {a} to {b} has no lanes")]
    NoLanes {
        /// The link.
        link: LinkId,
        /// One end.
        a: NodeId,
        /// The other end.
        b: NodeId,
    },
    /// A link that carries nothing in one direction.
    #[error("{link} from {a} to {b} has rate {up} up and {down} down; both must be above zero")]
    NoBandwidth {
        /// The link.
        link: LinkId,
        /// One end.
        a: NodeId,
        /// The other end.
        b: NodeId,
        /// Bytes a second from `a` to `b`.
        up: u64,
        /// Bytes a second from `b` to `a`.
        down: u64,
    },
    /// Two nodes with one name.
    #[error("{first} and {second} have the same name")]
    DuplicateName {
        /// The node that had it first.
        first: NodeId,
        /// The other.
        second: NodeId,
    },
    /// A name that is empty or longer than a line.
    #[error("the name of {node} has {bytes} bytes; 1 to {limit} are allowed")]
    NameLength {
        /// The node.
        node: NodeId,
        /// Length of its name.
        bytes: usize,
        /// The most a name may have.
        limit: usize,
    },
    /// A name that would disturb the terminal or the page it is printed on.
    #[error("the name of {node} has a control character")]
    NameControl {
        /// The node.
        node: NodeId,
    },
    /// Two nodes at one PCI address.
    #[error("{first} and {second} have the same PCI address")]
    DuplicateAddress {
        /// The node that had it first.
        first: NodeId,
        /// The other.
        second: NodeId,
    },
    /// Two NUMA nodes with one number.
    #[error("{numa} is declared twice")]
    DuplicateNuma {
        /// Its number.
        numa: NumaId,
    },
    /// The list of devices and the nodes' kinds contradict each other.
    #[error("{device} is listed at {listed}, which is not that device")]
    DeviceMismatch {
        /// The device.
        device: DeviceId,
        /// Where it is said to be.
        listed: NodeId,
    },
    /// A device node that the list of devices does not have, or has twice.
    #[error("{listed} devices are listed, {found} nodes are devices")]
    DeviceCount {
        /// Length of the list.
        listed: usize,
        /// Nodes of that kind.
        found: usize,
    },
    /// The list of NUMA nodes and the nodes' kinds contradict each other.
    #[error("{numa} is listed at {listed}, which is not its memory")]
    NumaMismatch {
        /// Its number.
        numa: NumaId,
        /// Where it is said to be.
        listed: NodeId,
    },
    /// A memory node that the list of NUMA nodes does not have.
    #[error("{listed} NUMA nodes are listed, {found} nodes are memory")]
    NumaCount {
        /// Length of the list.
        listed: usize,
        /// Nodes of that kind.
        found: usize,
    },
}

/// Something odd in the input that was corrected while a machine was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Warning {
    /// A link whose ends are the same node was dropped.
    #[error("a link from {node} to itself was dropped")]
    SelfLink {
        /// The node.
        node: NodeId,
    },
    /// A value was absent and a default stands in for it.
    #[error("{node} does not say how fast its PCIe link is; a default stands in")]
    NoLinkSpeed {
        /// The node.
        node: NodeId,
    },
    /// A host bridge does not say which NUMA node it belongs to.
    #[error("{node} does not say its NUMA node; it is joined to all {candidates} it may belong to")]
    NoNumaNode {
        /// The host bridge.
        node: NodeId,
        /// How many NUMA nodes it may belong to.
        candidates: usize,
    },
    /// A switch is in the file several times, with different things below: each is kept.
    #[error("{node} is one of several switches at one PCI address")]
    RepeatedSwitch {
        /// A switch after the first.
        node: NodeId,
    },
    /// A file has a switch and something else at one PCI address: the first in the file keeps it.
    #[error("{node} is at a PCI address that something else has in the file, and goes without one")]
    SharedAddress {
        /// What has none now.
        node: NodeId,
    },
    /// A tool's matrix says different things about a pair, one for each direction; the first is taken.
    #[error("{a} and {b} are not as far apart in one direction as in the other")]
    Asymmetric {
        /// The one whose row is taken.
        a: NodeId,
        /// The other.
        b: NodeId,
    },
    /// A tool's matrix was cut off before this row; what other rows say of it stands in.
    #[error("the row of {node} is not in the matrix")]
    NoRow {
        /// The node.
        node: NodeId,
    },
    /// No tree of switches gives a pair the distance that a tool's matrix states.
    #[error("{a} and {b} are not as far apart here as the matrix says")]
    NotAsStated {
        /// One.
        a: NodeId,
        /// The other.
        b: NodeId,
    },
    /// A tool's matrix has something far from every processor it names; a NUMA node stands in.
    #[error("{numa} stands in for the processors near {node}, which the matrix does not name")]
    StandInNuma {
        /// The NUMA node that was made up.
        numa: NumaId,
        /// What is near it.
        node: NodeId,
    },
    /// The machine shows no PCI bus at all (a sandbox).
    #[error(
        "this machine shows no PCI bus: devices, if any, are joined to the host by unknown links"
    )]
    NoPciBus,
    /// The machine shows no NUMA nodes; one stands in.
    #[error("this machine shows no NUMA nodes: one stands in for the host")]
    NoNumaNodes,
}

/// A captured machine that cannot be read back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// More text than a machine can need.
    #[error("{bytes} bytes of JSON; a machine has at most {limit}")]
    TooLarge {
        /// Length of the text.
        bytes: usize,
        /// The most that is read.
        limit: usize,
    },
    /// Not JSON, or not this shape.
    #[error("not a captured machine: {0}")]
    Json(#[source] serde_json::Error),
    /// A format from the future.
    #[error("format version {found}; this program reads version {supported}")]
    Version {
        /// The file's version.
        found: u32,
        /// The version understood.
        supported: u32,
    },
    /// Well formed, but not a valid machine.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// A NCCL topology file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NcclError {
    /// More text than a machine can need.
    #[error("{bytes} bytes of XML; a topology file has at most {limit}")]
    TooLarge {
        /// Length of the text.
        bytes: usize,
        /// The most that is read.
        limit: usize,
    },
    /// Not XML, or with a document type, which is refused.
    #[error("not XML: {0}")]
    Xml(#[source] roxmltree::Error),
    /// The outermost element is not `system`.
    #[error("line {line}: the outermost element is not <system>")]
    NoSystem {
        /// Where it is.
        line: u32,
    },
    /// An attribute is not as it should be.
    #[error(transparent)]
    Attribute(#[from] AttributeError),
    /// A format that is not known.
    #[error("line {line}: version {found}; this program reads versions 1 and 2")]
    Version {
        /// Where it is said.
        line: u32,
        /// The file's version.
        found: u32,
    },
    /// A function outside of any processor.
    #[error("line {line}: <{element}> is not inside <cpu>")]
    OutsideCpu {
        /// Where the element is.
        line: u32,
        /// Its name.
        element: &'static str,
    },
    /// A fabric link to a device that the file does not have.
    #[error("line {line}: <{element}> ends at {target}, which is not in the file")]
    UnknownTarget {
        /// Where the element is.
        line: u32,
        /// Its name.
        element: &'static str,
        /// Where it ends.
        target: PciAddress,
    },
    /// The facts were read and make no machine.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// What was expected of a file of sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Field {
    /// A hexadecimal number of 16 or 24 bits.
    Hex,
    /// A decimal number.
    Number,
    /// A processor list or mask.
    Cpus,
}

impl core::fmt::Display for Field {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Hex => "a hexadecimal number",
            Self::Number => "a decimal number",
            Self::Cpus => "a processor list",
        })
    }
}

/// A sysfs tree that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The file is there and cannot be read. An absent file is no error.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file does not hold what its name promises.
    #[error("{}:1: expected {expected}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What should have been there.
        expected: Field,
    },
    /// A folder with more entries than any machine has.
    #[error("{}: more than {limit} entries", path.display())]
    TooManyEntries {
        /// The folder.
        path: PathBuf,
        /// The most that are read.
        limit: usize,
    },
    /// The facts were read and make no machine.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Why a question about routes has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// No such device.
    #[error("{device} does not exist; the machine has {devices} devices")]
    UnknownDevice {
        /// The device asked about.
        device: DeviceId,
        /// How many there are.
        devices: usize,
    },
    /// Nothing joins the two, not even host memory.
    #[error("no route from {from} to {to}: no usable peer path and no host memory both can reach")]
    NoRoute {
        /// Source.
        from: DeviceId,
        /// Destination.
        to: DeviceId,
    },
}
