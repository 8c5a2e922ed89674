//! Pickles of plain data: none, booleans, integers, floats, text, bytes, lists, tuples, dictionaries.
//!
//! A pickle is a program for a machine with a stack and a memo. All instructions of protocols 0 to 5 that make plain data
//! are understood; all that name, make or call anything else are refused ([`PickleErrorKind::Refused`]). Values lie in
//! one array and name each other by number, so a value that is used twice is there once, one that contains itself is no
//! trouble, and neither reading nor dropping recurses.
//!
//! Why not a crate: `serde-pickle`, the one that is well kept, resolves the names of some classes, gives no offset and
//! bounds neither size nor depth, so its face would have to be rebuilt around it.

mod error;
mod machine;
mod opcode;
mod scan;
mod value;
mod writer;

pub use error::{PickleError, PickleErrorKind};
pub use machine::{Limits, read};
pub use value::{Document, Value};

pub(crate) use writer::Writer;
