//! Recorded allocation histories, read as a stream of checked events.
//!
//! A trace is comma separated text, gzip'd or plain, one event a line (`a` allocate, `f` free, `u` used on another
//! stream; see [`event`]). [`reader::TraceReader`] yields its events one at a time, whatever the size of the file, and
//! holds only what is live: a line that cannot be right, by itself or after those before it, ends the reading with an
//! error that names file and line ([`error::TraceError`]).
//!
//! A memory snapshot that PyTorch dumped (`torch.cuda.memory._dump_snapshot`) is read as well: its ring of events is turned
//! into such lines first.
//!
//! Files are read through an ordinary buffered file and not through a memory mapping: a mapping is `unsafe` to read,
//! because another process may shorten the file under it, this crate forbids `unsafe`, and decompression, not copying, is
//! what takes the time.

pub mod error;
pub mod event;
pub mod ledger;
mod pickled;
pub mod reader;
pub mod seen;

pub use error::{TraceError, TraceErrorKind};
pub use event::{TraceEvent, parse_line};
pub use ledger::{CheckedEvent, Ledger};
pub use reader::TraceReader;
