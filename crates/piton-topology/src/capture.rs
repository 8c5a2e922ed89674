//! piton's own file format: a machine as JSON, captured on one host and studied on another.
//!
//! The file holds exactly what [`MachineBuilder`] collects, and reading it back runs the builder's
//! checks. Text that is too long, not JSON, of another version or of another shape is refused.

use serde::{Deserialize, Serialize};

use crate::builder::MachineBuilder;
use crate::error::{CaptureError, Warning};
use crate::id::NodeId;
use crate::link::Link;
use crate::machine::Machine;
use crate::node::{Node, NumaNode};

/// The format's version; a change that an older reader would misread makes it one more.
const VERSION: u32 = 1;

/// The most bytes of JSON that are read: a mesh of a thousand devices, indented, just fits.
pub const MAX_CAPTURE_BYTES: usize = 128 << 20;

/// What is written.
#[derive(Serialize)]
struct Written<'m> {
    piton_machine: u32,
    nodes: &'m [Node],
    devices: &'m [NodeId],
    numa: &'m [NumaNode],
    links: &'m [Link],
    warnings: &'m [Warning],
}

/// What is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[expect(
        dead_code,
        reason = "read on its own first; named here so that it is no unknown field"
    )]
    piton_machine: u32,
    nodes: Vec<Node>,
    devices: Vec<NodeId>,
    numa: Vec<NumaNode>,
    links: Vec<Link>,
    #[serde(default)]
    warnings: Vec<Warning>,
}

/// The version alone, so that a file from the future is refused by its version and not by its shape.
#[derive(Deserialize)]
struct Version {
    piton_machine: u32,
}

impl Machine {
    /// The machine as indented JSON.
    ///
    /// # Errors
    /// [`CaptureError::Json`] if the text cannot be written, which memory alone can prevent.
    pub fn to_json(&self) -> Result<String, CaptureError> {
        let written = Written {
            piton_machine: VERSION,
            nodes: self.nodes(),
            devices: self.devices(),
            numa: self.numa(),
            links: self.links(),
            warnings: self.warnings(),
        };
        serde_json::to_string_pretty(&written).map_err(CaptureError::Json)
    }

    /// Reads what [`Machine::to_json`] wrote, or what a person wrote in its form.
    ///
    /// # Errors
    /// [`CaptureError`]: too large, not JSON of this form (with line and column), another version, or
    /// no machine.
    pub fn from_json(text: &str) -> Result<Self, CaptureError> {
        let (bytes, limit) = (text.len(), MAX_CAPTURE_BYTES);
        if bytes > limit {
            return Err(CaptureError::TooLarge { bytes, limit });
        }
        let Version {
            piton_machine: found,
        } = serde_json::from_str(text).map_err(CaptureError::Json)?;
        if found != VERSION {
            let supported = VERSION;
            return Err(CaptureError::Version { found, supported });
        }
        let read: Read = serde_json::from_str(text).map_err(CaptureError::Json)?;
        let builder = MachineBuilder {
            nodes: read.nodes,
            links: read.links,
            devices: read.devices,
            numa: read.numa,
            warnings: read.warnings,
        };
        Ok(builder.build()?)
    }
}
