//! Where each box goes.
//!
//! The host's links make a forest: memory at the top, endpoints as leaves. Each leaf gets a column; a
//! box covers the columns of its leaves; its tier is its depth, and all endpoints share the last tier.

use std::collections::VecDeque;

use super::element::Rect;
use crate::id::NodeId;
use crate::link::LinkKind;
use crate::machine::Machine;
use crate::node::NodeKind;

/// Between boxes of one tier.
pub(super) const GAP: i32 = 14;
const COLUMN: i32 = 106;
const BOX_HEIGHT: i32 = 42;
const TIER: i32 = 74;
const MARGIN: i32 = 10;

/// How far the control points of an arc over `span` lie from its ends.
pub(super) fn arc_depth(span: i32) -> i32 {
    40 + span.min(16 * COLUMN) * 2 / 17
}

pub(super) struct Layout {
    places: Vec<Rect>,
    pub(super) width: i32,
    /// Below everything.
    pub(super) bottom: i32,
}

impl Layout {
    pub(super) fn new(machine: &Machine) -> Self {
        let forest = Forest::new(machine);
        let top = MARGIN + arcs_above(machine, &forest);
        let mut layout = Self {
            places: vec![Rect::default(); machine.nodes().len()],
            width: 2 * MARGIN + as_units(forest.columns.max(1)) * COLUMN - GAP,
            bottom: top,
        };
        let leaf_tier = forest.leaf_tier(machine);
        for &node in &forest.order {
            let tier = if machine.kind(node).is_endpoint() {
                leaf_tier
            } else {
                forest.depth[node.index()]
            };
            let y = top + as_units(tier) * TIER;
            layout.put(
                node,
                forest.first_column[node.index()],
                forest.leaves[node.index()],
                y,
            );
        }
        layout.bottom += arcs_below(machine, &layout);
        layout.put_link_switches(machine);
        layout
    }

    /// The box of a node; empty at the origin for a node of another machine.
    pub(super) fn place(&self, node: NodeId) -> Rect {
        self.places.get(node.index()).copied().unwrap_or_default()
    }

    fn put(&mut self, node: NodeId, first_column: usize, columns: usize, y: i32) {
        let place = Rect {
            x: MARGIN + as_units(first_column) * COLUMN,
            y,
            width: as_units(columns) * COLUMN - GAP,
            height: BOX_HEIGHT,
        };
        self.places[node.index()] = place;
        self.bottom = self.bottom.max(y + BOX_HEIGHT);
    }

    /// Below the devices, each as wide as the devices it joins.
    fn put_link_switches(&mut self, machine: &Machine) {
        let switches = machine
            .node_ids()
            .filter(|id| machine.kind(*id) == NodeKind::LinkSwitch);
        for id in switches {
            let joined = machine.neighbours(id).iter();
            let joined: Vec<Rect> = joined
                .map(|(_, end)| self.place(*end))
                .filter(|place| place.width > 0)
                .collect();
            let left = joined.iter().map(|place| place.x).min();
            let right = joined.iter().map(|place| place.x + place.width).max();
            let x = left.unwrap_or(MARGIN);
            let y = self.bottom + TIER - BOX_HEIGHT;
            self.places[id.index()] = Rect {
                x,
                y,
                width: right.unwrap_or(MARGIN + COLUMN - GAP) - x,
                height: BOX_HEIGHT - 2,
            };
            self.bottom = y + BOX_HEIGHT;
        }
    }
}

/// Room above the first tier for arcs between memories that are not next to each other.
fn arcs_above(machine: &Machine, forest: &Forest) -> i32 {
    let widest = machine
        .links()
        .iter()
        .filter(|link| link.kind == LinkKind::Smp)
        .map(|link| {
            let column = |node: NodeId| {
                let (first, leaves) = (
                    forest.first_column[node.index()],
                    forest.leaves[node.index()],
                );
                (first, first + leaves)
            };
            let (a, b) = (column(link.a), column(link.b));
            // Columns between the two, none for neighbours.
            if a.0.max(b.0) <= a.1.min(b.1) {
                0
            } else {
                a.1.max(b.1) - a.0.min(b.0)
            }
        })
        .max();
    match widest {
        None | Some(0) => 0,
        Some(columns) => arc_depth(as_units(columns) * COLUMN) * 3 / 8,
    }
}

