//! Writes a machine as a NCCL topology file (version 1).
//!
//! What the format has no words for is left out: who shares a host bridge (all of a NUMA node do, in such a
//! file), latencies, measured rates. Functions without an address get ones in a domain no hardware has.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::id::NodeId;
use crate::link::{Link, LinkKind, NvLinkVersion, PcieGeneration, XgmiVersion};
use crate::machine::Machine;
use crate::node::{NodeKind, NumaNode};
use crate::pci::PciAddress;

/// The domain of addresses that are made up.
const MADE_UP_DOMAIN: u32 = 0xffff;

/// How deep switches are written below each other; deeper ones are part of a circle.
const MAX_DEPTH: usize = 16;

pub(super) fn text(machine: &Machine) -> String {
    let mut writer = Writer {
        machine,
        text: "<system version=\"1\">\n".to_owned(),
        written: vec![false; machine.nodes().len()],
    };
    for numa in machine.numa() {
        writer.cpu(numa);
    }
    writer.text.push_str("</system>\n");
    writer.text
}

struct Writer<'m> {
    machine: &'m Machine,
    text: String,
    /// A node that hangs off two places is written at the first.
    written: Vec<bool>,
}

impl Writer<'_> {
    fn cpu(&mut self, numa: &NumaNode) {
        let (id, mask) = (numa.id.get(), numa.cpus.to_mask());
        let start = format!("  <cpu numaid=\"{id}\" affinity=\"{mask}\" arch=\"x86_64\">\n");
        self.text.push_str(&start);
        let machine = self.machine;
        let bridges = machine.neighbours(numa.node).iter();
        let is_bridge = |node: NodeId| machine.kind(node) == NodeKind::HostBridge;
        for &(link, node) in bridges {
            if is_bridge(node) {
                self.below(node, 2);
            } else if let Some(link) = machine.link(link) {
                self.function(node, link, 2);
            }
        }
        self.text.push_str("  </cpu>\n");
    }

    /// Everything below a bridge or switch.
    fn below(&mut self, above: NodeId, depth: usize) {
        if std::mem::replace(&mut self.written[above.index()], true) || depth > MAX_DEPTH {
            return;
        }
        for &(link, node) in self.machine.neighbours(above) {
            if let Some(link) = self.machine.link(link) {
                self.function(node, link, depth);
            }
        }
    }

    fn function(&mut self, node: NodeId, link: &Link, depth: usize) {
        let kind = self.machine.kind(node);
        let is_bus = matches!(link.kind, LinkKind::Pcie(_) | LinkKind::Unknown);
        let class = match kind {
            NodeKind::Device(_) => "0x030200",
            NodeKind::Nic => "0x020000",
            NodeKind::Switch => "0x060400",
            _ => return,
        };
        if !is_bus || self.written[node.index()] {
            return;
        }
        let indent = "  ".repeat(depth);
        let busid = self.address(node);
        let speed = speed(link.kind);
        let lanes = link.lanes;
        self.text.push_str(&format!(
            "{indent}<pci busid=\"{busid}\" class=\"{class}\" link_speed=\"{speed}\" link_width=\"{lanes}\">\n"
        ));
        match kind {
            NodeKind::Switch => self.below(node, depth + 1),
            NodeKind::Nic => self.nic(node, &indent),
            _ => self.gpu(node, &indent),
        }
        self.written[node.index()] = true;
        self.text.push_str(&format!("{indent}</pci>\n"));
    }

    fn nic(&mut self, node: NodeId, indent: &str) {
        // Names are free of control characters; what XML would read otherwise is not in them either.
        let name: String = own_name(&self.machine.nodes()[node.index()].name)
            .chars()
            .filter(|letter| !"<>&\"'".contains(*letter))
            .collect();
        let port = format!(
            "{indent}  <nic><net name=\"{name}\" dev=\"{}\"/></nic>\n",
            node.get()
        );
        self.text.push_str(&port);
    }

    fn gpu(&mut self, node: NodeId, indent: &str) {
        let mut links: BTreeMap<(NodeId, LinkKind), u16> = BTreeMap::new();
        for &(link, end) in self.machine.neighbours(node) {
            if let Some(link) = self.machine.link(link).filter(|link| link.kind.is_fabric()) {
                let lanes = links.entry((end, link.kind)).or_insert(0);
                *lanes = lanes.saturating_add(link.lanes);
            }
        }
        let kinds = links.keys().map(|(_, kind)| *kind);
        let attributes = kinds.fold(String::new(), |known, kind| {
            if known.is_empty() {
                architecture(kind)
            } else {
                known
            }
        });
        let number = match self.machine.kind(node) {
            NodeKind::Device(device) => device.get(),
            _ => 0,
        };
        let start = format!("{indent}  <gpu dev=\"{number}\" rank=\"{number}\"{attributes}>\n");
        self.text.push_str(&start);
        for ((end, kind), count) in links {
            let name = if matches!(kind, LinkKind::Xgmi(_)) {
                "xgmi"
            } else {
                "nvlink"
            };
            let class = match self.machine.kind(end) {
                NodeKind::LinkSwitch => "0x068000",
                NodeKind::Memory(_) => "0x068001",
                _ => "0x030200",
            };
            let target = self.address(end);
            // Writing to a string cannot fail.
            let _ok = writeln!(
                self.text,
                "{indent}    <{name} target=\"{target}\" count=\"{count}\" tclass=\"{class}\"/>"
            );
        }
        self.text.push_str(&format!("{indent}  </gpu>\n"));
    }

    fn address(&self, node: NodeId) -> String {
        let known = self.machine.nodes()[node.index()].pci;
        let [bus, slot] = node.get().to_be_bytes();
        let made_up = || PciAddress::new(MADE_UP_DOMAIN, bus, slot >> 3, slot & 7);
        known
            .or_else(made_up)
            .map_or_else(String::new, |address| address.to_string())
    }
}

