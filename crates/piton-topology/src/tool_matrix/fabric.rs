//! The device fabric of a matrix: links between pairs, or links to a switch.
//!
//! A matrix prints `NV6` for both. It is a switch where a device would need more links than any has.

use super::{ToolMatrix, assemble};
use crate::builder::MachineBuilder;
use crate::distance::Distance;
use crate::error::BuildError;
use crate::id::NodeId;
use crate::link::LinkKind;

/// The most NVLinks a device has had.
const MOST_NVLINKS: u16 = 18;

pub(super) fn join(
    matrix: &ToolMatrix,
    nodes: &[NodeId],
    builder: &mut MachineBuilder,
) -> Result<(), BuildError> {
    let all: Vec<usize> = (0..nodes.len()).collect();
    let is_nvlink = |a, b| matches!(link(matrix, a, b), Some((LinkKind::NvLink(_), _)));
    let is_switched = |a, b| said_is(matrix, a, b, Distance::LinkSwitch);
    for group in assemble::groups(&all, is_nvlink) {
        if needs_switch(matrix, &group) {
            join_switch(matrix, nodes, builder, &group, "NVSwitch")?;
        } else {
            join_pairs(matrix, nodes, builder, &group, is_nvlink)?;
        }
    }
    for group in assemble::groups(&all, is_switched) {
        if group.len() > 1 {
            join_switch(matrix, nodes, builder, &group, "HCCS switch")?;
        }
    }
    let is_other = |a, b| {
        let is_link = link(matrix, a, b).is_some();
        is_link && !is_nvlink(a, b) && !is_switched(a, b)
    };
    join_pairs(matrix, nodes, builder, &all, is_other)
}

fn said_is(matrix: &ToolMatrix, a: usize, b: usize, distance: Distance) -> bool {
    matrix
        .said(a, b)
        .is_some_and(|said| said.distance == distance)
}

fn link(matrix: &ToolMatrix, a: usize, b: usize) -> Option<(LinkKind, u16)> {
    if a == b {
        return None;
    }
    matrix.said(a, b)?.fabric
}

fn needs_switch(matrix: &ToolMatrix, group: &[usize]) -> bool {
    group.iter().any(|&a| {
        let links = group.iter().filter_map(|&b| link(matrix, a, b));
        links.fold(0_u16, |sum, (_, lanes)| sum.saturating_add(lanes)) > MOST_NVLINKS
    })
}

/// Joins each member to one switch, as wide as its widest cell.
fn join_switch(
    matrix: &ToolMatrix,
    nodes: &[NodeId],
    builder: &mut MachineBuilder,
    group: &[usize],
    word: &str,
) -> Result<(), BuildError> {
    let first = group.first().map(|&first| &matrix.endpoints[first].name);
    let first = first.and_then(|name| name.get(..40).or(Some(name)));
    let switch = builder.link_switch(format!("{word} of {}", first.unwrap_or("none")))?;
    for &member in group {
        let links = group
            .iter()
            .filter(|&&other| said_not_package(matrix, member, other));
        let widest = links
            .filter_map(|&other| link(matrix, member, other))
            .max_by_key(|(_, lanes)| *lanes);
        if let Some((kind, lanes)) = widest {
            builder.join(nodes[member], switch, kind, lanes)?;
        }
    }
    Ok(())
}

fn said_not_package(matrix: &ToolMatrix, a: usize, b: usize) -> bool {
    !said_is(matrix, a, b, Distance::Package)
}

fn join_pairs(
    matrix: &ToolMatrix,
    nodes: &[NodeId],
    builder: &mut MachineBuilder,
    group: &[usize],
    is_joined: impl Fn(usize, usize) -> bool,
) -> Result<(), BuildError> {
    for (position, &a) in group.iter().enumerate() {
        for &b in &group[position + 1..] {
            if let Some((kind, lanes)) = link(matrix, a, b).filter(|_| is_joined(a, b)) {
                builder.join(nodes[a], nodes[b], kind, lanes)?;
            }
        }
    }
    Ok(())
}
