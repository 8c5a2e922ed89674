//! The objects of an hwloc file: NUMA nodes, bridges, functions, and what distances call them.

use std::collections::HashMap;

use super::element;
use crate::cpu_list::CpuList;
use crate::defaults;
use crate::error::HwlocError;
use crate::id::NumaId;
use crate::link::{LinkKind, PcieGeneration};
use crate::pci::{PciAddress, PciIdentity};
use crate::sysfs::{LinkStatus, NumaFacts, PciFunction, SysfsTree};
use crate::xml::Element;

/// The most bridges above each other: a domain has no more buses.
const MAX_BRIDGES: usize = 256;

/// What an object is to a matrix of distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A PCI function, or a software device on one.
    Function(PciAddress),
    /// A package or NUMA node.
    Numa(NumaId),
}

/// Everything in a file that this reader knows.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) tree: SysfsTree,
    /// By the number that distances use (`gp_index`).
    pub(super) targets: HashMap<u64, Target>,
}

/// What is around an object: the functions above it, nearest last, and the processors near it.
#[derive(Clone, Default)]
struct Around {
    above: Vec<PciAddress>,
    numa: Option<NumaId>,
    cpus: Option<CpuList>,
    function: Option<usize>,
}

pub(super) fn read(topology: Element<'_>) -> Result<Objects, HwlocError> {
    let mut objects = Objects::default();
    // A stack instead of recursion: how deep the elements nest is up to the file.
    let mut stack: Vec<(Element<'_>, Around)> = topology
        .children("object")
        .map(|object| (object, Around::default()))
        .collect();
    stack.reverse();
    while let Some((object, around)) = stack.pop() {
        let around = objects.add(object, around)?;
        let before = stack.len();
        stack.extend(
            object
                .children("object")
                .map(|below| (below, around.clone())),
        );
        stack[before..].reverse();
    }
    let tree = &mut objects.tree;
    // Files put together from several have functions of no interest at the address of one that is.
    let is_other = |function: &PciFunction| {
        let of_interest = |id: PciIdentity| id.is_bridge() || id.is_device() || id.is_nic();
        !function.identity.is_some_and(of_interest)
    };
    tree.functions
        .sort_by_key(|function| (function.address, is_other(function)));
    tree.functions
        .dedup_by(|later, first| later.address == first.address && is_other(later));
    tree.numa.sort_by_key(|numa| numa.id);
    Ok(objects)
}

impl Objects {
    /// Takes an object in; returns what is around its children.
    fn add(&mut self, object: Element<'_>, mut around: Around) -> Result<Around, HwlocError> {
        match object.node.attribute("type").unwrap_or("") {
            "PCIDev" => self.add_function(object, &mut around)?,
            "Bridge" => {
                self.tree.has_pci_bus = true;
                // A host bridge is no function.
                if object.node.attribute("pci_busid").is_some() {
                    self.add_function(object, &mut around)?;
                }
            }
            "OSDev" => self.add_name(object, &around),
            "Misc" => {}
            kind => {
                around.locate(object)?;
                if kind == "NUMANode" {
                    self.add_numa(object)?;
                }
                let near = around.numa.map(Target::Numa);
                self.name(object, near);
            }
        }
        Ok(around)
    }

    fn add_numa(&mut self, object: Element<'_>) -> Result<(), HwlocError> {
        let id = object.required("os_index", |text| text.parse().ok())?;
        let cpus = object.optional("cpuset", element::bit_set)?.flatten();
        self.tree.numa.push(NumaFacts {
            id: NumaId::new(id),
            cpus: cpus.unwrap_or_default(),
        });
        self.name(object, Some(Target::Numa(NumaId::new(id))));
        Ok(())
    }

    fn add_function(&mut self, object: Element<'_>, around: &mut Around) -> Result<(), HwlocError> {
        let address: PciAddress = object.required("pci_busid", |text| text.parse().ok())?;
        let identity = object.required("pci_type", identity)?;
        let speed = object.optional("pci_link_speed", megabytes)?;
        let link = speed.map(link_status).unwrap_or_default();
        if around.above.len() >= MAX_BRIDGES {
            return Err(HwlocError::TooDeep {
                line: object.line(),
                limit: MAX_BRIDGES,
            });
        }
        around.function = Some(self.tree.functions.len());
        self.tree.functions.push(PciFunction {
            address,
            identity: Some(identity),
            ancestors: Some(around.above.iter().rev().copied().collect()),
            buses: None,
            port: None,
            numa: around.numa,
            local_cpus: around.cpus.clone(),
            current: link,
            max: link,
            names: Vec::new(),
        });
        self.name(object, Some(Target::Function(address)));
        around.above.push(address);
        Ok(())
    }

    /// A name the operating system gave to the function it is below.
    fn add_name(&mut self, object: Element<'_>, around: &Around) {
        let function = around
            .function
            .and_then(|at| self.tree.functions.get_mut(at));
        let Some(function) = function else { return };
        function
            .names
            .extend(object.node.attribute("name").map(str::to_owned));
        let target = Target::Function(function.address);
        self.name(object, Some(target));
    }

    fn name(&mut self, object: Element<'_>, target: Option<Target>) {
        let number = object.node.attribute("gp_index");
        let number = number.and_then(|number| number.parse().ok());
        self.targets.extend(number.zip(target));
    }
}

impl Around {
    /// Narrows down what is near to what the object says, if it says.
    fn locate(&mut self, object: Element<'_>) -> Result<(), HwlocError> {
        if let Some(Some(cpus)) = object.optional("cpuset", element::bit_set)? {
            self.cpus = Some(cpus);
        }
        if let Some(nodes) = object.optional("nodeset", element::bit_set)? {
            let only = nodes.and_then(|nodes| nodes.single());
            self.numa = only
                .and_then(|node| u16::try_from(node).ok())
                .map(NumaId::new);
        }
        Ok(())
    }
}

/// `0302 [10de:1db8] …`: class, vendor and device.
fn identity(text: &str) -> Option<PciIdentity> {
    let (class, rest) = text.split_once('[')?;
    let (ids, _) = rest.split_once(']')?;
    let (vendor, device) = ids.split_once(':')?;
    let hex = |text: &str| u16::from_str_radix(text.trim(), 16).ok();
    Some(PciIdentity {
        vendor: hex(vendor)?,
        device: hex(device)?,
        class: hex(class)?,
    })
}

/// `15.753846`, gigabytes a second, as megabytes.
fn megabytes(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let thousandths: String = fraction.chars().chain("000".chars()).take(3).collect();
    let whole: u64 = whole.parse().ok()?;
    whole
        .checked_mul(1_000)?
        .checked_add(thousandths.parse().ok()?)
}

/// The PCIe link whose peak is nearest, the widest of several. Eight lanes of one generation are sixteen of
/// the one before: which it is, the file does not say, and a copy does not care. Some files have rates
/// a fifth too low; what is farther off is no PCIe link.
fn link_status(megabytes: u64) -> LinkStatus {
    use PcieGeneration::{Gen1, Gen2, Gen3, Gen4, Gen5, Gen6};
    let rates = [
        (Gen1, 2_500),
        (Gen2, 5_000),
        (Gen3, 8_000),
        (Gen4, 16_000),
        (Gen5, 32_000),
        (Gen6, 64_000),
    ];
    let links = [16_u8, 8, 4, 2, 1].into_iter().flat_map(|width| {
        rates.map(|(generation, rate)| {
            let peak = defaults::peak(LinkKind::Pcie(generation), width.into());
            let off = (peak.get() / 1_000_000).abs_diff(megabytes);
            (off, width, rate)
        })
    });
    // A thousandth is rounding: it must not make a link of fewer lanes the nearest.
    let nearest = links.min_by_key(|(off, ..)| off.saturating_sub(megabytes / 1_000));
    let Some((_, width, rate)) = nearest.filter(|(off, ..)| *off <= megabytes / 4) else {
        return LinkStatus::default();
    };
    LinkStatus {
        megatransfers: Some(rate),
        width: Some(width),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_read_with_and_without_the_programming_interface() {
        let dgx = identity("0302 [10de:1db8] [10de:131d] a1 00").unwrap();
        assert_eq!((dgx.class, dgx.vendor, dgx.device), (0x302, 0x10de, 0x1db8));
        assert!(
            identity("0604 [8086:3408] [8086:0000] 22")
                .unwrap()
                .is_bridge()
        );
        assert_eq!(identity("0302"), None);
    }

    #[test]
    fn a_link_speed_is_the_widest_link_with_that_peak() {
        let link = |text| link_status(megabytes(text).unwrap());
        for (text, rate, width) in [
            ("15.753846", 8_000, 16),
            ("63.015385", 32_000, 16),
            ("3.938462", 8_000, 4),
            ("0.250000", 2_500, 1),
            ("1.000000", 2_500, 4),
            ("0.200000", 2_500, 1),
        ] {
            let expected = (Some(rate), Some(width));
            assert_eq!(
                (link(text).megatransfers, link(text).width),
                expected,
                "{text}"
            );
        }
        for text in ["0.000000", "0.100000", "900.0"] {
            assert_eq!(link(text), LinkStatus::default(), "{text}");
        }
        assert_eq!(megabytes("fast"), None);
    }
}
