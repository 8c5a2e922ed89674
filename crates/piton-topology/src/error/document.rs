//! What can be wrong with the text of another tool: where, and which number or attribute.

use super::BuildError;

/// An attribute of an XML file that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttributeError {
    /// It must be there and is not.
    #[error("line {line}: <{element}> has no attribute {attribute}")]
    Missing {
        /// Where the element is.
        line: u32,
        /// Its name.
        element: &'static str,
        /// The attribute.
        attribute: &'static str,
    },
    /// It does not hold what its name promises.
    #[error("line {line}: <{element}> has an attribute {attribute} that cannot be read")]
    Unreadable {
        /// Where the element is.
        line: u32,
        /// Its name.
        element: &'static str,
        /// The attribute.
        attribute: &'static str,
    },
}

/// A matrix printed by a vendor's tool that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// More text than such a tool prints.
    #[error("{bytes} bytes of text; a matrix has at most {limit}")]
    TooLarge {
        /// Length of the text.
        bytes: usize,
        /// The most that is read.
        limit: usize,
    },
    /// No line begins with the name of a device, a `Phy-ID` or a network controller.
    #[error("no line of the text is the header of a matrix")]
    NoHeader,
    /// More columns than a machine may have devices.
    #[error("line {line}: more than {limit} columns")]
    TooManyColumns {
        /// The header's line.
        line: usize,
        /// The most that are read.
        limit: usize,
    },
    /// Two columns or two rows with one name.
    #[error("line {line}: a name that an earlier row or column has")]
    Repeated {
        /// The line.
        line: usize,
    },
    /// A row whose name no column has.
    #[error("line {line}: a row that the header does not name")]
    UnknownRow {
        /// The line.
        line: usize,
    },
    /// A row with fewer cells than columns.
    #[error("line {line}: {cells} cells for {columns} columns")]
    ShortRow {
        /// The line.
        line: usize,
        /// Cells it has.
        cells: usize,
        /// Columns there are.
        columns: usize,
    },
    /// A row that was broken over several lines and can be put together in no way, or in more than one.
    #[error("line {line}: a row over several lines that cannot be read in one way and no other")]
    Wrapped {
        /// Where it begins.
        line: usize,
    },
    /// A cell with a word that no tool is known to print.
    #[error("line {line}, column {column}: a word that is no distance, number or link type")]
    Cell {
        /// The line.
        line: usize,
        /// The device's column, the first being 1.
        column: usize,
    },
    /// Processors or a NUMA node that cannot be read.
    #[error("line {line}: an affinity that cannot be read")]
    Affinity {
        /// The line.
        line: usize,
    },
    /// The facts were read and make no machine.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// An hwloc XML file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HwlocError {
    /// More text than a machine can need.
    #[error("{bytes} bytes of XML; an hwloc file has at most {limit}")]
    TooLarge {
        /// Length of the text.
        bytes: usize,
        /// The most that is read.
        limit: usize,
    },
    /// The document declares entities of its own, which is refused: they can grow without end.
    #[error("line {line}: the document declares an entity")]
    Entity {
        /// Where.
        line: usize,
    },
    /// Not XML.
    #[error("not XML: {0}")]
    Xml(#[source] roxmltree::Error),
    /// The outermost element is not `topology`.
    #[error("line {line}: the outermost element is not <topology>")]
    NoTopology {
        /// Where it is.
        line: u32,
    },
    /// A format that is not known.
    #[error(
        "line {line}: hwloc XML version {major}.{minor}; this program reads versions 1, 2 and 3"
    )]
    Version {
        /// Where it is said.
        line: u32,
        /// The file's version before the dot.
        major: u32,
        /// And behind it.
        minor: u32,
    },
    /// An attribute is not as it should be.
    #[error(transparent)]
    Attribute(#[from] AttributeError),
    /// More bridges above each other than there are buses.
    #[error("line {line}: more than {limit} bridges above each other")]
    TooDeep {
        /// Where the one too many is.
        line: u32,
        /// The most there can be.
        limit: usize,
    },
    /// A matrix of distances whose numbers are not as many as its objects ask for.
    #[error("line {line}: {values} values for {objects} objects")]
    Distances {
        /// Where it begins.
        line: u32,
        /// Objects it names.
        objects: usize,
        /// Values it has.
        values: usize,
    },
    /// The facts were read and make no machine.
    #[error(transparent)]
    Build(#[from] BuildError),
}
