//! Reads a trace file or stream event by event.
//!
//! Compression, and PyTorch's memory snapshots in it or without, are recognised by their first bytes, not by the file's name. At any time one buffer, one line and the
//! books of the live blocks are in memory. The first error ends the reading.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::error::{TraceError, TraceErrorKind};
use super::event::{MAX_LINE_BYTES, parse_line};
use super::ledger::{CheckedEvent, Ledger};
use super::pickled;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Large enough that a read call is rare beside the decompression of what it brings.
const BUFFER_BYTES: usize = 256 << 10;

/// The events of a trace, each checked against those before it.
///
/// Iteration ends after the last event or the first error.
pub struct TraceReader<'a> {
    file: PathBuf,
    input: Box<dyn BufRead + 'a>,
    is_compressed: bool,
    line: Vec<u8>,
    line_number: u64,
    ledger: Ledger,
    is_finished: bool,
}

impl std::fmt::Debug for TraceReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceReader")
            .field("file", &self.file)
            .field("is_compressed", &self.is_compressed)
            .field("line_number", &self.line_number)
            .finish_non_exhaustive()
    }
}

impl TraceReader<'static> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`TraceErrorKind::Io`] if it cannot be opened or read, [`TraceErrorKind::Empty`] if there is nothing in it.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let at_file = |error| TraceError {
            file: path.to_owned(),
            line: 0,
            kind: TraceErrorKind::Io(error),
        };
        let file = File::open(path).map_err(at_file)?;
        // Opening a folder succeeds here and there; reading it never does.
        if file.metadata().map_err(at_file)?.is_dir() {
            return Err(at_file(io::ErrorKind::IsADirectory.into()));
        }
        Self::new(file, path)
    }

    /// All of a file's events.
    ///
    /// # Errors
    /// As [`open`](Self::open), and what is wrong with the first event that cannot be.
    pub fn read_all(path: &Path) -> Result<Vec<CheckedEvent>, TraceError> {
        Self::open(path)?.collect()
    }
}

impl<'a> TraceReader<'a> {
    /// Reads from any source; `name` stands in error messages.
    ///
    /// # Errors
    /// [`TraceErrorKind::Io`] if it cannot be read, [`TraceErrorKind::Empty`] if there is nothing in it,
    /// [`TraceErrorKind::Snapshot`] if it begins like a memory snapshot and is none.
    pub fn new(source: impl Read + 'a, name: &Path) -> Result<Self, TraceError> {
        let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
        let fail = |kind| TraceError {
            file: name.to_owned(),
            line: 0,
            kind,
        };
        let start = source
            .fill_buf()
            .map_err(|error| fail(TraceErrorKind::Io(error)))?;
        if start.is_empty() {
            return Err(fail(TraceErrorKind::Empty));
        }
        // One byte of gzip is enough to know it is not text: a line starts with a letter.
        let is_compressed = start
            .iter()
            .zip(GZIP_MAGIC)
            .all(|(byte, magic)| *byte == magic);
        let mut input: Box<dyn BufRead + 'a> = if is_compressed {
            let inside = MultiGzDecoder::new(source);
            Box::new(BufReader::with_capacity(BUFFER_BYTES, inside))
        } else {
            Box::new(source)
        };
        let broken = |error| fail(input_error(error, is_compressed, 0));
        let first = input.fill_buf().map_err(broken)?.first().copied();
        if first.is_some_and(pickled::begins) {
            let lines = pickled::lines(input).map_err(|kind| match kind {
                TraceErrorKind::Io(error) => broken(error),
                kind => fail(kind),
            })?;
            input = Box::new(Cursor::new(lines));
        }
        Ok(Self {
            file: name.to_owned(),
            input,
            is_compressed,
            line: Vec::with_capacity(MAX_LINE_BYTES),
            line_number: 0,
            ledger: Ledger::default(),
            is_finished: false,
        })
    }

    /// The live blocks after the events read so far.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Lines read so far: events, and the bad line if reading ended with an error.
    #[must_use]
    pub fn line_number(&self) -> u64 {
        self.line_number
    }

    fn read_event(&mut self) -> Result<Option<CheckedEvent>, TraceErrorKind> {
        if !self.read_line()? {
            return if self.line_number == 0 {
                Err(TraceErrorKind::Empty)
            } else {
                Ok(None)
            };
        }
        self.line_number += 1;
        let event = parse_line(&self.line)?;
        Ok(Some(self.ledger.record(event)?))
    }

    /// Leaves the next line in `line`, without its end; `false` behind the last.
    fn read_line(&mut self) -> Result<bool, TraceErrorKind> {
        self.line.clear();
        let is_compressed = self.is_compressed;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(input_error(error, is_compressed, self.line_number)),
            };
            if available.is_empty() {
                return Ok(!self.line.is_empty());
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            if self.line.len() + part.len() > MAX_LINE_BYTES {
                self.line_number += 1;
                return Err(TraceErrorKind::OverlongLine {
                    limit: MAX_LINE_BYTES,
                });
            }
            self.line.extend_from_slice(part);
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

/// The decompressor reports its own troubles as input errors without an operating system's number.
fn input_error(error: io::Error, is_compressed: bool, lines: u64) -> TraceErrorKind {
    match error.kind() {
        io::ErrorKind::UnexpectedEof if is_compressed => TraceErrorKind::TruncatedGzip { lines },
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
            if is_compressed && error.raw_os_error().is_none() =>
        {
            TraceErrorKind::CorruptGzip { lines }
        }
        _ => TraceErrorKind::Io(error),
    }
}

impl Iterator for TraceReader<'_> {
    type Item = Result<CheckedEvent, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_finished {
            return None;
        }
        let event = self.read_event();
        self.is_finished = !matches!(event, Ok(Some(_)));
        let (file, line) = (&self.file, self.line_number);
        event
            .map_err(|kind| TraceError {
                file: file.clone(),
                line,
                kind,
            })
            .transpose()
    }
}
