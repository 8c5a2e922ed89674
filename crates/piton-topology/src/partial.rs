//! What several sources say of one machine, put together.
//!
//! No source knows everything: sysfs has the PCI bus and no device fabric, a tool's matrix has the fabric and no
//! addresses, a cloud's template corrects a virtual machine's flat bus and leaves most out. So each is read into a
//! [`Partial`], and [`merge`] puts them together by PCI address, field by field: what a person's file says comes before
//! what the driver says, and that before what the operating system says; what nobody says gets a default. Who said what,
//! and whom that overruled, is a [`Note`] a field.
//!
//! Devices that a source knows by number alone are matched in the order of addresses, with the devices of the one vendor
//! that has as many. A way up the bus that names all bridges of a stronger one, and more, says the same in more detail and is
//! taken.
//!
//! # Invariants
//! The order of sources of one origin decides among them alone; merging one source with itself changes nothing.

mod extract;
mod fabric;
mod fields;
mod merge;

use core::fmt;

use crate::cpu_list::CpuList;
use crate::error::{BuildError, HwlocError, MatrixError, NcclError};
use crate::id::NumaId;
use crate::link::LinkKind;
use crate::machine::Machine;
use crate::pci::PciAddress;
use crate::quantity::{BytesPerSec, Nanos};
use crate::sysfs::SysfsTree;
use crate::tool_matrix::ToolMatrix;

pub use merge::{MergeError, Merged, merge};

/// Where a statement comes from; the most trusted origin first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// A file that somebody named: a captured machine, a template, another program's topology.
    File,
    /// The driver, or its vendor's tool.
    Driver,
    /// The operating system.
    System,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "the file",
            Self::Driver => "the driver",
            Self::System => "the operating system",
        })
    }
}

/// What one source says of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Who says it.
    pub origin: Origin,
    /// The PCI bus and the NUMA nodes, as far as it knows them.
    pub tree: SysfsTree,
    /// Devices that it knows by number alone, in order.
    pub numbered: Vec<NumberedDevice>,
    /// Links of the device fabric.
    pub fabric: Vec<FabricFact>,
}

/// What is known of a device that has a number and no address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberedDevice {
    /// The NUMA node near it.
    pub numa: Option<NumaId>,
    /// Processors near it.
    pub cpus: Option<CpuList>,
}

/// One end of a link of the device fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FabricEnd {
    /// The device at an address.
    At(PciAddress),
    /// The device with this number among [`Partial::numbered`].
    Numbered(u16),
    /// The processors of a NUMA node.
    Numa(NumaId),
    /// A switch of the fabric. Within one source, equal numbers mean the same switch.
    LinkSwitch(u16),
}

/// A link of the device fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricFact {
    /// What it joins.
    pub ends: [FabricEnd; 2],
    /// What it is.
    pub kind: LinkKind,
    /// Bonded links.
    pub lanes: u16,
    /// What it carries from the first end to the second and back, where that is more than a default.
    pub rates: Option<[BytesPerSec; 2]>,
    /// Time for the first byte, likewise.
    pub latency: Option<Nanos>,
}

/// Which field of a function a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MergedField {
    /// Vendor, device and class.
    Identity,
    /// The bridges above.
    Place,
    /// The NUMA node.
    Numa,
    /// Speed and width of its PCIe link.
    Link,
    /// Links of the device fabric.
    Fabric,
}

impl fmt::Display for MergedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identity => "identity",
            Self::Place => "place on the bus",
            Self::Numa => "NUMA node",
            Self::Link => "PCIe link",
            Self::Fabric => "fabric links",
        })
    }
}

/// Where a field of a merged machine comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The function.
    pub address: PciAddress,
    /// Which of its fields.
    pub field: MergedField,
    /// The origin of the value that was taken.
    pub origin: Origin,
    /// The first origin that said something else.
    pub overruled: Option<Origin>,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            field,
            origin,
            overruled,
        } = self;
        write!(f, "{address}: {field} as {origin} has it")?;
        match overruled {
            Some(other) if other == origin => f.write_str("; another of that kind says otherwise"),
            Some(other) => write!(f, "; {other} says otherwise"),
            None => Ok(()),
        }
    }
}

impl Partial {
    /// What sysfs says.
    #[must_use]
    pub fn of_sysfs(tree: SysfsTree) -> Self {
        Self {
            origin: Origin::System,
            tree,
            numbered: Vec::new(),
            fabric: Vec::new(),
        }
    }

    /// What an hwloc XML file says.
    ///
    /// # Errors
    /// As [`Machine::from_hwloc_xml`].
    pub fn of_hwloc_xml(text: &str) -> Result<Self, HwlocError> {
        let machine = Machine::from_hwloc_xml(text)?;
        Ok(Self {
            origin: Origin::File,
            tree: SysfsTree::from_hwloc_xml(text)?,
            numbered: Vec::new(),
            fabric: extract::fabric(&machine),
        })
    }

    /// What an NCCL or RCCL topology file says. Functions without class and processors without architecture, which the
    /// library refuses, are taken: templates leave out what sysfs knows.
    ///
    /// # Errors
    /// As [`Machine::from_nccl_xml`], but for what may be missing here.
    pub fn of_nccl_xml(text: &str) -> Result<Self, NcclError> {
        let (tree, fabric) = crate::nccl::facts(text)?;
        Ok(Self {
            origin: Origin::File,
            tree,
            numbered: Vec::new(),
            fabric,
        })
    }

    /// What a vendor's tool printed: the fabric and who is near which processors. What it says of the bus is left out:
    /// without addresses there is nothing to hang it on.
    ///
    /// # Errors
    /// As [`Machine::from_tool_matrix`].
    pub fn of_tool_matrix(text: &str) -> Result<Self, MatrixError> {
        let matrix = ToolMatrix::parse(text)?;
        let devices = matrix.endpoints.iter().filter(|end| !end.is_nic);
        let numbered = devices.map(|end| NumberedDevice {
            numa: end.numa,
            cpus: end.cpus.clone(),
        });
        Ok(Self {
            origin: Origin::Driver,
            tree: SysfsTree::default(),
            numbered: numbered.collect(),
            fabric: extract::fabric(&matrix.machine()?),
        })
    }

    /// What a whole machine says, a captured one for example.
    #[must_use]
    pub fn of_machine(origin: Origin, machine: &Machine) -> Self {
        extract::partial(origin, machine)
    }
}

impl Machine {
    /// The machine that `partials` describe together; see [`merge`] for who said what.
    ///
    /// # Errors
    /// As [`merge`].
    pub fn of_partials(partials: &[Partial]) -> Result<Self, MergeError> {
        Ok(merge(partials)?.machine)
    }

    /// The same machine with `devices` first and in this order, as a driver numbers them; the others follow in theirs.
    /// Devices that do not exist or were named before are passed over.
    ///
    /// # Errors
    /// Never in practice, because a machine that was built can be built again.
    pub fn with_devices_in_order(&self, devices: &[crate::DeviceId]) -> Result<Self, BuildError> {
        let mut order: Vec<crate::DeviceId> = Vec::with_capacity(self.device_count());
        for id in devices.iter().copied().chain(self.device_ids()) {
            if self.device(id).is_some() && !order.contains(&id) {
                order.push(id);
            }
        }
        let mut builder = self.to_builder();
        builder.order_devices(&order);
        builder.build()
    }
}
