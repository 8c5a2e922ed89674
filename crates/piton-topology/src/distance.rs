//! How far apart two nodes are, in the words every vendor's tool uses, and which link says so.
//!
//! The class of a pair is the class of its nearest path: a device fabric first, then the PCIe tree,
//! then the sockets. Passing through another device does not count; nobody's driver does it unasked.

use core::fmt;
use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::id::NodeId;
use crate::link::LinkKind;
use crate::machine::Machine;
use crate::matrix::Matrix;
use crate::node::NodeKind;
use crate::search::{Step, Tree};

/// How far apart two nodes are; nearer is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Distance {
    /// The same node (`X`, `LOC`).
    Same,
    /// Dies of one package (`SIO`).
    Package,
    /// A direct fabric link (`NV#`, `XGMI`, `HCCS`).
    Link,
    /// Fabric links to a common switch (`NV#` with NVSwitch, `HCCS_SW`).
    LinkSwitch,
    /// At most one PCIe switch (`PIX`).
    Pix,
    /// Several PCIe switches, no host bridge (`PXB`).
    Pxb,
    /// One host bridge (`PHB`).
    Phb,
    /// Several host bridges of one NUMA node (`NODE`).
    Node,
    /// Several NUMA nodes (`SYS`).
    Sys,
    /// Nobody can say: no path is known, or only an unknown link (`NA`).
    Unknown,
}

/// Words of the vendors' matrices and what they mean here. `NV` is followed by a count of links.
///
/// Sources: the legends printed by `nvidia-smi topo -m` and `npu-smi info -t topo`, and the path
/// types of NCCL's `topo.h`.
const WORDS: [(&str, Distance); 18] = [
    ("X", Distance::Same),
    ("LOC", Distance::Same),
    ("SIO", Distance::Package),
    ("NV", Distance::Link),
    ("NVL", Distance::Link),
    ("XGMI", Distance::Link),
    ("HCCS", Distance::Link),
    ("C2C", Distance::Link),
    ("HCCS_SW", Distance::LinkSwitch),
    ("PIX", Distance::Pix),
    ("PIB", Distance::Pix),
    ("PXB", Distance::Pxb),
    ("PHB", Distance::Phb),
    ("NODE", Distance::Node),
    ("SYS", Distance::Sys),
    ("SOC", Distance::Sys),
    ("NA", Distance::Unknown),
    ("DIS", Distance::Unknown),
];

impl Distance {
    /// What a word of a vendor's matrix means, or `None` for a word no tool is known to print.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let letters = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let (_, distance) = WORDS.iter().find(|(known, _)| *known == letters)?;
        Some(*distance)
    }

    /// The word for it where no link kind is known.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Same => "X",
            Self::Package => "SIO",
            Self::Link => "LINK",
            Self::LinkSwitch => "LINK_SW",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
            Self::Unknown => "NA",
        }
    }

    /// What the word says about the path, as the legend of a matrix explains it.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Same => "self",
            Self::Package => "the dies of one package",
            Self::Link => "a direct link of the device fabric (NV#: # links)",
            Self::LinkSwitch => "links of the device fabric to a common switch",
            Self::Pix => "at most one PCIe switch",
            Self::Pxb => "several PCIe switches, without crossing a host bridge",
            Self::Phb => "one PCIe host bridge",
            Self::Node => "PCIe host bridges of one NUMA node",
            Self::Sys => "the interconnect between NUMA nodes",
            Self::Unknown => "nothing known",
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// How two nodes are related: how far apart, and over which fabric if over one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Relation {
    /// The class of the nearest path.
    pub distance: Distance,
    /// Kind and lanes of the fabric link, or of the narrowest one on the way through link switches.
    pub fabric: Option<(LinkKind, u16)>,
}

impl fmt::Display for Relation {
    /// The cell of a matrix: `NV4`, `XGMI`, `HCCS_SW`, `PIX`, …
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fabric {
            Some((LinkKind::NvLink(_), lanes)) => f.pad(&format!("NV{lanes}")),
            Some((LinkKind::Xgmi(_), _)) => f.pad("XGMI"),
            Some((LinkKind::Hccs, _)) => f.pad("HCCS"),
            Some((LinkKind::HccsSwitch, _)) => f.pad("HCCS_SW"),
            Some((LinkKind::C2c, _)) => f.pad("C2C"),
            _ => self.distance.fmt(f),
        }
    }
}

impl Machine {
    /// How far apart each ordered pair of devices is, by device id.
    #[must_use]
    pub fn distances(&self) -> Matrix<Distance> {
        self.relations(self.devices())
            .map(|relation| relation.distance)
    }

    /// How each ordered pair of `nodes` is related, in their order. Nodes of another machine are
    /// [`Distance::Unknown`] to all but themselves.
    #[must_use]
    pub fn relations(&self, nodes: &[NodeId]) -> Matrix<Relation> {
        Matrix::by_rows(
            nodes.len(),
            |row| View::new(self, nodes[row]),
            |view, column| view.relation(nodes[column]),
        )
    }
}

/// What a path through the host crosses; compared from the left, so that one NUMA node less is worth
/// any number of switches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Crossed {
    unknown_links: u16,
    memories: u16,
    host_bridges: u16,
    switches: u16,
}

impl Crossed {
    fn through(self, machine: &Machine, source: NodeId, step: &Step<'_>) -> Option<Self> {
        let mut next = self;
        if step.link.kind == LinkKind::Unknown {
            next.unknown_links = next.unknown_links.saturating_add(1);
        }
        if step.from == source {
            return Some(next);
        }
        let count = match machine.kind(step.from) {
            NodeKind::Memory(_) => &mut next.memories,
            NodeKind::HostBridge => &mut next.host_bridges,
            NodeKind::Switch => &mut next.switches,
            NodeKind::Device(_) | NodeKind::Nic | NodeKind::LinkSwitch => return None,
        };
        *count = count.saturating_add(1);
        Some(next)
    }

