//! Puts partial views together.

use std::collections::{BTreeMap, BTreeSet};

use super::fields::{self, Views};
use super::{Note, Partial, fabric};
use crate::error::BuildError;
use crate::id::NumaId;
use crate::machine::Machine;
use crate::pci::{PciAddress, PciIdentity};
use crate::sysfs::{NumaFacts, PciFunction, SysfsTree};

/// A machine that several sources described, and who said what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The machine.
    pub machine: Machine,
    /// Where each field comes from, by address.
    pub notes: Vec<Note>,
}

/// Views that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A source has devices by number, and no vendor of those with addresses has as many.
    #[error(
        "{numbered} devices are known by number alone, and no vendor has as many of the {addressed} with addresses"
    )]
    Unplaced {
        /// Devices of the source.
        numbered: usize,
        /// Devices of all other sources.
        addressed: usize,
    },
    /// The facts make no machine.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Puts together what several sources say of one machine: a file's word before the driver's, that before the operating
/// system's, and of two of one origin the first's.
///
/// # Errors
/// [`MergeError::Unplaced`]; [`MergeError::Build`] where all together exceed what a machine may have.
pub fn merge(partials: &[Partial]) -> Result<Merged, MergeError> {
    let mut sorted: Vec<&Partial> = partials.iter().collect();
    sorted.sort_by_key(|partial| partial.origin);
    let devices = addressed_devices(&sorted);
    // A source's numbers become addresses, and what it says of them facts like any other's.
    let mut placed: Vec<(Partial, Vec<PciAddress>)> = Vec::with_capacity(sorted.len());
    for partial in sorted {
        let numbers = numbers(partial, &devices)?;
        let mut partial = partial.clone();
        partial.tree.functions.extend(numbered(&partial, &numbers));
        placed.push((partial, numbers));
    }
    let (tree, mut notes) = tree(&placed);
    let machine = tree.machine()?;
    let (machine, of_fabric) = fabric::join(&machine, fabric::links(&placed))?;
    notes.extend(of_fabric);
    notes.sort_unstable();
    notes.dedup_by_key(|note| (note.address, note.field));
    Ok(Merged { machine, notes })
}

/// The devices that have addresses, by address, each with its vendor as far as anybody says.
fn addressed_devices(partials: &[&Partial]) -> BTreeMap<PciAddress, u16> {
    let mut devices: BTreeMap<PciAddress, PciIdentity> = BTreeMap::new();
    for partial in partials {
        for function in &partial.tree.functions {
            let Some(identity) = function.identity else {
                continue;
            };
            let known = devices.entry(function.address).or_insert(identity);
            if known.vendor == 0 {
                known.vendor = identity.vendor;
            }
        }
    }
    devices.retain(|_, identity| identity.is_device());
    let vendors = devices.into_iter();
    vendors.map(|(address, id)| (address, id.vendor)).collect()
}

/// The addresses of a source's devices that have numbers alone.
fn numbers(
    partial: &Partial,
    devices: &BTreeMap<PciAddress, u16>,
) -> Result<Vec<PciAddress>, MergeError> {
    let numbered = partial.numbered.len();
    if numbered == 0 {
        return Ok(Vec::new());
    }
    let vendors: BTreeSet<u16> = devices.values().copied().collect();
    let of = |vendor: u16| -> Vec<PciAddress> {
        let of = devices.iter().filter(|(_, of)| **of == vendor);
        of.map(|(address, _)| *address).collect()
    };
    let as_many = vendors.into_iter().map(of);
    let mut as_many = as_many.filter(|devices| devices.len() == numbered);
    match (as_many.next(), as_many.next()) {
        (Some(only), None) => Ok(only),
        _ if devices.len() == numbered => Ok(devices.keys().copied().collect()),
        _ => Err(MergeError::Unplaced {
            numbered,
            addressed: devices.len(),
        }),
    }
}

/// What a source says of its numbered devices, as functions with addresses.
fn numbered(partial: &Partial, numbers: &[PciAddress]) -> Vec<PciFunction> {
    let devices = partial.numbered.iter().zip(numbers);
    let functions = devices.map(|(device, address)| PciFunction {
        numa: device.numa,
        local_cpus: device.cpus.clone(),
        ..PciFunction::unknown(*address)
    });
    functions.collect()
}

/// All functions and NUMA nodes that anybody knows.
fn tree(placed: &[(Partial, Vec<PciAddress>)]) -> (SysfsTree, Vec<Note>) {
    let mut views: BTreeMap<PciAddress, Views<'_>> = BTreeMap::new();
    let mut numa: BTreeMap<NumaId, NumaFacts> = BTreeMap::new();
    for (partial, _) in placed {
        for function in &partial.tree.functions {
            let known = views.entry(function.address).or_default();
            known.push((partial.origin, function));
        }
        for facts in &partial.tree.numa {
            let known = numa.entry(facts.id).or_insert_with(|| facts.clone());
            if known.cpus.is_empty() {
                known.cpus = facts.cpus.clone();
            }
        }
    }
    let is_bridge = |address: PciAddress| {
        let said = views.get(&address).into_iter().flatten();
        let mut said = said.filter_map(|(_, view)| view.identity);
        said.next().is_some_and(PciIdentity::is_bridge)
    };
    let mut notes = Vec::new();
    let functions = views.iter().map(|(address, views)| {
        let (function, of_it) = fields::function(*address, views, is_bridge);
        notes.extend(of_it);
        function
    });
    let tree = SysfsTree {
        functions: functions.collect(),
        has_pci_bus: placed.iter().any(|(partial, _)| partial.tree.has_pci_bus),
        numa: numa.into_values().collect(),
    };
    (tree, notes)
}
