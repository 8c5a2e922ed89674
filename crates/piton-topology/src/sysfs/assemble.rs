//! Makes a machine of what a sysfs tree says. Pure.

use std::collections::{BTreeMap, HashSet};

use super::bridges::{self, Bridges};
use super::{PciFunction, SysfsTree};
use crate::builder::{MAX_NAME_BYTES, MachineBuilder};
use crate::cpu_list::CpuList;
use crate::error::{BuildError, Warning};
use crate::id::{NodeId, NumaId};
use crate::link::{Link, LinkKind, PcieGeneration};
use crate::machine::Machine;
use crate::pci::{PciAddress, PciIdentity};

/// What stands in for a link that does not say how fast it is.
const UNSAID_LINK: (PcieGeneration, u8) = (PcieGeneration::Gen3, 16);

pub(super) fn machine(tree: &SysfsTree) -> Result<Machine, BuildError> {
    let endpoints: Vec<Endpoint<'_>> = endpoints(tree);
    let chains = endpoints
        .iter()
        .map(|endpoint| (endpoint.function.address, &*endpoint.chain));
    let bridges = Bridges::new(tree, chains);
    let mut assembly = Assembly {
        tree,
        bridges,
        functions_below: functions_below(tree),
        builder: MachineBuilder::new(),
        host_bridges: BTreeMap::new(),
        switches: BTreeMap::new(),
        names: HashSet::new(),
    };
    if !tree.has_pci_bus {
        assembly.builder.warn(Warning::NoPciBus);
    }
    let memories = assembly.add_memories()?;
    assembly.add_host_bridges(&endpoints, &memories)?;
    assembly.add_switches(&endpoints)?;
    for endpoint in &endpoints {
        assembly.add_endpoint(endpoint)?;
    }
    assembly.builder.build()
}

/// A device or network controller, and the bridges above it.
struct Endpoint<'t> {
    function: &'t PciFunction,
    identity: PciIdentity,
    chain: Vec<PciAddress>,
    root: (u32, u8),
}

fn endpoints(tree: &SysfsTree) -> Vec<Endpoint<'_>> {
    tree.functions
        .iter()
        .filter_map(|function| {
            let identity = function.identity?;
            (identity.is_device() || identity.is_nic()).then(|| {
                let chain = bridges::chain(tree, function);
                let root = bridges::root_bus(function, &chain);
                Endpoint {
                    function,
                    identity,
                    chain,
                    root,
                }
            })
        })
        .collect()
}

/// The memory node of each NUMA node.
type Memories = Vec<(NumaId, CpuList, NodeId)>;

/// The functions below each host bridge, by address.
type FunctionsBelow<'t> = BTreeMap<(u32, u8), Vec<&'t PciFunction>>;

fn functions_below(tree: &SysfsTree) -> FunctionsBelow<'_> {
    let mut below = FunctionsBelow::new();
    for function in &tree.functions {
        let chain = bridges::chain(tree, function);
        let root = bridges::root_bus(function, &chain);
        below.entry(root).or_default().push(function);
    }
    below
}

struct Assembly<'t> {
    tree: &'t SysfsTree,
    bridges: Bridges,
    functions_below: FunctionsBelow<'t>,
    builder: MachineBuilder,
    host_bridges: BTreeMap<(u32, u8), NodeId>,
    switches: BTreeMap<PciAddress, NodeId>,
    names: HashSet<String>,
}

