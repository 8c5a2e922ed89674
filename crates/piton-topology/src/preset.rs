//! Machines built from a number: for tests, for simulated devices, for studies.
//!
//! Every preset has two sockets with a host bridge each, so that staging works and far pairs are
//! really far; the first half of the devices sits on the first socket.

use crate::builder::MachineBuilder;
use crate::cpu_list::CpuList;
use crate::error::{BuildError, Warning};
use crate::id::{NodeId, NumaId};
use crate::link::{LinkKind, PcieGeneration};
use crate::machine::Machine;

const SLOT: LinkKind = LinkKind::Pcie(PcieGeneration::Gen4);
const SLOT_LANES: u16 = 16;

impl Machine {
    /// `devices` devices, each joined to each other by `lanes` lanes of `kind`.
    ///
    /// # Errors
    /// [`BuildError::TooManyDevices`], [`BuildError::TooManyLinks`], or [`BuildError::NoLanes`].
    pub fn mesh(devices: u16, kind: LinkKind, lanes: u16) -> Result<Self, BuildError> {
        let (mut builder, nodes) = slots(devices)?;
        for (position, a) in nodes.iter().enumerate() {
            for b in &nodes[position + 1..] {
                builder.join(*a, *b, kind, lanes)?;
            }
        }
        builder.build()
    }

    /// `devices` devices, each joined to the next and the last to the first by `lanes` lanes of `kind`.
    ///
    /// # Errors
    /// [`BuildError::TooManyDevices`] or [`BuildError::NoLanes`].
    pub fn ring(devices: u16, kind: LinkKind, lanes: u16) -> Result<Self, BuildError> {
        let (mut builder, nodes) = slots(devices)?;
        for pair in nodes.windows(2) {
            builder.join(pair[0], pair[1], kind, lanes)?;
        }
        // A ring of two is one link, not two.
        if let [first, _, .., last] = nodes[..] {
            builder.join(last, first, kind, lanes)?;
        }
        builder.build()
    }

    /// `devices` devices joined to one link switch by `lanes` lanes of `kind` each.
    ///
    /// # Errors
    /// [`BuildError::TooManyDevices`] or [`BuildError::NoLanes`].
    pub fn star(devices: u16, kind: LinkKind, lanes: u16) -> Result<Self, BuildError> {
        let (mut builder, nodes) = slots(devices)?;
        let switch = builder.link_switch("link switch")?;
        for node in nodes {
            builder.join(node, switch, kind, lanes)?;
        }
        builder.build()
    }

    /// `devices` devices in pairs, each pair under a PCIe switch, and no other links.
    ///
    /// # Errors
    /// [`BuildError::TooManyDevices`].
    pub fn pcie_pairs(devices: u16) -> Result<Self, BuildError> {
        pairs(devices)?.0.build()
    }

    /// As [`Machine::pcie_pairs`], with `lanes` lanes of `kind` inside each pair as well: near
    /// neighbours, cousins under the same host bridge, and strangers on the other socket.
    ///
    /// # Errors
    /// [`BuildError::TooManyDevices`] or [`BuildError::NoLanes`].
    pub fn linked_pairs(devices: u16, kind: LinkKind, lanes: u16) -> Result<Self, BuildError> {
        let (mut builder, nodes) = pairs(devices)?;
        for pair in nodes.chunks_exact(2) {
            builder.join(pair[0], pair[1], kind, lanes)?;
        }
        builder.build()
    }

    /// A host that shows neither its buses nor its NUMA nodes, and `devices` devices that a driver
    /// found in it: every distance is unknown, and copies can still be staged.
    ///
    /// # Errors
    /// [`BuildError::TooManyDevices`].
    pub fn unknown_host(devices: u16) -> Result<Self, BuildError> {
        let mut builder = MachineBuilder::new();
        builder.warn(Warning::NoPciBus);
        builder.warn(Warning::NoNumaNodes);
        let memory = builder.numa(NumaId::new(0), CpuList::default())?;
        for number in 0..devices {
            let device = builder.device(format!("DEV{number}"))?;
            builder.join(device, memory, LinkKind::Unknown, 1)?;
        }
        builder.build()
    }
}

/// Two sockets: memory and a host bridge each. Returns the host bridges.
fn sockets(builder: &mut MachineBuilder) -> Result<[NodeId; 2], BuildError> {
    let mut socket = |number: u16| {
        let memory = builder.numa(NumaId::new(number), CpuList::default())?;
        let bridge = builder.host_bridge(format!("host bridge {number}"))?;
        builder.join(bridge, memory, LinkKind::MemoryBus, 1)?;
        Ok((memory, bridge))
    };
    let (first_memory, first) = socket(0)?;
    let (second_memory, second) = socket(1)?;
    builder.join(first_memory, second_memory, LinkKind::Smp, 1)?;
    Ok([first, second])
}

/// Devices in slots of their own, half on each socket.
fn slots(devices: u16) -> Result<(MachineBuilder, Vec<NodeId>), BuildError> {
    let mut builder = MachineBuilder::new();
    let bridges = sockets(&mut builder)?;
    let half = devices.div_ceil(2);
    let mut nodes = Vec::new();
    for number in 0..devices {
        let device = builder.device(format!("DEV{number}"))?;
        let bridge = bridges[usize::from(number >= half)];
        builder.join(device, bridge, SLOT, SLOT_LANES)?;
        nodes.push(device);
    }
    Ok((builder, nodes))
}

/// Devices in pairs under switches, half of the switches on each socket.
fn pairs(devices: u16) -> Result<(MachineBuilder, Vec<NodeId>), BuildError> {
    let mut builder = MachineBuilder::new();
    let bridges = sockets(&mut builder)?;
    let switches = devices.div_ceil(2);
    let half = switches.div_ceil(2);
    let mut nodes = Vec::new();
    for number in 0..switches {
        let switch = builder.switch(format!("switch {number}"))?;
        let bridge = bridges[usize::from(number >= half)];
        builder.join(switch, bridge, SLOT, SLOT_LANES)?;
        for device in (2 * number..devices).take(2) {
            let node = builder.device(format!("DEV{device}"))?;
            builder.join(node, switch, SLOT, SLOT_LANES)?;
            nodes.push(node);
        }
    }
    Ok((builder, nodes))
}
