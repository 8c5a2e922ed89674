//! Makes up the smallest machine whose distances a matrix states.
//!
//! Things as near as a word says form a group, and the groups nest: NUMA node, host bridge, switch over
//! switches, switch. Where a group's members are not all that near to each other, no tree does it;
//! then each near pair gets switches of its own, which nobody else can pass.

use std::collections::BTreeMap;

use super::{ToolMatrix, fabric};
use crate::builder::MachineBuilder;
use crate::cpu_list::CpuList;
use crate::distance::Distance;
use crate::error::{BuildError, Warning};
use crate::id::{NodeId, NumaId};
use crate::link::{LinkKind, PcieGeneration};
use crate::machine::Machine;

/// What a slot is likely to be, where the tool does not say.
const SLOT: LinkKind = LinkKind::Pcie(PcieGeneration::Gen3);
const SLOT_LANES: u16 = 16;

pub(super) fn machine(matrix: &ToolMatrix) -> Result<Machine, BuildError> {
    let mut assembly = Assembly {
        matrix,
        builder: MachineBuilder::new(),
        nodes: Vec::new(),
    };
    assembly.add_endpoints()?;
    let numa = assembly.numa_groups();
    assembly.add_memories(&numa)?;
    fabric::join(matrix, &assembly.nodes, &mut assembly.builder)?;
    assembly.warn_of_the_text();
    let built = assembly.builder.clone().build()?;
    assembly.warn_of_differences(&built);
    assembly.builder.build()
}

struct Assembly<'m> {
    matrix: &'m ToolMatrix,
    builder: MachineBuilder,
    /// The node of each row.
    nodes: Vec<NodeId>,
}