/// The attribute by which a reader knows the version of the links.
fn architecture(kind: LinkKind) -> String {
    match kind {
        LinkKind::NvLink(version) => {
            let compute = match version {
                NvLinkVersion::V1 => 60,
                NvLinkVersion::V2 => 70,
                NvLinkVersion::V3 => 80,
                NvLinkVersion::V4 => 90,
                NvLinkVersion::V5 => 100,
            };
            format!(" sm=\"{compute}\"")
        }
        LinkKind::Xgmi(version) => {
            let name = match version {
                XgmiVersion::Gfx906 => "gfx906",
                XgmiVersion::Gfx90a => "gfx90a",
                XgmiVersion::Gfx94x => "gfx942",
            };
            format!(" gcn=\"{name}\"")
        }
        _ => String::new(),
    }
}

const fn speed(kind: LinkKind) -> &'static str {
    match kind {
        LinkKind::Pcie(PcieGeneration::Gen1) => "2.5 GT/s PCIe",
        LinkKind::Pcie(PcieGeneration::Gen2) => "5.0 GT/s PCIe",
        LinkKind::Pcie(PcieGeneration::Gen3) => "8.0 GT/s PCIe",
        LinkKind::Pcie(PcieGeneration::Gen4) => "16.0 GT/s PCIe",
        LinkKind::Pcie(PcieGeneration::Gen5) => "32.0 GT/s PCIe",
        LinkKind::Pcie(PcieGeneration::Gen6) => "64.0 GT/s PCIe",
        _ => "",
    }
}

/// A controller's name without the number that whoever reads a file puts before it.
fn own_name(name: &str) -> &str {
    let Some(numbered) = name.strip_prefix("NIC") else {
        return name;
    };
    let rest = numbered.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_numbered = rest.len() < numbered.len();
    let own = rest.strip_prefix(' ').or(rest.is_empty().then_some(rest));
    own.filter(|_| is_numbered).unwrap_or(name)
}
