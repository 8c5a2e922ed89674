//! Makes a machine of a topology file's elements.

use std::collections::{BTreeMap, HashMap};

use roxmltree::Document;

use super::element;
use super::rates::{NcclRates, Processor, Rates};
use crate::builder::MachineBuilder;
use crate::error::{NcclError, Warning};
use crate::id::{NodeId, NumaId};
use crate::link::{Link, LinkKind, NvLinkVersion, PcieGeneration, XgmiVersion};
use crate::machine::Machine;
use crate::pci::{PciAddress, PciIdentity};
use crate::xml::Element;

/// Class of an NVSwitch as the target of a link.
pub(super) const NVSWITCH: u32 = 0x06_8000;
/// Class of a processor with NVLinks (POWER) as the target of a link.
pub(super) const PROCESSOR: u32 = 0x06_8001;

pub(super) fn machine(document: &Document<'_>, whose: NcclRates) -> Result<Machine, NcclError> {
    let (system, found) = system(document)?;
    let rates = Rates {
        whose,
        version: found,
    };
    let mut assembly = Assembly::new(rates);
    for cpu in system.children("cpu") {
        assembly.add_cpu(cpu)?;
    }
    assembly.join_cpus()?;
    assembly.add_fabric()?;
    Ok(assembly.builder.build()?)
}

/// The outermost element, and the format's version.
pub(super) fn system<'d>(document: &'d Document<'_>) -> Result<(Element<'d>, u32), NcclError> {
    let system = Element {
        node: document.root_element(),
        name: "system",
    };
    if !system.node.has_tag_name("system") {
        let line = system.line();
        return Err(NcclError::NoSystem { line });
    }
    let found = system.required("version", |text| text.parse().ok())?;
    if !(1..=2).contains(&found) {
        let line = system.line();
        return Err(NcclError::Version { line, found });
    }
    Ok((system, found))
}

/// The node above an element, and what is needed to recognise a switch in two halves.
#[derive(Clone, Copy)]
struct Above {
    node: NodeId,
    /// The memory of the processor they hang off.
    memory: NodeId,
    /// Set where the node is the outer half of a Broadcom switch of this generation.
    broadcom: Option<u8>,
}

/// Kind and lanes of the fabric link between two nodes, the smaller first, and the compute capability of
/// a device that has it.
type FabricLinks = BTreeMap<(NodeId, NodeId), (LinkKind, u16, Option<u32>)>;

/// A `gpu` element, to read its links once all devices are known.
struct Gpu<'d> {
    node: NodeId,
    /// The memory of its processor.
    memory: NodeId,
    element: Element<'d>,
}

struct Assembly<'d> {
    rates: Rates,
    builder: MachineBuilder,
    memories: Vec<(NodeId, Processor)>,
    at: HashMap<PciAddress, NodeId>,
    /// How often each switch was seen.
    switches: HashMap<PciAddress, u32>,
    gpus: Vec<Gpu<'d>>,
    nics: usize,
}

impl<'d> Assembly<'d> {
    fn new(rates: Rates) -> Self {
        Self {
            rates,
            builder: MachineBuilder::new(),
            memories: Vec::new(),
            at: HashMap::new(),
            switches: HashMap::new(),
            gpus: Vec::new(),
            nics: 0,
        }
    }

