//! Touches the files: one pass over `bus/pci/devices`, one over `devices/system/node`.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::attribute;
use super::config_space;
use super::{LinkStatus, NumaFacts, PciFunction, SysfsTree};
use crate::cpu_list::CpuList;
use crate::error::{Field, ProbeError};
use crate::id::NumaId;
use crate::pci::{PciAddress, PciIdentity};

pub(super) fn read(root: &Path) -> Result<SysfsTree, ProbeError> {
    let bus = root.join("sys/bus/pci/devices");
    let mut functions = Vec::new();
    for name in attribute::names(&bus)? {
        // What is no address is no function: nothing to refuse.
        let address = name.to_str().and_then(|name| name.parse().ok());
        if let Some(address) = address {
            functions.push(function(&bus.join(&name), address)?);
        }
    }
    functions.sort_by_key(|function| function.address);
    // Two spellings of one address would be one function twice.
    let mut seen = HashSet::new();
    functions.retain(|function| seen.insert(function.address));
    Ok(SysfsTree {
        has_pci_bus: bus.is_dir(),
        functions,
        numa: numa_nodes(&root.join("sys/devices/system/node"))?,
    })
}

fn function(folder: &Path, address: PciAddress) -> Result<PciFunction, ProbeError> {
    let identity = identity(folder)?;
    let config = attribute::bytes(&folder.join("config"))?.unwrap_or_default();
    let is_bridge = identity.is_some_and(PciIdentity::is_bridge);
    let numa = attribute::parsed(
        &folder.join("numa_node"),
        Field::Number,
        attribute::numa_node,
    )?;
    Ok(PciFunction {
        address,
        identity,
        ancestors: ancestors(folder, address),
        buses: buses(folder, &config)?.filter(|_| is_bridge),
        port: config_space::port_type(&config).filter(|_| is_bridge),
        numa: numa.flatten().map(NumaId::new),
        local_cpus: cpus(folder, "local_cpulist", "local_cpus")?,
        current: link(folder, "current_link_speed", "current_link_width")?,
        max: link(folder, "max_link_speed", "max_link_width")?,
        names: kernel_names(folder)?,
    })
}

fn identity(folder: &Path) -> Result<Option<PciIdentity>, ProbeError> {
    let hex = |name: &str| attribute::parsed(&folder.join(name), Field::Hex, attribute::hex);
    let short = |value: u32| u16::try_from(value).ok();
    let (vendor, device, class) = (hex("vendor")?, hex("device")?, hex("class")?);
    Ok((|| {
        Some(PciIdentity {
            // Who made it is not needed to know what it is.
            vendor: short(vendor.unwrap_or(0))?,
            device: short(device.unwrap_or(0))?,
            // The lowest byte is the programming interface.
            class: short(class? >> 8)?,
        })
    })())
}

/// The functions on the way to the real folder, nearest first; `None` if the folder is not a link.
fn ancestors(folder: &Path, address: PciAddress) -> Option<Vec<PciAddress>> {
    let target = fs::read_link(folder).ok()?;
    let on_the_way = target
        .iter()
        .filter_map(|part| part.to_str()?.parse().ok())
        .filter(|above| *above != address);
    let mut ancestors: Vec<PciAddress> = on_the_way.collect();
    ancestors.reverse();
    Some(ancestors)
}

fn buses(folder: &Path, config: &[u8]) -> Result<Option<(u8, u8)>, ProbeError> {
    let number =
        |name: &str| attribute::parsed(&folder.join(name), Field::Number, |text| text.parse().ok());
    let secondary: Option<u8> = number("secondary_bus_number")?;
    let subordinate: Option<u8> = number("subordinate_bus_number")?;
    Ok(secondary
        .zip(subordinate)
        .or_else(|| config_space::buses(config)))
}

fn cpus(folder: &Path, list: &str, mask: &str) -> Result<Option<CpuList>, ProbeError> {
    let list = attribute::parsed(&folder.join(list), Field::Cpus, attribute::cpu_list)?;
    if list.is_some() {
        return Ok(list);
    }
    attribute::parsed(&folder.join(mask), Field::Cpus, attribute::cpu_mask)
}

fn link(folder: &Path, speed: &str, width: &str) -> Result<LinkStatus, ProbeError> {
    let speed = attribute::parsed(&folder.join(speed), Field::Number, attribute::speed)?;
    let width = attribute::parsed(&folder.join(width), Field::Number, attribute::width)?;
    Ok(LinkStatus {
        megatransfers: speed.flatten(),
        width: width.flatten(),
    })
}

fn kernel_names(folder: &Path) -> Result<Vec<String>, ProbeError> {
    let mut names = Vec::new();
    let mut add = |folder: PathBuf| -> Result<(), ProbeError> {
        let found = attribute::names(&folder)?.into_iter();
        names.extend(found.map(|name| name.to_string_lossy().into_owned()));
        Ok(())
    };
    add(folder.join("infiniband"))?;
    add(folder.join("net"))?;
    // A virtual machine's controllers have one more folder between.
    for inner in attribute::names(folder)? {
        if inner.to_string_lossy().starts_with("virtio") {
            add(folder.join(inner).join("net"))?;
        }
    }
    Ok(names)
}

fn numa_nodes(folder: &Path) -> Result<Vec<NumaFacts>, ProbeError> {
    let mut nodes = Vec::new();
    for name in attribute::names(folder)? {
        let number = name.to_str().and_then(|name| name.strip_prefix("node"));
        let Some(id) = number.and_then(|number| number.parse().ok()) else {
            continue;
        };
        let node: PathBuf = folder.join(&name);
        let cpus = cpus(&node, "cpulist", "cpumap")?.unwrap_or_default();
        let id = NumaId::new(id);
        nodes.push(NumaFacts { id, cpus });
    }
    nodes.sort_by_key(|node| node.id);
    nodes.dedup_by_key(|node| node.id);
    Ok(nodes)
}
