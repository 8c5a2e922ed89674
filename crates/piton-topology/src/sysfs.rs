//! Reads a machine from sysfs: this one's, or a tree captured on another.
//!
//! Reading and understanding are apart. [`SysfsTree::read`] touches files and keeps what they say,
//! absent ones as `None`; [`SysfsTree::machine`] is a pure function of that. The root is a parameter
//! (`/`, or the folder a capture was unpacked in), so tests need no mocks.
//!
//! Only what lies above computing devices and network controllers is kept. What sysfs cannot say
//! (device fabrics, permission for peer access) is for drivers to add.

mod assemble;
mod attribute;
mod bridges;
mod config_space;
mod probe;

use std::path::Path;

use crate::cpu_list::CpuList;
use crate::error::{BuildError, ProbeError};
use crate::id::NumaId;
use crate::machine::Machine;
use crate::pci::{PciAddress, PciIdentity};

/// What the files of a PCI function say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// Where it is.
    pub address: PciAddress,
    /// Who made it, zeros if no file says so, and what it is; `None` if that file is missing.
    pub identity: Option<PciIdentity>,
    /// The functions above it by its real path, nearest first; `None` if its folder is no link, as in
    /// captures that copied folders.
    pub ancestors: Option<Vec<PciAddress>>,
    /// For a bridge, the first and last bus below it.
    pub buses: Option<(u8, u8)>,
    /// For a PCIe bridge, which kind of port it is; needs a readable configuration space.
    pub port: Option<PortType>,
    /// The NUMA node it says it belongs to; `None` for -1 or no file.
    pub numa: Option<NumaId>,
    /// Processors near it.
    pub local_cpus: Option<CpuList>,
    /// The link as it runs now; devices slow it down when idle.
    pub current: LinkStatus,
    /// The fastest the function itself can do.
    pub max: LinkStatus,
    /// Names the kernel gave it as a network or InfiniBand device, InfiniBand first.
    pub names: Vec<String>,
}

impl PciFunction {
    /// A function of which nothing is known but where it is.
    #[must_use]
    pub fn unknown(address: PciAddress) -> Self {
        Self {
            address,
            identity: None,
            ancestors: None,
            buses: None,
            port: None,
            numa: None,
            local_cpus: None,
            current: LinkStatus::default(),
            max: LinkStatus::default(),
            names: Vec::new(),
        }
    }
}

/// The first domain of root buses that stand for host bridges whose bus nobody says; no real machine has so many.
const STAND_IN_DOMAIN: u32 = 0xffff_0000;

/// What stands for the host bridge with this number at the end of a function's [`ancestors`](PciFunction::ancestors).
pub(crate) fn stand_in_root(number: u16) -> Option<PciAddress> {
    PciAddress::new(STAND_IN_DOMAIN + u32::from(number), 0, 0, 0)
}

/// What a host bridge is called.
fn root_name((domain, bus): (u32, u8)) -> String {
    match domain.checked_sub(STAND_IN_DOMAIN) {
        Some(number) => format!("host bridge {number}"),
        None => format!("{domain:04x}:{bus:02x}"),
    }
}

/// Speed and width of a PCIe link, where known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// Megatransfers a second of a lane: 8000 for PCIe 3.
    pub megatransfers: Option<u32>,
    /// Lanes.
    pub width: Option<u8>,
}

/// The kinds of PCIe bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortType {
    /// A port of the host bridge.
    Root,
    /// The port of a switch towards the host.
    Upstream,
    /// A port of a switch away from the host.
    Downstream,
    /// A bridge between PCIe and conventional PCI.
    Bridge,
}

/// What the files of a NUMA node say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaFacts {
    /// The operating system's number.
    pub id: NumaId,
    /// Its processors; empty if it has memory only.
    pub cpus: CpuList,
}

/// What a sysfs tree says, before anything is made of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SysfsTree {
    /// Whether there is a PCI bus at all; sandboxes hide it.
    pub has_pci_bus: bool,
    /// Every PCI function, by address.
    pub functions: Vec<PciFunction>,
    /// Every NUMA node, by number.
    pub numa: Vec<NumaFacts>,
}

impl SysfsTree {
    /// Reads the tree below `root`, which holds `sys`. Blocks while it reads, a few files a function.
    ///
    /// # Errors
    /// [`ProbeError`] with the path: a file that is there and cannot be read or does not hold what its
    /// name promises. A missing file or folder is no error.
    pub fn read(root: &Path) -> Result<Self, ProbeError> {
        probe::read(root)
    }

    /// The listed bridges above a function, nearest first. Empty for an unknown function.
    #[must_use]
    pub fn bridges_above(&self, address: PciAddress) -> Vec<PciAddress> {
        let position = self
            .functions
            .iter()
            .position(|function| function.address == address);
        position.map_or_else(Vec::new, |position| {
            bridges::chain(self, &self.functions[position])
        })
    }

    /// Makes a machine of it.
    ///
    /// # Errors
    /// [`BuildError`] where the facts exceed the limits of a machine.
    pub fn machine(&self) -> Result<Machine, BuildError> {
        assemble::machine(self)
    }
}

impl Machine {
    /// Reads a machine from the sysfs tree below `root`: `/` for this machine. Blocks while it reads.
    ///
    /// # Errors
    /// [`ProbeError`]; a machine that hides its buses is no error, but has a warning.
    pub fn from_sysfs(root: &Path) -> Result<Self, ProbeError> {
        Ok(SysfsTree::read(root)?.machine()?)
    }
}