    fn add_cpu(&mut self, cpu: Element<'d>) -> Result<(), NcclError> {
        let numa = cpu.required("numaid", |text| text.parse::<i32>().ok())?;
        let cpus = cpu.known("affinity", element::cpu_mask)?;
        // A virtual machine says -1: its memory is wherever it is.
        let id = NumaId::new(u16::try_from(numa.max(0)).unwrap_or(u16::MAX));
        let memory = self.builder.numa(id, cpus.unwrap_or_default())?;
        let bridge = self
            .builder
            .host_bridge(format!("host bridge {}", id.get()))?;
        let bus = Link::with_defaults(bridge, memory, LinkKind::MemoryBus, 1);
        self.builder.link(self.rates.memory(bus))?;
        self.memories.push((memory, Processor::read(cpu)?));
        let above = Above {
            node: bridge,
            memory,
            broadcom: None,
        };
        for nic in cpu.children("nic") {
            self.add_nic_without_slot(nic, bridge)?;
        }
        // A stack instead of recursion: how deep the elements nest is up to the file.
        let mut stack: Vec<(Element<'d>, Above)> =
            cpu.children("pci").map(|pci| (pci, above)).collect();
        stack.reverse();
        while let Some((pci, above)) = stack.pop() {
            let above = self.add_function(pci, above)?;
            let before = stack.len();
            stack.extend(pci.children("pci").map(|below| (below, above)));
            stack[before..].reverse();
        }
        Ok(())
    }

    /// Adds a `pci` element below `above`; returns what is above its own children.
    fn add_function(&mut self, pci: Element<'d>, above: Above) -> Result<Above, NcclError> {
        let (address, identity) = pci.function()?;
        let gpu = pci.children("gpu").next();
        if identity.is_bridge() {
            return self.add_switch(pci, address, identity, above);
        }
        let node = if gpu.is_some() || identity.is_device() {
            let number = self.builder.devices.len();
            self.builder.device(format!("GPU{number}"))?
        } else if identity.is_nic() || pci.children("nic").next().is_some() {
            let name = self.nic_name(pci.children("nic").next());
            self.builder.nic(name)?
        } else {
            return Ok(above);
        };
        let memory = above.memory;
        self.gpus.extend(gpu.map(|element| Gpu {
            node,
            memory,
            element,
        }));
        self.place(node, address, identity);
        self.join_above(pci, node, above.node)?;
        Ok(above)
    }

    fn add_switch(
        &mut self,
        pci: Element<'d>,
        address: PciAddress,
        identity: PciIdentity,
        above: Above,
    ) -> Result<Above, NcclError> {
        let inner = pci.broadcom_level(identity, 1);
        if inner.is_some() && inner == above.broadcom {
            return Ok(above);
        }
        let node = self.switch_node(address, identity)?;
        self.join_above(pci, node, above.node)?;
        let broadcom = pci.broadcom_level(identity, 0);
        Ok(Above {
            node,
            broadcom,
            ..above
        })
    }

    /// Some files show a switch once for each device below it. The library takes them for different
    /// ones, and so does this reader: only the first has the address.
    fn switch_node(
        &mut self,
        address: PciAddress,
        identity: PciIdentity,
    ) -> Result<NodeId, NcclError> {
        let times = self.switches.entry(address).or_insert(0);
        *times += 1;
        if *times > 1 {
            let node = self.builder.switch(format!("{address} ({times})"))?;
            self.builder.warn(Warning::RepeatedSwitch { node });
            return Ok(node);
        }
        let node = self.builder.switch(address.to_string())?;
        self.place(node, address, identity);
        Ok(node)
    }

    /// Puts a node at its address, unless the file has a switch there, as real ones have: the library keeps kinds of nodes apart.
    fn place(&mut self, node: NodeId, address: PciAddress, identity: PciIdentity) {
        if self.at.contains_key(&address) && self.switches.contains_key(&address) {
            self.builder.warn(Warning::SharedAddress { node });
        } else {
            self.builder.pci(node, address, Some(identity));
        }
        // What links name is a device.
        if !self.at.contains_key(&address) || identity.is_device() {
            self.at.insert(address, node);
        }
    }

    fn join_above(
        &mut self,
        pci: Element<'_>,
        node: NodeId,
        above: NodeId,
    ) -> Result<(), NcclError> {
        let Some((generation, lanes)) = pci.link() else {
            return self.join_unsaid(node, above);
        };
        let link = Link::with_defaults(node, above, LinkKind::Pcie(generation), lanes);
        Ok(self.builder.link(self.rates.pcie(link.declared()))?)
    }

    /// A link that does not say how fast it is.
    fn join_unsaid(&mut self, node: NodeId, above: NodeId) -> Result<(), NcclError> {
        self.builder.warn(Warning::NoLinkSpeed { node });
        let kind = LinkKind::Pcie(PcieGeneration::Gen3);
        let link = Link::with_defaults(node, above, kind, 16);
        Ok(self.builder.link(self.rates.pcie(link))?)
    }

    fn add_nic_without_slot(&mut self, nic: Element<'d>, bridge: NodeId) -> Result<(), NcclError> {
        let name = self.nic_name(Some(nic));
        let node = self.builder.nic(name)?;
        self.join_unsaid(node, bridge)
    }

    /// The name of its first port and a number: names repeat between files' ports.
    fn nic_name(&mut self, nic: Option<Element<'_>>) -> String {
        let number = self.nics;
        self.nics += 1;
        let port = nic.and_then(|nic| nic.children("net").next());
        let name = port.and_then(|port| port.node.attribute("name"));
        let name = name.filter(|name| name.len() < 64 && !name.chars().any(char::is_control));
        match name {
            Some(name) if !name.is_empty() => format!("NIC{number} {name}"),
            _ => format!("NIC{number}"),
        }
    }

    fn join_cpus(&mut self) -> Result<(), NcclError> {
        for (position, (a, cpu)) in self.memories.iter().enumerate() {
            for (b, _) in &self.memories[position + 1..] {
                let link = Link::with_defaults(*a, *b, LinkKind::Smp, 1);
                self.builder.link(self.rates.processors(link, *cpu))?;
            }
        }
        Ok(())
    }

    /// Adds the links of the device fabric.
    fn add_fabric(&mut self) -> Result<(), NcclError> {
        let mut links = FabricLinks::new();
        let mut switch = None;
        for gpu in std::mem::take(&mut self.gpus) {
            let compute = compute_capability(gpu.element)?;
            self.add_processor_link(&gpu)?;
            for (name, kind) in kinds_of(gpu.element)? {
                for link in gpu.element.children(name) {
                    let lanes: u16 = link.required("count", |text| text.parse().ok())?;
                    let class = link.known("tclass", element::hex)?;
                    let end = match class {
                        Some(NVSWITCH) => self.nvswitch(&mut switch)?,
                        Some(PROCESSOR) => gpu.memory,
                        _ => self.target(link)?,
                    };
                    let ends = (gpu.node.min(end), gpu.node.max(end));
                    let known = &mut links.entry(ends).or_insert((kind, 0, compute)).1;
                    *known = if class == Some(NVSWITCH) {
                        // Several switches are one node here: their links add up.
                        known.saturating_add(lanes)
                    } else {
                        // A link between two devices is in the file from both ends.
                        lanes.max(*known)
                    };
                }
            }
        }
        for ((a, b), (kind, lanes, compute)) in links {
            let link = Link::with_defaults(a, b, kind, lanes).declared();
            self.builder.link(self.rates.fabric(link, compute))?;
        }
        Ok(())
    }

    /// Adds the link of a device to its own processor's memory, whose width the file says.
    fn add_processor_link(&mut self, gpu: &Gpu<'_>) -> Result<(), NcclError> {
        for element in gpu.element.children("c2c") {
            let (lanes, megabytes) = c2c(element)?;
            if lanes > 0 && megabytes > 0 {
                let link = Link::with_defaults(gpu.node, gpu.memory, LinkKind::C2c, lanes);
                self.builder
                    .link(self.rates.c2c(link.declared(), megabytes))?;
            }
        }
        Ok(())
    }

    /// The one node that stands for all NVSwitches, added when first needed.
    fn nvswitch(&mut self, switch: &mut Option<NodeId>) -> Result<NodeId, NcclError> {
        if let Some(node) = *switch {
            return Ok(node);
        }
        let node = self.builder.link_switch("NVSwitch")?;
        *switch = Some(node);
        Ok(node)
    }

    fn target(&self, link: Element<'_>) -> Result<NodeId, NcclError> {
        let target: PciAddress = link.required("target", |text| text.parse().ok())?;
        let known = self.at.get(&target).copied();
        known.ok_or_else(|| NcclError::UnknownTarget {
            line: link.line(),
            element: link.name,
            target,
        })
    }
}

/// How many links a `c2c` element has, and what they carry together, in megabytes a second.
pub(super) fn c2c(element: Element<'_>) -> Result<(u16, u64), NcclError> {
    let lanes: u16 = element.required("count", |text| text.parse().ok())?;
    let one: u32 = element.required("bw", |text| text.parse().ok())?;
    Ok((lanes, u64::from(one) * u64::from(lanes)))
}

/// The compute capability of a device of NVIDIA's: 80 for 8.0.
fn compute_capability(gpu: Element<'_>) -> Result<Option<u32>, NcclError> {
    Ok(gpu.known("sm", |text| text.parse().ok())?)
}

/// The names of link elements, and what they are on this device.
pub(super) fn kinds_of(gpu: Element<'_>) -> Result<[(&'static str, LinkKind); 2], NcclError> {
    let compute = compute_capability(gpu)?;
    let version = match compute {
        Some(..70) => NvLinkVersion::V1,
        Some(70..80) => NvLinkVersion::V2,
        Some(90..100) => NvLinkVersion::V4,
        Some(100..) => NvLinkVersion::V5,
        _ => NvLinkVersion::V3,
    };
    let architecture = gpu.node.attribute("gcn").unwrap_or("");
    let xgmi = match architecture.trim_start_matches("gfx") {
        "910" | "90a" => XgmiVersion::Gfx90a,
        newer if newer.starts_with("94") || newer.starts_with("95") => XgmiVersion::Gfx94x,
        _ => XgmiVersion::Gfx906,
    };
    Ok([
        ("nvlink", LinkKind::NvLink(version)),
        ("xgmi", LinkKind::Xgmi(xgmi)),
    ])
}
