//! Random machines: few nodes, any links between them, few different rates so that ties are common.

use piton_topology::{
    BytesPerSec, CpuList, Link, LinkKind, Machine, MachineBuilder, Nanos, NodeId, NumaId,
    NvLinkVersion, PcieGeneration,
};
use proptest::prelude::*;

/// The parts of a machine, apart from the order of its devices.
#[derive(Clone, Debug)]
pub(crate) struct RandomMachine {
    pub(crate) devices: usize,
    /// How many NUMA nodes, host bridges, switches, link switches and network controllers.
    others: [usize; 5],
    links: Vec<RandomLink>,
}

/// A link between two of the parts: devices by number first, then the others.
#[derive(Clone, Debug)]
struct RandomLink {
    ends: (prop::sample::Index, prop::sample::Index),
    kind: LinkKind,
    lanes: u16,
    /// Gigabytes a second each way.
    rates: (u64, u64),
    latency: u64,
}

/// Any machine of up to six devices and a dozen other nodes.
pub(crate) fn machines() -> impl Strategy<Value = RandomMachine> {
    let others = [0..3_usize, 0..4, 0..5, 0..3, 0..3];
    (0..7_usize, others, prop::collection::vec(link(), 0..30)).prop_map(
        |(devices, others, links)| RandomMachine {
            devices,
            others,
            links,
        },
    )
}

fn link() -> impl Strategy<Value = RandomLink> {
    let kinds = [
        LinkKind::Pcie(PcieGeneration::Gen4),
        LinkKind::NvLink(NvLinkVersion::V3),
        LinkKind::Hccs,
        LinkKind::Sio,
        LinkKind::Smp,
        LinkKind::MemoryBus,
        LinkKind::Unknown,
    ];
    (
        any::<(prop::sample::Index, prop::sample::Index)>(),
        prop::sample::select(kinds.to_vec()),
        1..4_u16,
        (1..6_u64, 1..6_u64),
        0..5_u64,
    )
        .prop_map(|(ends, kind, lanes, rates, latency)| RandomLink {
            ends,
            kind,
            lanes,
            rates,
            latency: latency * 100,
        })
}

impl RandomMachine {
    pub(crate) fn build(&self) -> Machine {
        let order: Vec<usize> = (0..self.devices).collect();
        self.build_in_order(&order)
    }

    /// `order[place]` is the number of the device that is added at that place.
    pub(crate) fn build_in_order(&self, order: &[usize]) -> Machine {
        let mut builder = MachineBuilder::new();
        let mut nodes = vec![NodeId::new(0); self.devices];
        for &number in order {
            nodes[number] = builder.device(format!("device {number}")).unwrap();
        }
        let [memories, bridges, switches, link_switches, nics] = self.others;
        for number in 0..memories {
            let id = NumaId::new(u16::try_from(number).unwrap());
            nodes.push(builder.numa(id, CpuList::default()).unwrap());
        }
        for number in 0..bridges {
            nodes.push(builder.host_bridge(format!("bridge {number}")).unwrap());
        }
        for number in 0..switches {
            nodes.push(builder.switch(format!("switch {number}")).unwrap());
        }
        for number in 0..link_switches {
            nodes.push(builder.link_switch(format!("fabric {number}")).unwrap());
        }
        for number in 0..nics {
            nodes.push(builder.nic(format!("nic {number}")).unwrap());
        }
        if !nodes.is_empty() {
            self.add_links(&mut builder, &nodes);
        }
        builder.build().unwrap()
    }

    fn add_links(&self, builder: &mut MachineBuilder, nodes: &[NodeId]) {
        for link in &self.links {
            let (a, b) = (link.ends.0.get(nodes), link.ends.1.get(nodes));
            let gigabytes = |rate: u64| BytesPerSec::from_mb(1_000 * rate);
            let link = Link {
                up: gigabytes(link.rates.0),
                down: gigabytes(link.rates.1),
                latency: Nanos::new(link.latency),
                ..Link::with_defaults(*a, *b, link.kind, link.lanes)
            };
            builder.link(link).unwrap();
        }
    }
}