/// Room below the endpoints for arcs of the device fabric.
fn arcs_below(machine: &Machine, layout: &Layout) -> i32 {
    let spans = machine.links().iter().filter_map(|link| {
        let (a, b) = (layout.place(link.a), layout.place(link.b));
        let direct = machine.kind(link.a).is_endpoint() && machine.kind(link.b).is_endpoint();
        direct.then_some((a.x - b.x).abs())
    });
    spans.max().map_or(0, |span| arc_depth(span) * 3 / 4)
}

/// Columns and tiers are far below `i32::MAX / COLUMN`: a machine has at most `MAX_NODES` of them.
fn as_units(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX / (2 * COLUMN))
}

/// The host's links as trees, without link switches.
struct Forest {
    /// Parents before children.
    order: Vec<NodeId>,
    parent: Vec<Option<NodeId>>,
    depth: Vec<usize>,
    /// Columns each node covers, at least one.
    leaves: Vec<usize>,
    first_column: Vec<usize>,
    columns: usize,
}

impl Forest {
    fn new(machine: &Machine) -> Self {
        let nodes = machine.nodes().len();
        let mut forest = Self {
            order: Vec::with_capacity(nodes),
            parent: vec![None; nodes],
            depth: vec![0; nodes],
            leaves: vec![0; nodes],
            first_column: vec![0; nodes],
            columns: 0,
        };
        let mut seen = vec![false; nodes];
        let memories = machine.numa().iter().map(|numa| numa.node);
        // What hangs off no memory stands on its own: other parts of the host before endpoints.
        let inner = machine
            .node_ids()
            .filter(|id| !machine.kind(*id).is_endpoint());
        let roots: Vec<NodeId> = memories.chain(inner).chain(machine.node_ids()).collect();
        for root in roots {
            if machine.kind(root) != NodeKind::LinkSwitch && !seen[root.index()] {
                forest.grow(machine, root, &mut seen);
            }
        }
        forest.count_leaves();
        forest.give_columns();
        forest
    }

    /// Adds everything below `root` that is not seen yet, breadth first.
    fn grow(&mut self, machine: &Machine, root: NodeId, seen: &mut [bool]) {
        seen[root.index()] = true;
        let mut queue = VecDeque::from([root]);
        while let Some(node) = queue.pop_front() {
            self.order.push(node);
            if machine.kind(node).is_endpoint() {
                continue;
            }
            for &(link, below) in machine.neighbours(node) {
                let kind = machine.links()[link.index()].kind;
                let is_host = !matches!(
                    machine.kind(below),
                    NodeKind::Memory(_) | NodeKind::LinkSwitch
                );
                if kind == LinkKind::Smp || !is_host || seen[below.index()] {
                    continue;
                }
                seen[below.index()] = true;
                self.parent[below.index()] = Some(node);
                self.depth[below.index()] = self.depth[node.index()] + 1;
                queue.push_back(below);
            }
        }
    }

    fn count_leaves(&mut self) {
        for &node in self.order.iter().rev() {
            // A node without children is a leaf itself.
            let own = self.leaves[node.index()].max(1);
            self.leaves[node.index()] = own;
            if let Some(parent) = self.parent[node.index()] {
                self.leaves[parent.index()] += own;
            }
        }
    }

    /// A child starts where the one before it ended.
    fn give_columns(&mut self) {
        let mut next_of = vec![0; self.leaves.len()];
        for &node in &self.order {
            let leaves = self.leaves[node.index()];
            let next = match self.parent[node.index()] {
                Some(parent) => &mut next_of[parent.index()],
                None => &mut self.columns,
            };
            let first = *next;
            *next += leaves;
            self.first_column[node.index()] = first;
            next_of[node.index()] = first;
        }
    }

    /// The tier of all endpoints: below everything else.
    fn leaf_tier(&self, machine: &Machine) -> usize {
        let inner = self
            .order
            .iter()
            .filter(|id| !machine.kind(**id).is_endpoint());
        inner
            .map(|id| self.depth[id.index()] + 1)
            .max()
            .unwrap_or(0)
    }
}