impl Assembly<'_> {
    fn add_memories(&mut self) -> Result<Memories, BuildError> {
        let mut memories = Memories::new();
        for numa in &self.tree.numa {
            let node = self.builder.numa(numa.id, numa.cpus.clone())?;
            memories.push((numa.id, numa.cpus.clone(), node));
        }
        if memories.is_empty() {
            self.builder.warn(Warning::NoNumaNodes);
            let (id, cpus) = (NumaId::new(0), CpuList::default());
            let node = self.builder.numa(id, cpus.clone())?;
            memories.push((id, cpus, node));
        }
        for (position, (.., a)) in memories.iter().enumerate() {
            for (.., b) in &memories[position + 1..] {
                self.builder.join(*a, *b, LinkKind::Smp, 1)?;
            }
        }
        Ok(memories)
    }

    fn add_host_bridges(
        &mut self,
        endpoints: &[Endpoint<'_>],
        memories: &Memories,
    ) -> Result<(), BuildError> {
        for endpoint in endpoints {
            if self.host_bridges.contains_key(&endpoint.root) {
                continue;
            }
            let bridge = self.builder.host_bridge(super::root_name(endpoint.root))?;
            self.host_bridges.insert(endpoint.root, bridge);
            let near = self.memories_near(endpoint.root, memories);
            if near.len() > 1 {
                self.builder.warn(Warning::NoNumaNode {
                    node: bridge,
                    candidates: near.len(),
                });
            }
            for memory in near {
                self.builder.join(bridge, memory, LinkKind::MemoryBus, 1)?;
            }
        }
        Ok(())
    }

    /// The memory a host bridge belongs to: by the NUMA node of some function below it, else by the
    /// processors near one, else any.
    fn memories_near(&self, root: (u32, u8), memories: &Memories) -> Vec<NodeId> {
        let below = self.functions_below.get(&root);
        let below = below.map_or(&[][..], |below| &below[..]);
        let said = below.iter().filter_map(|function| function.numa);
        for numa in said {
            if let Some((.., node)) = memories.iter().find(|(id, ..)| *id == numa) {
                return vec![*node];
            }
        }
        let cpus = below
            .iter()
            .find_map(|function| function.local_cpus.as_ref());
        let touches = |near: &CpuList| {
            let near = memories.iter().filter(|(_, cpus, _)| cpus.intersects(near));
            near.map(|(.., node)| *node).collect::<Vec<_>>()
        };
        cpus.map(touches)
            .filter(|near| !near.is_empty())
            .unwrap_or_else(|| memories.iter().map(|(.., node)| *node).collect())
    }

    fn add_switches(&mut self, endpoints: &[Endpoint<'_>]) -> Result<(), BuildError> {
        let roots = roots_of_bridges(endpoints);
        let switches: Vec<_> = self.bridges.switches().collect();
        for (address, _) in &switches {
            let node = self.builder.switch(address.to_string())?;
            let identity = bridges::find(self.tree, *address).and_then(|port| port.identity);
            self.builder.pci(node, *address, identity);
            self.names.insert(address.to_string());
            self.switches.insert(*address, node);
        }
        for (address, above) in switches {
            let Some((function, root)) =
                bridges::find(self.tree, address).zip(roots.get(&address).copied())
            else {
                continue;
            };
            let node = self.switches[&address];
            self.join_to_above(node, function, above, root)?;
        }
        Ok(())
    }

    fn add_endpoint(&mut self, endpoint: &Endpoint<'_>) -> Result<(), BuildError> {
        let function = endpoint.function;
        let node = if endpoint.identity.is_device() {
            let name = self.unique_name(device_name(endpoint.identity, self.builder.devices.len()));
            self.builder.device(name)?
        } else {
            let name = function.names.first().cloned();
            let name = self.unique_name(name.unwrap_or_else(|| function.address.to_string()));
            self.builder.nic(name)?
        };
        self.builder
            .pci(node, function.address, Some(endpoint.identity));
        let above = endpoint.chain.first().copied();
        self.join_to_above(node, function, above, endpoint.root)
    }

    /// Joins a node to the switch that `port` is part of, or to its host bridge.
    fn join_to_above(
        &mut self,
        node: NodeId,
        function: &PciFunction,
        port: Option<PciAddress>,
        root: (u32, u8),
    ) -> Result<(), BuildError> {
        let above = self
            .bridges
            .node_above(port)
            .and_then(|switch| self.switches.get(&switch).copied())
            .or_else(|| self.host_bridges.get(&root).copied());
        let Some(above) = above else {
            return Ok(());
        };
        let port = port.and_then(|port| bridges::find(self.tree, port));
        let said = link_of(function, port);
        let (generation, width) = said.unwrap_or(UNSAID_LINK);
        let kind = LinkKind::Pcie(generation);
        let link = Link::with_defaults(node, above, kind, width.into());
        if said.is_some() {
            return self.builder.link(link.declared());
        }
        self.builder.warn(Warning::NoLinkSpeed { node });
        self.builder.link(link)
    }

    /// The name itself if it can be one and is free, else one with a number behind.
    fn unique_name(&mut self, wanted: String) -> String {
        let fits = wanted.len() <= MAX_NAME_BYTES / 2 && !wanted.chars().any(char::is_control);
        let wanted = if fits { wanted } else { "unnamed".to_owned() };
        let mut name = wanted.clone();
        let mut number = 2_u32;
        while !self.names.insert(name.clone()) {
            name = format!("{wanted} ({number})");
            number += 1;
        }
        name
    }
}

/// The host bridge of each bridge, by the endpoints below it.
fn roots_of_bridges(endpoints: &[Endpoint<'_>]) -> BTreeMap<PciAddress, (u32, u8)> {
    let of_chain = |endpoint: &Endpoint<'_>| {
        let root = endpoint.root;
        let chain = endpoint.chain.clone();
        chain.into_iter().map(move |bridge| (bridge, root))
    };
    endpoints.iter().flat_map(of_chain).collect()
}

/// What people call a device: the vendor's word and its number.
fn device_name(identity: PciIdentity, number: usize) -> String {
    const NVIDIA: u16 = 0x10de;
    const AMD: u16 = 0x1002;
    const INTEL: u16 = 0x8086;
    const HUAWEI: u16 = 0x19e5;
    let word = match identity.vendor {
        NVIDIA | AMD | INTEL => "GPU",
        HUAWEI => "NPU",
        _ => "DEV",
    };
    format!("{word}{number}")
}

/// Generation and width of the link between a function and the port above it.
///
/// The speed is the most both ends can do: an idle device runs its link at the first generation, and
/// copies wake it. The width is what was negotiated: it does not change with load, and a slot with
/// fewer wires shows there alone.
fn link_of(function: &PciFunction, port: Option<&PciFunction>) -> Option<(PcieGeneration, u8)> {
    let ends = || [Some(function), port].into_iter().flatten();
    let least_speed = ends()
        .filter_map(|end| end.max.megatransfers.or(end.current.megatransfers))
        .min();
    let least_width = ends()
        .filter_map(|end| end.current.width.or(end.max.width))
        .min();
    PcieGeneration::from_megatransfers(least_speed?).zip(least_width)
}