impl Assembly<'_> {
    fn add_endpoints(&mut self) -> Result<(), BuildError> {
        for endpoint in &self.matrix.endpoints {
            let node = if endpoint.is_nic {
                self.builder.nic(&*endpoint.name)?
            } else {
                self.builder.device(&*endpoint.name)?
            };
            self.nodes.push(node);
        }
        Ok(())
    }

    fn near(&self, a: usize, b: usize, limit: Distance) -> bool {
        let distance = self.matrix.host_distance(a, b);
        distance.is_some_and(|distance| distance <= limit)
    }

    /// Who shares a NUMA node: by what the tool says of each, else by how near they are.
    fn numa_groups(&self) -> Vec<Vec<usize>> {
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        let groups = groups(&all, |a, b| match self.same_affinity(a, b) {
            Some(same) => same,
            None => self.near(a, b, Distance::Node),
        });
        // Whoever is far from nobody may be anywhere: with the first.
        let is_placed = |group: &Vec<usize>| {
            group.iter().any(|&member| {
                let endpoint = &self.matrix.endpoints[member];
                let far = |other| self.matrix.host_distance(member, other) == Some(Distance::Sys);
                endpoint.numa.is_some()
                    || endpoint.cpus.is_some()
                    || all.iter().any(|&other| far(other))
            })
        };
        let (mut placed, anywhere): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_placed);
        let anywhere: Vec<usize> = anywhere.into_iter().flatten().collect();
        match placed.first_mut() {
            Some(first) => first.extend(anywhere),
            None if anywhere.is_empty() => {}
            None => placed.push(anywhere),
        }
        placed.sort_by_key(|group| self.first_cpu(group));
        placed
    }

    fn same_affinity(&self, a: usize, b: usize) -> Option<bool> {
        let (a, b) = (&self.matrix.endpoints[a], &self.matrix.endpoints[b]);
        match (a.numa, b.numa) {
            (Some(a), Some(b)) => Some(a == b),
            _ => Some(a.cpus.as_ref()? == b.cpus.as_ref()?),
        }
    }

    /// Sorts NUMA nodes as the operating system is likely to: by number, else by processor.
    fn first_cpu(&self, group: &[usize]) -> (Option<NumaId>, bool, Option<u32>, usize) {
        let endpoints = || group.iter().map(|&member| &self.matrix.endpoints[member]);
        let cpu = endpoints().find_map(|endpoint| endpoint.cpus.as_ref()?.first());
        let numa = endpoints().find_map(|endpoint| endpoint.numa);
        (
            numa,
            cpu.is_none(),
            cpu,
            group.first().copied().unwrap_or(0),
        )
    }

    fn add_memories(&mut self, groups: &[Vec<usize>]) -> Result<(), BuildError> {
        let stated = |group: &Vec<usize>| {
            let mut members = group.iter().map(|&member| &self.matrix.endpoints[member]);
            members.find_map(|endpoint| endpoint.numa)
        };
        let stated: Vec<Option<NumaId>> = groups.iter().map(stated).collect();
        let mut free = (0..=u16::MAX)
            .map(NumaId::new)
            .filter(|id| !stated.contains(&Some(*id)));
        let mut memories = Vec::new();
        for (group, stated) in groups.iter().zip(&stated) {
            let id = stated.or_else(|| free.next()).unwrap_or(NumaId::new(0));
            let cpus = group
                .iter()
                .find_map(|&member| self.matrix.endpoints[member].cpus.clone());
            if stated.is_none() && cpus.is_none() {
                let node = self.nodes[group[0]];
                self.builder.warn(Warning::StandInNuma { numa: id, node });
            }
            let memory = self.builder.numa(id, cpus.unwrap_or_default())?;
            self.add_host_bridges(group, memory)?;
            memories.push(memory);
        }
        if memories.is_empty() {
            memories.push(self.builder.numa(NumaId::new(0), CpuList::default())?);
        }
        for (position, a) in memories.iter().enumerate() {
            for b in &memories[position + 1..] {
                self.builder.join(*a, *b, LinkKind::Smp, 1)?;
            }
        }
        self.add_near_strangers(groups)
    }

    fn add_host_bridges(&mut self, group: &[usize], memory: NodeId) -> Result<(), BuildError> {
        for members in groups(group, |a, b| self.near(a, b, Distance::Phb)) {
            let name = format!("host bridge of {}", self.name(members[0]));
            let bridge = self.builder.host_bridge(name)?;
            self.builder.join(bridge, memory, LinkKind::MemoryBus, 1)?;
            for members in groups(&members, |a, b| self.near(a, b, Distance::Pxb)) {
                self.add_switches(&members, bridge)?;
            }
        }
        Ok(())
    }

    fn add_switches(&mut self, members: &[usize], bridge: NodeId) -> Result<(), BuildError> {
        let leaves = groups(members, |a, b| self.near(a, b, Distance::Pix));
        let agree = |group: &[usize], limit| {
            pairs(group).all(|(a, b)| {
                let distance = self.matrix.host_distance(a, b);
                distance.is_none_or(|distance| distance <= limit)
            })
        };
        let is_tree =
            agree(members, Distance::Pxb) && leaves.iter().all(|leaf| agree(leaf, Distance::Pix));
        if !is_tree {
            for &member in members {
                self.builder
                    .join(self.nodes[member], bridge, SLOT, SLOT_LANES)?;
            }
            return pairs(members).try_for_each(|(a, b)| self.add_own_switches(a, b));
        }
        let above = if leaves.len() > 1 {
            self.switch_below(bridge, format!("upper switch of {}", self.name(members[0])))?
        } else {
            bridge
        };
        for leaf in &leaves {
            let mut at = above;
            if leaf.len() > 1 || leaves.len() > 1 {
                at = self.switch_below(above, format!("switch of {}", self.name(leaf[0])))?;
            }
            for &member in leaf {
                self.builder
                    .join(self.nodes[member], at, SLOT, SLOT_LANES)?;
            }
        }
        Ok(())
    }

    fn switch_below(&mut self, above: NodeId, name: String) -> Result<NodeId, BuildError> {
        let switch = self.builder.switch(name)?;
        self.builder.join(switch, above, SLOT, SLOT_LANES)?;
        Ok(switch)
    }

    /// Pairs said to share a switch although they belong to different NUMA nodes.
    fn add_near_strangers(&mut self, numa: &[Vec<usize>]) -> Result<(), BuildError> {
        let mut group_of = BTreeMap::new();
        for (number, group) in numa.iter().enumerate() {
            group_of.extend(group.iter().map(|&member| (member, number)));
        }
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        pairs(&all)
            .filter(|(a, b)| group_of.get(a) != group_of.get(b))
            .try_for_each(|(a, b)| self.add_own_switches(a, b))
    }

    /// One switch between the two for `PIX`, two for `PXB`, none for what is farther.
    fn add_own_switches(&mut self, a: usize, b: usize) -> Result<(), BuildError> {
        let switches = match self.matrix.host_distance(a, b) {
            Some(Distance::Pix) => 1,
            Some(Distance::Pxb) => 2,
            _ => return Ok(()),
        };
        let mut at = self.nodes[a];
        for number in 1..=switches {
            let name = format!("switch {number} of {} and {}", self.name(a), self.name(b));
            let switch = self.builder.switch(name)?;
            self.builder.join(at, switch, SLOT, SLOT_LANES)?;
            at = switch;
        }
        self.builder.join(at, self.nodes[b], SLOT, SLOT_LANES)
    }

    fn name(&self, row: usize) -> &str {
        // Half of what a name may have, so that two fit beside a few words.
        let name = &self.matrix.endpoints[row].name;
        name.get(..40).unwrap_or(name)
    }

    fn warn_of_the_text(&mut self) {
        let side = self.nodes.len();
        for a in 0..side {
            let row: Vec<_> = (0..side).map(|b| self.matrix.cells.get(a, b)).collect();
            if row.iter().all(|cell| cell.copied().flatten().is_none()) {
                self.builder.warn(Warning::NoRow {
                    node: self.nodes[a],
                });
            }
            for b in a + 1..side {
                let cell = |row, column| self.matrix.cells.get(row, column).copied().flatten();
                let both = cell(a, b).zip(cell(b, a));
                if both.is_some_and(|(there, back)| there != back) {
                    let (a, b) = (self.nodes[a], self.nodes[b]);
                    self.builder.warn(Warning::Asymmetric { a, b });
                }
            }
        }
    }

    fn warn_of_differences(&mut self, built: &Machine) {
        let relations = built.relations(&self.nodes);
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        for (a, b) in pairs(&all) {
            let stated = self.matrix.said(a, b).map(|said| said.to_string());
            let found = relations.get(a, b).map(ToString::to_string);
            if stated.is_some() && stated != found {
                let (a, b) = (self.nodes[a], self.nodes[b]);
                self.builder.warn(Warning::NotAsStated { a, b });
            }
        }
    }
}

fn pairs(members: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let with_later =
        |(position, &a): (usize, &usize)| members[position + 1..].iter().map(move |&b| (a, b));
    members.iter().enumerate().flat_map(with_later)
}

/// The parts that `joined` ties together, each in the order of `members`.
pub(super) fn groups(members: &[usize], joined: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let mut left: Vec<usize> = members.to_vec();
    let mut groups = Vec::new();
    while let Some(first) = left.first().copied() {
        let mut group = vec![first];
        left.remove(0);
        let mut looked = 0;
        while let Some(&member) = group.get(looked) {
            let (near, far) = left.iter().partition(|&&other| joined(member, other));
            left = far;
            group.extend::<Vec<usize>>(near);
            looked += 1;
        }
        group.sort_unstable();
        groups.push(group);
    }
    groups
}
