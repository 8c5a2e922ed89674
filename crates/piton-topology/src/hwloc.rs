//! Reads hwloc's XML, versions 1, 2 and 3.
//!
//! The file is a tree of objects: the machine, its packages and NUMA nodes, and at the place they are near
//! to, host bridges with PCI bridges and functions below them. What it says of the PCI bus and the
//! NUMA nodes is what sysfs says, so it becomes a [`SysfsTree`], and the same code makes a machine of it.
//! The matrices `NVLinkBandwidth` and `XGMIBandwidth` add the device fabric.
//!
//! The versions differ in where NUMA nodes stand (above what is near them, or beside it), in what a
//! PCI type looks like, and in how distances are written; the reader takes all of them alike. Files name a
//! document type, which is let pass; entities that one declares are refused, so nothing expands.

mod bandwidth;
mod element;
mod object;

use roxmltree::{Document, ParsingOptions};

use crate::error::HwlocError;
use crate::machine::Machine;
use crate::sysfs::SysfsTree;

/// The most bytes of XML that are read; hwloc's own files have up to a million.
pub const MAX_HWLOC_BYTES: usize = 32 << 20;

/// The most elements, attributes and texts of a file.
const MAX_XML_NODES: u32 = 1 << 21;

impl Machine {
    /// Reads what `lstopo --of xml` writes.
    ///
    /// # Errors
    /// [`HwlocError`] with the line: too large, not XML, entities, another version, an attribute missing or
    /// not readable, or no machine.
    pub fn from_hwloc_xml(text: &str) -> Result<Self, HwlocError> {
        let document = parse(text)?;
        let topology = element::topology(&document)?;
        let objects = object::read(topology)?;
        let machine = objects.tree.machine()?;
        bandwidth::add_fabric(topology, &objects, machine)
    }
}

impl SysfsTree {
    /// What an hwloc XML file says of the PCI bus and the NUMA nodes.
    ///
    /// # Errors
    /// As [`Machine::from_hwloc_xml`].
    pub fn from_hwloc_xml(text: &str) -> Result<Self, HwlocError> {
        let document = parse(text)?;
        Ok(object::read(element::topology(&document)?)?.tree)
    }
}

fn parse(text: &str) -> Result<Document<'_>, HwlocError> {
    let (bytes, limit) = (text.len(), MAX_HWLOC_BYTES);
    if bytes > limit {
        return Err(HwlocError::TooLarge { bytes, limit });
    }
    if let Some(at) = text.find("<!ENTITY") {
        let line = text[..at].matches('\n').count() + 1;
        return Err(HwlocError::Entity { line });
    }
    let options = ParsingOptions {
        allow_dtd: true,
        nodes_limit: MAX_XML_NODES,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).map_err(HwlocError::Xml)
}
