//! One line of a trace.
//!
//! | line | meaning |
//! | --- | --- |
//! | `a,<id>,<bytes>,<stream>` | allocate so many bytes, as requested, on this stream |
//! | `f,<id>,<stream>` | free on the stream of the allocation |
//! | `u,<id>,<stream>` | used on another stream; work there may still run when the free comes |
//!
//! Reading a line looks at the line alone. Whether it makes sense after those before it is for the
//! [`ledger`](super::ledger).

use std::fmt;

use super::error::LineError;

/// Most bytes one allocation may have: 2^48, the address space of today's devices.
pub const MAX_BYTES: u64 = 1 << 48;
/// Largest stream number. Traces have a few streams; a limit keeps a damaged file from making millions of them.
pub const MAX_STREAM: u16 = 1023;
/// Longest line in bytes. The longest meaningful one has 42.
pub const MAX_LINE_BYTES: usize = 128;

/// What one line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceEvent {
    /// A block comes to life.
    Allocate {
        /// Name of the block, never used again.
        id: u64,
        /// Bytes as requested: `1..=2^48`.
        bytes: u64,
        /// Stream it is allocated on: `0..=1023`.
        stream: u16,
    },
    /// A block is given back on the stream that allocated it.
    Free {
        /// Name of the block.
        id: u64,
        /// Stream of the allocation.
        stream: u16,
    },
    /// A block is used by work on another stream, which may still run when the free comes.
    Use {
        /// Name of the block.
        id: u64,
        /// The other stream.
        stream: u16,
    },
}

impl TraceEvent {
    /// The stream it names.
    #[must_use]
    pub fn stream(&self) -> u16 {
        match self {
            Self::Allocate { stream, .. }
            | Self::Free { stream, .. }
            | Self::Use { stream, .. } => *stream,
        }
    }
}

/// Writes the line that says this, without a line end.
impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocate { id, bytes, stream } => write!(f, "a,{id},{bytes},{stream}"),
            Self::Free { id, stream } => write!(f, "f,{id},{stream}"),
            Self::Use { id, stream } => write!(f, "u,{id},{stream}"),
        }
    }
}

/// Reads one line, given without its line end; a carriage return at its end is passed over.
///
/// # Errors
/// [`LineError`] for the first thing that is wrong.
pub fn parse_line(line: &[u8]) -> Result<TraceEvent, LineError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err(LineError::Empty);
    }
    if let Err(error) = std::str::from_utf8(line) {
        return Err(LineError::NotUtf8 {
            column: error.valid_up_to() + 1,
        });
    }
    let fields = Fields::split(line);
    match fields.first() {
        b"a" => allocate(&fields),
        b"f" => on_stream(&fields).map(|(id, stream)| TraceEvent::Free { id, stream }),
        b"u" => on_stream(&fields).map(|(id, stream)| TraceEvent::Use { id, stream }),
        _ => Err(LineError::UnknownEvent),
    }
}

fn allocate(fields: &Fields<'_>) -> Result<TraceEvent, LineError> {
    fields.expect(4)?;
    let id = fields.number(1)?;
    let bytes = fields.number(2)?;
    match bytes {
        0 => return Err(LineError::ZeroBytes),
        bytes if bytes > MAX_BYTES => return Err(LineError::ImpossibleSize { bytes }),
        _ => {}
    }
    Ok(TraceEvent::Allocate {
        id,
        bytes,
        stream: fields.stream(3)?,
    })
}

fn on_stream(fields: &Fields<'_>) -> Result<(u64, u16), LineError> {
    fields.expect(3)?;
    Ok((fields.number(1)?, fields.stream(2)?))
}

/// The comma separated parts of a line, at most four of them kept.
struct Fields<'a> {
    kept: [&'a [u8]; 4],
    count: usize,
}

