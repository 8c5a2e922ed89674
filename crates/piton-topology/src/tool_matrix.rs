//! Reads the matrices that vendors' tools print: `nvidia-smi topo -m`, `npu-smi info -t topo`,
//! `rocm-smi --showtopo`.
//!
//! Such a text says how far apart things are and little else. Reading it gives a [`ToolMatrix`], which
//! holds what was printed and nothing more; [`ToolMatrix::machine`] makes up the smallest machine
//! whose distances are those, with rates from the table of defaults. Where the words fit no tree of
//! switches (`PXB` in a ring), pairs get switches of their own; what still differs is a warning.
//!
//! Rows may be fewer than columns (listings are cut off): what other rows say stands in. Rows that a terminal broke into several
//! lines are put together where that can be done in one way.

mod assemble;
mod fabric;
mod rocm;
mod smi;
mod wrapped;

use std::borrow::Cow;

use crate::cpu_list::CpuList;
use crate::distance::{Distance, Relation};
use crate::error::{BuildError, MatrixError};
use crate::id::NumaId;
use crate::machine::Machine;
use crate::matrix::Matrix;

/// The most bytes of a tool's text that are read; a matrix of 128 devices has about 100 thousand.
pub const MAX_MATRIX_BYTES: usize = 4 << 20;

/// What begins a terminal's sequence.
const ESCAPE: char = '\u{1b}';

/// The most rows: each cell is a few bytes, and all pairs are looked at.
const MAX_COLUMNS: usize = 512;

/// A device or network controller as a tool names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolEndpoint {
    /// The tool's own name: `GPU0`, `Phy-ID12`, `mlx5_0`.
    pub name: String,
    /// Whether it is a network controller and no device.
    pub is_nic: bool,
    /// Processors near it, if the tool says.
    pub cpus: Option<CpuList>,
    /// The NUMA node near it, if the tool says and it is one.
    pub numa: Option<NumaId>,
}

/// What a vendor's tool printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolMatrix {
    /// What rows and columns stand for, in the tool's order.
    pub endpoints: Vec<ToolEndpoint>,
    /// What the tool says of each ordered pair; `None` where a row was cut off.
    pub cells: Matrix<Option<Relation>>,
    /// `rocm-smi`: what the driver thinks a pair's path costs, in no unit. Not in the machine made of it, nor in a capture: it ranks
    /// paths, and says no more than the words and hops do.
    pub weights: Option<Matrix<Option<u32>>>,
    /// `rocm-smi`: how many links it has.
    pub hops: Option<Matrix<Option<u32>>>,
}

impl ToolMatrix {
    /// Reads the text of one of the three tools; which one is told by the text.
    ///
    /// # Errors
    /// [`MatrixError`] with the line: too large, no matrix in it, a row or cell that cannot be read.
    pub fn parse(text: &str) -> Result<Self, MatrixError> {
        let (bytes, limit) = (text.len(), MAX_MATRIX_BYTES);
        if bytes > limit {
            return Err(MatrixError::TooLarge { bytes, limit });
        }
        let text = plain(text);
        if rocm::is_rocm(&text) {
            return rocm::parse(&text);
        }
        smi::parse(&text)
    }

    /// The smallest machine with these distances.
    ///
    /// # Errors
    /// [`BuildError`] where the names or counts are not ones a machine may have.
    pub fn machine(&self) -> Result<Machine, BuildError> {
        assemble::machine(self)
    }

    /// What is said of a pair: by the row of the first, else by the row of the second.
    pub(crate) fn said(&self, a: usize, b: usize) -> Option<Relation> {
        let cell = |row, column| self.cells.get(row, column).copied().flatten();
        cell(a, b).or_else(|| cell(b, a))
    }

    /// How far apart a pair is over the host's buses, where the tool says so and not only which fabric
    /// joins the two.
    pub(crate) fn host_distance(&self, a: usize, b: usize) -> Option<Distance> {
        let relation = self.said(a, b).filter(|said| said.fabric.is_none())?;
        let is_host = matches!(
            relation.distance,
            Distance::Pix | Distance::Pxb | Distance::Phb | Distance::Node | Distance::Sys
        );
        is_host.then_some(relation.distance)
    }
}

/// The text without a byte order mark and without the escape sequences of a terminal, which underline a header or colour a row.
fn plain(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.contains(ESCAPE) {
        return Cow::Borrowed(text);
    }
    let mut is_escaped = false;
    let plain = text.chars().filter(|letter| {
        let is_shown = !is_escaped && *letter != ESCAPE || *letter == '\n';
        // A sequence ends with a letter, and one that was cut off with its line.
        let ends = letter.is_ascii_alphabetic() || *letter == '\n';
        is_escaped = *letter == ESCAPE || is_escaped && !ends;
        is_shown
    });
    Cow::Owned(plain.collect())
}

impl Machine {
    /// Reads the matrix of `nvidia-smi topo -m`, `npu-smi info -t topo` or `rocm-smi --showtopo`.
    ///
    /// # Errors
    /// [`MatrixError`] with the line.
    pub fn from_tool_matrix(text: &str) -> Result<Self, MatrixError> {
        Ok(ToolMatrix::parse(text)?.machine()?)
    }
}
