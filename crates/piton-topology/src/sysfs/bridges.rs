//! The PCI tree above the endpoints: who is below whom, and which ports together are one switch.
//!
//! To the operating system a switch is several bridges: one towards the host (upstream) whose bus is
//! the inside of the switch, and on that bus one towards each device (downstream). A port of the host
//! bridge (root port) looks the same. Where the configuration space does not say which is which,
//! the shape does: a bus with several slots of bridges is the inside of a switch; a port on the root
//! bus is a root port; below an upstream port are downstream ports; below any other port, upstream ones.

use std::collections::{BTreeMap, BTreeSet};

use super::{PciFunction, PortType, SysfsTree};
use crate::pci::{PciAddress, PciIdentity};

/// The listed bridges above `function`, nearest first.
pub(super) fn chain(tree: &SysfsTree, function: &PciFunction) -> Vec<PciAddress> {
    match &function.ancestors {
        Some(ancestors) => ancestors
            .iter()
            .copied()
            .filter(|above| find(tree, *above).is_some_and(is_bridge))
            .collect(),
        None => chain_by_bus(tree, function.address),
    }
}

/// Without a real path, a bridge is above a function if the function's bus is in its range.
fn chain_by_bus(tree: &SysfsTree, below: PciAddress) -> Vec<PciAddress> {
    let mut above: Vec<(u8, PciAddress)> = tree
        .functions
        .iter()
        .filter(|bridge| is_bridge(bridge) && bridge.address.domain() == below.domain())
        .filter_map(|bridge| {
            let (first, last) = bridge.buses?;
            let inside = (first..=last).contains(&below.bus()) && bridge.address != below;
            inside.then_some((last.saturating_sub(first), bridge.address))
        })
        .collect();
    // The narrowest range is the nearest bridge.
    above.sort_unstable();
    above.into_iter().map(|(_, address)| address).collect()
}

/// The function at an address; `functions` is sorted.
pub(super) fn find(tree: &SysfsTree, address: PciAddress) -> Option<&PciFunction> {
    let position = tree
        .functions
        .binary_search_by_key(&address, |function| function.address);
    position.ok().map(|position| &tree.functions[position])
}

fn is_bridge(function: &PciFunction) -> bool {
    function.identity.is_some_and(PciIdentity::is_bridge)
}

/// The domain and root bus of the host bridge a function hangs off.
pub(super) fn root_bus(function: &PciFunction, chain: &[PciAddress]) -> (u32, u8) {
    let by_path = function.ancestors.as_ref().and_then(|path| path.last());
    let top = by_path.or(chain.last()).unwrap_or(&function.address);
    (top.domain(), top.bus())
}

/// What a bridge is to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A node of its own: an upstream port, or a root port that several functions share.
    Switch,
    /// Part of the node above: a downstream port of the switch, or a root port of the host bridge.
    Port,
}

/// A bridge above some endpoint.
struct Bridge {
    parent: Option<PciAddress>,
    /// Slots of the bridges right below.
    bridge_slots: BTreeSet<u8>,
    /// Endpoints and bridges right below.
    children: BTreeSet<PciAddress>,
    port: Option<PortType>,
}

/// The bridges above the endpoints, each with its role.
pub(super) struct Bridges {
    bridges: BTreeMap<PciAddress, Bridge>,
    roles: BTreeMap<PciAddress, Role>,
}

impl Bridges {
    /// Takes the chain above each endpoint, as [`chain`] gives it.
    pub(super) fn new<'a>(
        tree: &SysfsTree,
        chains: impl Iterator<Item = (PciAddress, &'a [PciAddress])>,
    ) -> Self {
        let mut bridges = BTreeMap::new();
        let mut top_down = Vec::new();
        for (endpoint, chain) in chains {
            add_chain(tree, &mut bridges, endpoint, chain);
            top_down.extend(
                chain
                    .iter()
                    .rev()
                    .enumerate()
                    .map(|(depth, at)| (depth, *at)),
            );
        }
        // A role depends on the role above.
        top_down.sort_unstable();
        top_down.dedup();
        let mut this = Self {
            bridges,
            roles: BTreeMap::new(),
        };
        let mut upstream = BTreeSet::new();
        for (_, address) in top_down {
            this.decide(address, &mut upstream);
        }
        this
    }

    /// The bridges that are nodes, each with the bridge above it.
    pub(super) fn switches(&self) -> impl Iterator<Item = (PciAddress, Option<PciAddress>)> {
        let is_switch = |(_, role): &(_, &Role)| **role == Role::Switch;
        let switches = self.roles.iter().filter(is_switch);
        switches.map(|(address, _)| (*address, self.parent(*address)))
    }

    /// The bridge whose node a thing below `port` is joined to; `None` for the host bridge.
    pub(super) fn node_above(&self, port: Option<PciAddress>) -> Option<PciAddress> {
        let mut at = port;
        // A chain is no longer than the number of bridges, so this ends even in a tree with a loop.
        for _ in 0..=self.bridges.len() {
            let address = at?;
            if self.roles.get(&address) == Some(&Role::Switch) {
                return Some(address);
            }
            at = self.parent(address);
        }
        None
    }

    fn parent(&self, address: PciAddress) -> Option<PciAddress> {
        self.bridges.get(&address)?.parent
    }

    fn decide(&mut self, address: PciAddress, upstream: &mut BTreeSet<PciAddress>) {
        let Some(bridge) = self.bridges.get(&address) else {
            return;
        };
        let below_upstream = bridge.parent.is_some_and(|above| upstream.contains(&above));
        let is_upstream = match bridge.port {
            Some(port) => port == PortType::Upstream,
            None if bridge.bridge_slots.len() > 1 => true,
            None => bridge.parent.is_some() && !below_upstream,
        };
        if is_upstream {
            upstream.insert(address);
        }
        let shared = !below_upstream && bridge.children.len() > 1;
        let role = if is_upstream || shared {
            Role::Switch
        } else {
            Role::Port
        };
        self.roles.entry(address).or_insert(role);
    }
}

fn add_chain(
    tree: &SysfsTree,
    bridges: &mut BTreeMap<PciAddress, Bridge>,
    endpoint: PciAddress,
    chain: &[PciAddress],
) {
    let mut below = endpoint;
    for (position, &address) in chain.iter().enumerate() {
        let bridge = bridges.entry(address).or_insert_with(|| Bridge {
            parent: chain.get(position + 1).copied(),
            bridge_slots: BTreeSet::new(),
            children: BTreeSet::new(),
            port: find(tree, address).and_then(|function| function.port),
        });
        bridge.children.insert(below);
        if position > 0 {
            bridge.bridge_slots.insert(below.slot());
        }
        below = address;
    }
}