impl<'a> Fields<'a> {
    fn split(line: &'a [u8]) -> Self {
        let mut fields = Self {
            kept: [b""; 4],
            count: 0,
        };
        for field in line.split(|byte| *byte == b',') {
            if let Some(place) = fields.kept.get_mut(fields.count) {
                *place = field;
            }
            fields.count += 1;
        }
        fields
    }

    fn first(&self) -> &'a [u8] {
        self.kept[0]
    }

    fn expect(&self, expected: usize) -> Result<(), LineError> {
        if self.count == expected {
            Ok(())
        } else {
            Err(LineError::Fields {
                fields: self.count,
                expected,
            })
        }
    }

    /// The number in field `index`: digits only, no sign and no blanks.
    fn number(&self, index: usize) -> Result<u64, LineError> {
        let digits = self.kept.get(index).copied().unwrap_or_default();
        let wrong = LineError::NotANumber { field: index + 1 };
        if digits.is_empty() {
            return Err(wrong);
        }
        digits.iter().try_fold(0_u64, |number, byte| {
            let digit = byte
                .checked_sub(b'0')
                .filter(|digit| *digit < 10)
                .ok_or(wrong)?;
            number
                .checked_mul(10)
                .and_then(|n| n.checked_add(digit.into()))
                .ok_or(wrong)
        })
    }

    fn stream(&self, index: usize) -> Result<u16, LineError> {
        let stream = self.number(index)?;
        u16::try_from(stream)
            .ok()
            .filter(|stream| *stream <= MAX_STREAM)
            .ok_or(LineError::StreamTooLarge { stream })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<TraceEvent, LineError>) {
        assert_eq!(parse_line(line.as_bytes()), expected, "{line:?}");
    }

    #[test]
    fn well_formed_lines_say_what_they_say() {
        check(
            "a,0,512,0",
            Ok(TraceEvent::Allocate {
                id: 0,
                bytes: 512,
                stream: 0,
            }),
        );
        check(
            "f,18446744073709551615,1023",
            Ok(TraceEvent::Free {
                id: u64::MAX,
                stream: 1023,
            }),
        );
        check("u,7,2\r", Ok(TraceEvent::Use { id: 7, stream: 2 }));
        let largest = format!("a,1,{MAX_BYTES},0");
        check(
            &largest,
            Ok(TraceEvent::Allocate {
                id: 1,
                bytes: MAX_BYTES,
                stream: 0,
            }),
        );
    }

    #[test]
    fn malformed_lines_are_refused_by_kind() {
        check("", Err(LineError::Empty));
        check("\r", Err(LineError::Empty));
        check("x,1,2", Err(LineError::UnknownEvent));
        check("aa,1,2,3", Err(LineError::UnknownEvent));
        check(
            "a,1,2",
            Err(LineError::Fields {
                fields: 3,
                expected: 4,
            }),
        );
        check(
            "f,1,2,3,4,5",
            Err(LineError::Fields {
                fields: 6,
                expected: 3,
            }),
        );
        check(
            "u",
            Err(LineError::Fields {
                fields: 1,
                expected: 3,
            }),
        );
        for number in ["", "-1", "+1", " 1", "1.0", "18446744073709551616", "0x1"] {
            check(
                &format!("f,{number},0"),
                Err(LineError::NotANumber { field: 2 }),
            );
        }
        check("a,1,0,0", Err(LineError::ZeroBytes));
        let bytes = MAX_BYTES + 1;
        check(
            &format!("a,1,{bytes},0"),
            Err(LineError::ImpossibleSize { bytes }),
        );
        check("f,1,1024", Err(LineError::StreamTooLarge { stream: 1024 }));
        check(
            "f,1,65536",
            Err(LineError::StreamTooLarge { stream: 65536 }),
        );
    }

    #[test]
    fn bytes_that_are_not_text_are_refused_with_their_column() {
        assert_eq!(
            parse_line(b"a,1,\xff"),
            Err(LineError::NotUtf8 { column: 5 })
        );
    }
}
