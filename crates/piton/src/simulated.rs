//! The simulated machine that a model of a machine describes.

use crate::RuntimeError;
use piton_driver::{DeviceId, LinkClass};
use piton_sim::{DeviceConfig, LinkConfig, MAX_DEVICES, SimConfig, Wires};
use piton_topology::{
    BytesPerSec, CommandWays, DeviceId as Place, Distance, LinkId, Machine, Nanos, NodeId, Transit,
};
use std::collections::BTreeMap;

/// The simulated machine that a model describes: a link for each pair of devices, as wide as the widest way
/// between them that passes no third device, and shared as far as the wires of that way are. Devices reach each other's memory as far as PCIe switches go, which
/// is what NCCL allows by default (`NCCL_P2P_LEVEL=PXB`).
pub(crate) fn machine(machine: &Machine, device: &DeviceConfig) -> Result<SimConfig, RuntimeError> {
    let count = machine.device_count();
    let devices = u32::try_from(count).unwrap_or(u32::MAX);
    if devices > MAX_DEVICES {
        return Err(RuntimeError::TooManyDevices {
            count,
            limit: MAX_DEVICES,
        });
    }
    let (distances, bandwidths) = (machine.distances(), machine.bandwidths(Transit::HostOnly));
    let latencies = machine.latencies(Transit::HostOnly);
    let device = DeviceConfig {
        // As many as it can have partners: the links are what is narrow.
        peer_engines: device.peer_engines.max(devices),
        ..device.clone()
    };
    let mut config = SimConfig::uniform(devices, &device);
    config.links.clear();
    config.wires = wires(machine);
    for from in machine.device_ids() {
        for to in machine.device_ids().filter(|to| *to > from) {
            let (row, column) = (from.index(), to.index());
            let distance = distances
                .get(row, column)
                .copied()
                .unwrap_or(Distance::Unknown);
            let bandwidth = bandwidths.get(row, column).copied().flatten();
            config.links.push(LinkConfig {
                a: id(from),
                b: id(to),
                class: class(distance),
                bytes_per_second: bandwidth.map_or(UNKNOWN_BYTES_PER_SECOND, BytesPerSec::get),
                latency_ns: latencies
                    .get(row, column)
                    .copied()
                    .flatten()
                    .map_or(0, Nanos::get),
                allows_peer_access: distance <= Distance::Pxb,
            });
        }
    }
    Ok(config)
}

/// The links of the machine, each way, and which of them lie between each two devices and between a device and memory.
fn wires(machine: &Machine) -> Wires {
    let ways = CommandWays::new(machine);
    let rates = machine.links().iter().flat_map(|link| [link.up, link.down]);
    let mut wires = Wires {
        bytes_per_second: rates.map(BytesPerSec::get).collect(),
        ways: BTreeMap::new(),
        host_ways: BTreeMap::new(),
    };
    for from in machine.device_ids() {
        let Some(source) = machine.device_node(from) else {
            continue;
        };
        for to in machine.device_ids() {
            let pair = (id(from), id(to));
            if let Some(hops) = ways.between(from, to) {
                wires.ways.insert(pair, directions(machine, source, hops));
            }
            if let Some(both) = to_memory(machine, &ways, from, to) {
                wires.host_ways.insert(pair, both);
            }
        }
    }
    wires
}

/// The wires from a device into the memory near another, and out of it.
fn to_memory(
    machine: &Machine,
    ways: &CommandWays,
    device: Place,
    home: Place,
) -> Option<[Box<[u32]>; 2]> {
    let numa = ways.nearest(home)?;
    let memory = machine.numa_node(numa)?.node;
    let into = ways.into_memory(device, numa)?;
    let out_of = ways.out_of_memory(numa, device)?;
    Some([
        directions(machine, machine.device_node(device)?, into),
        directions(machine, memory, out_of),
    ])
}

fn directions(machine: &Machine, source: NodeId, hops: &[LinkId]) -> Box<[u32]> {
    let mut at = source;
    let hops = hops
        .iter()
        .filter_map(|hop| Some((*hop, machine.link(*hop)?)));
    let directions = hops.map(|(hop, link)| {
        let is_back = link.a != at;
        at = link.other_end(at).unwrap_or(at);
        hop.get() * 2 + u32::from(is_back)
    });
    directions.collect()
}

fn id(device: Place) -> DeviceId {
    DeviceId(u32::from(device.get()))
}

/// What a way of unknown width is taken for: PCIe 3.0 x16.
const UNKNOWN_BYTES_PER_SECOND: u64 = 12_000_000_000;

fn class(distance: Distance) -> LinkClass {
    match distance {
        Distance::Same => LinkClass::Local,
        Distance::Package => LinkClass::Package,
        Distance::Link => LinkClass::Link,
        Distance::LinkSwitch => LinkClass::LinkSwitch,
        Distance::Pix => LinkClass::Pix,
        Distance::Pxb => LinkClass::Pxb,
        Distance::Phb => LinkClass::Phb,
        Distance::Node => LinkClass::Node,
        Distance::Sys => LinkClass::Sys,
        _ => LinkClass::Unknown,
    }
}
