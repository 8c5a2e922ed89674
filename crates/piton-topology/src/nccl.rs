//! Reads the topology files of NCCL (version 1) and RCCL (version 2).
//!
//! The file is a tree: `system` holds a `cpu` for each NUMA node, that holds `pci` functions inside
//! each other (a bridge is a switch, seen once), and a `pci` holds a `gpu` with its `nvlink`, `xgmi` or `c2c`
//! links, or a `nic` with its `net` ports. Host bridges are not in it: each `cpu` gets one, so what other
//! tools split into `PHB` and `NODE` is `PHB` here, as it is in the library.
//!
//! Put right: comments with hyphens in a row, which XML forbids and the libraries read; links from a device to itself are dropped with
//! a warning; functions without speed get a default; all NVSwitches are one; a Broadcom switch that shows itself as two levels is
//! one; a switch and something else at one address are two.

mod assemble;
mod comments;
mod element;
mod facts;
mod rates;
mod write;

use std::borrow::Cow;

use roxmltree::{Document, ParsingOptions};

use crate::error::NcclError;
use crate::machine::Machine;
use crate::partial::FabricFact;
use crate::sysfs::SysfsTree;

pub use rates::NcclRates;

/// The most bytes of XML that are read; real files have about 30 thousand.
pub const MAX_NCCL_BYTES: usize = 16 << 20;

/// The most elements, attributes and texts of a file.
const MAX_XML_NODES: u32 = 1 << 20;

impl Machine {
    /// Reads the topology file that NCCL writes for `NCCL_TOPO_DUMP_FILE`, or RCCL's.
    ///
    /// # Errors
    /// [`NcclError`] with the line: too large, not XML, an attribute missing or not readable, another
    /// version, or no machine. Document types are refused, so nothing expands.
    pub fn from_nccl_xml(text: &str) -> Result<Self, NcclError> {
        Self::from_nccl_xml_with(text, NcclRates::Copies)
    }

    /// As [`Machine::from_nccl_xml`], with rates of the caller's choice.
    ///
    /// # Errors
    /// As [`Machine::from_nccl_xml`].
    pub fn from_nccl_xml_with(text: &str, rates: NcclRates) -> Result<Self, NcclError> {
        let text = readable(text)?;
        assemble::machine(&parse(&text)?, rates)
    }

    /// The machine as a NCCL topology file, for `NCCL_TOPO_FILE` or another reader. Links of the kinds it has no
    /// word for become `nvlink`, and all host bridges of a NUMA node one.
    #[must_use]
    pub fn to_nccl_xml(&self) -> String {
        write::text(self)
    }
}

/// What a file says, with whatever it leaves out left out.
pub(crate) fn facts(text: &str) -> Result<(SysfsTree, Vec<FabricFact>), NcclError> {
    let text = readable(text)?;
    facts::read(&parse(&text)?)
}

/// What is parsed of a file that is not too large.
fn readable(text: &str) -> Result<Cow<'_, str>, NcclError> {
    let (bytes, limit) = (text.len(), MAX_NCCL_BYTES);
    if bytes > limit {
        return Err(NcclError::TooLarge { bytes, limit });
    }
    Ok(comments::blanked(text))
}

fn parse(text: &str) -> Result<Document<'_>, NcclError> {
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: MAX_XML_NODES,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).map_err(NcclError::Xml)
}
