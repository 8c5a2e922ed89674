//! What a topology file says, to be put together with what others say.
//!
//! Unlike for a machine of its own, anything may be missing: cloud templates name a few functions and the NUMA nodes they
//! are near to, and leave the rest to sysfs. A switch is in the file once, so it is an upstream port here; a processor's host
//! bridge is the one that stands in for it.

use roxmltree::Document;

use super::assemble::{self, NVSWITCH, PROCESSOR};
use super::element;
use crate::defaults;
use crate::error::NcclError;
use crate::id::NumaId;
use crate::link::LinkKind;
use crate::partial::{FabricEnd, FabricFact};
use crate::pci::{self, PciAddress, PciIdentity};
use crate::quantity::BytesPerSec;
use crate::sysfs::{LinkStatus, NumaFacts, PciFunction, PortType, SysfsTree, stand_in_root};
use crate::xml::Element;

pub(super) fn read(document: &Document<'_>) -> Result<(SysfsTree, Vec<FabricFact>), NcclError> {
    let (system, _) = assemble::system(document)?;
    let mut facts = Facts {
        tree: SysfsTree {
            has_pci_bus: true,
            ..SysfsTree::default()
        },
        fabric: Vec::new(),
    };
    for cpu in system.children("cpu") {
        facts.add_cpu(cpu)?;
    }
    let tree = &mut facts.tree;
    // Some files show a switch once for each device below it.
    tree.functions.sort_by_key(|function| function.address);
    tree.functions.dedup_by_key(|function| function.address);
    tree.numa.sort_by_key(|numa| numa.id);
    tree.numa.dedup_by_key(|numa| numa.id);
    Ok((facts.tree, facts.fabric))
}

struct Facts {
    tree: SysfsTree,
    fabric: Vec<FabricFact>,
}

/// The functions above an element, nearest first, and the NUMA node they hang off.
#[derive(Clone)]
struct Above {
    functions: Vec<PciAddress>,
    numa: Option<NumaId>,
    /// Set where the nearest is the outer half of a Broadcom switch of this generation.
    broadcom: Option<u8>,
}

impl Facts {
    fn add_cpu(&mut self, cpu: Element<'_>) -> Result<(), NcclError> {
        let number = cpu.required("numaid", |text| text.parse::<i32>().ok())?;
        let cpus = cpu.known("affinity", element::cpu_mask)?;
        // A virtual machine says -1, which is nothing said.
        let numa = u16::try_from(number).ok().map(NumaId::new);
        self.tree.numa.extend(numa.map(|id| NumaFacts {
            id,
            cpus: cpus.unwrap_or_default(),
        }));
        let root = stand_in_root(numa.map_or(0, NumaId::get));
        let above = Above {
            functions: root.into_iter().collect(),
            numa,
            broadcom: None,
        };
        // A stack instead of recursion: how deep the elements nest is up to the file.
        let mut stack: Vec<(Element<'_>, Above)> = cpu
            .children("pci")
            .map(|pci| (pci, above.clone()))
            .collect();
        while let Some((pci, above)) = stack.pop() {
            let below = self.add_function(pci, above)?;
            stack.extend(pci.children("pci").map(|child| (child, below.clone())));
        }
        Ok(())
    }

    /// Takes a function in; returns what is above its children.
    fn add_function(&mut self, pci: Element<'_>, above: Above) -> Result<Above, NcclError> {
        let address: PciAddress = pci.required("busid", |text| text.parse().ok())?;
        let identity = identity(pci)?;
        let is_bridge = identity.is_some_and(PciIdentity::is_bridge);
        let level = |level| identity.and_then(|identity| pci.broadcom_level(identity, level));
        let is_inner = level(1).is_some() && level(1) == above.broadcom;
        let port = if is_inner {
            PortType::Downstream
        } else {
            PortType::Upstream
        };
        let status = LinkStatus {
            megatransfers: pci
                .node
                .attribute("link_speed")
                .and_then(pci::megatransfers),
            width: pci.node.attribute("link_width").and_then(pci::lanes),
        };
        let nets = pci.children("nic").flat_map(|nic| nic.children("net"));
        let names = nets.filter_map(|net| net.node.attribute("name"));
        let names = names.filter(|name| name.len() < 64 && !name.chars().any(char::is_control));
        self.tree.functions.push(PciFunction {
            identity,
            ancestors: Some(above.functions.clone()),
            port: is_bridge.then_some(port),
            numa: above.numa,
            current: status,
            max: status,
            names: names.map(str::to_owned).collect(),
            ..PciFunction::unknown(address)
        });
        for gpu in pci.children("gpu") {
            self.add_fabric(gpu, address, above.numa)?;
        }
        let mut below = above;
        if is_bridge {
            below.functions.insert(0, address);
            // Whatever is inside the outer half belongs to one switch.
            below.broadcom = if is_inner { below.broadcom } else { level(0) };
        }
        Ok(below)
    }

    fn add_fabric(
        &mut self,
        gpu: Element<'_>,
        address: PciAddress,
        numa: Option<NumaId>,
    ) -> Result<(), NcclError> {
        for element in gpu.children("c2c") {
            let (lanes, megabytes) = assemble::c2c(element)?;
            if lanes > 0 && megabytes > 0 {
                let rate = defaults::of_peak(LinkKind::C2c, BytesPerSec::from_mb(megabytes));
                self.fabric.push(FabricFact {
                    ends: [
                        FabricEnd::At(address),
                        FabricEnd::Numa(numa.unwrap_or(NumaId::new(0))),
                    ],
                    kind: LinkKind::C2c,
                    lanes,
                    rates: Some([rate, rate]),
                    latency: None,
                });
            }
        }
        for (name, kind) in assemble::kinds_of(gpu)? {
            for link in gpu.children(name) {
                let lanes: u16 = link.required("count", |text| text.parse().ok())?;
                let end = match link.known("tclass", element::hex)? {
                    Some(NVSWITCH) => FabricEnd::LinkSwitch(0),
                    Some(PROCESSOR) => FabricEnd::Numa(numa.unwrap_or(NumaId::new(0))),
                    _ => FabricEnd::At(link.required("target", |text| text.parse().ok())?),
                };
                let ends = [FabricEnd::At(address), end];
                // A template's links to their own device are none; nor are links of no lanes.
                if ends[0] != ends[1] && lanes > 0 {
                    self.fabric.push(FabricFact {
                        ends,
                        kind,
                        lanes,
                        rates: None,
                        latency: None,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Who made a function and what it is, as far as the file says.
fn identity(pci: Element<'_>) -> Result<Option<PciIdentity>, NcclError> {
    let class = pci.known("class", element::class)?;
    let vendor = pci.known("vendor", element::hex16)?.unwrap_or(0);
    let device = pci.known("device", element::hex16)?.unwrap_or(0);
    Ok(class.map(|class| PciIdentity {
        vendor,
        device,
        class,
    }))
}