    const fn distance(self) -> Distance {
        match self {
            Self {
                unknown_links: 1.., ..
            } => Distance::Unknown,
            Self { memories: 2.., .. } => Distance::Sys,
            Self { memories: 1, .. } => Distance::Node,
            Self {
                host_bridges: 1.., ..
            } => Distance::Phb,
            Self { switches: 2.., .. } => Distance::Pxb,
            _ => Distance::Pix,
        }
    }
}

/// Hops over fabric links, whether one of them leaves a package, the lanes of the narrowest: fewer hops
/// first, then dies of one package, then more lanes.
type FabricLabel = (u16, bool, Reverse<u16>);

/// A machine seen from one node.
struct View<'m> {
    machine: &'m Machine,
    from: NodeId,
    host: Option<Tree<Crossed>>,
    fabric: Option<Tree<FabricLabel>>,
}

impl<'m> View<'m> {
    fn new(machine: &'m Machine, from: NodeId) -> Self {
        let known = machine.node(from).is_some();
        let host = known.then(|| {
            Tree::search(machine, from, Crossed::default(), |label, step| {
                label.through(machine, from, step)
            })
        });
        let fabric = known.then(|| {
            Tree::search(
                machine,
                from,
                (0, false, Reverse(u16::MAX)),
                |label, step| fabric_step(machine, from, label, step),
            )
        });
        Self {
            machine,
            from,
            host,
            fabric,
        }
    }

    fn relation(&self, to: NodeId) -> Relation {
        if self.from == to {
            return Relation {
                distance: Distance::Same,
                fabric: None,
            };
        }
        self.fabric_relation(to).unwrap_or_else(|| {
            let crossed = self.host.as_ref().and_then(|tree| tree.label(to));
            Relation {
                distance: crossed.map_or(Distance::Unknown, Crossed::distance),
                fabric: None,
            }
        })
    }

    fn fabric_relation(&self, to: NodeId) -> Option<Relation> {
        let tree = self.fabric.as_ref()?;
        let (hops, _, Reverse(lanes)) = tree.label(to)?;
        let first = *tree.path_to(to).first()?;
        let kind = self.machine.link(first)?.kind;
        if hops > 1 {
            return Some(Relation {
                distance: Distance::LinkSwitch,
                fabric: Some((kind, lanes)),
            });
        }
        let distance = if kind == LinkKind::Sio {
            Distance::Package
        } else {
            Distance::Link
        };
        Some(Relation {
            distance,
            fabric: Some((kind, self.lanes_between(to, kind))),
        })
    }

    /// Lanes of all parallel links of one kind: some files write four NVLinks as four links.
    fn lanes_between(&self, to: NodeId, kind: LinkKind) -> u16 {
        self.machine
            .neighbours(self.from)
            .iter()
            .filter(|(_, end)| *end == to)
            .map(|(id, _)| &self.machine.links()[id.index()])
            .filter(|link| link.kind == kind)
            .fold(0, |lanes, link| lanes.saturating_add(link.lanes))
    }
}

fn fabric_step(
    machine: &Machine,
    source: NodeId,
    (hops, leaves, Reverse(lanes)): FabricLabel,
    step: &Step<'_>,
) -> Option<FabricLabel> {
    let passes = step.from == source || machine.kind(step.from) == NodeKind::LinkSwitch;
    if !passes || !step.link.kind.is_fabric() {
        return None;
    }
    Some((
        hops.saturating_add(1),
        leaves || step.link.kind != LinkKind::Sio,
        Reverse(lanes.min(step.link.lanes)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_a_relation_prints_is_read_back_as_its_distance() {
        for (word, distance) in [
            ("NV12", Distance::Link),
            ("PIX", Distance::Pix),
            ("HCCS_SW", Distance::LinkSwitch),
            ("SOC", Distance::Sys),
        ] {
            assert_eq!(Distance::from_word(word), Some(distance));
        }
        assert_eq!(Distance::from_word("FOO"), None);
        assert_eq!(Distance::from_word(""), None);
    }

    #[test]
    fn dies_of_a_package_stay_so_with_a_wider_link_beside() {
        let mut builder = crate::MachineBuilder::new();
        let a = builder.device("a").unwrap();
        let b = builder.device("b").unwrap();
        builder.join(a, b, LinkKind::Hccs, 7).unwrap();
        builder.join(a, b, LinkKind::Sio, 1).unwrap();
        let machine = builder.build().unwrap();
        assert_eq!(machine.distances().get(0, 1), Some(&Distance::Package));
    }

    #[test]
    fn parallel_links_are_counted_together() {
        let mut builder = crate::MachineBuilder::new();
        let a = builder.device("a").unwrap();
        let b = builder.device("b").unwrap();
        for (from, to) in [(a, b), (b, a), (a, b)] {
            let kind = LinkKind::NvLink(crate::NvLinkVersion::V2);
            builder.join(from, to, kind, 2).unwrap();
        }
        let machine = builder.build().unwrap();
        let relations = machine.relations(machine.devices());
        assert_eq!(relations.get(0, 1).unwrap().to_string(), "NV6");
    }

    #[test]
    fn nearer_is_smaller() {
        let words = [
            "X", "SIO", "NV1", "HCCS_SW", "PIX", "PXB", "PHB", "NODE", "SYS", "NA",
        ];
        let distances: Vec<_> = words.map(|word| Distance::from_word(word).unwrap()).into();
        assert!(distances.is_sorted_by(|near, far| near < far));
    }
}
