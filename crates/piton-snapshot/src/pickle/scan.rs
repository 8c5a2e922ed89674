//! Takes bytes, lines and numbers off the front of a pickle.

use std::borrow::Cow;

use super::error::PickleErrorKind;

type Scanned<T> = Result<T, PickleErrorKind>;

/// What is not read yet.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// The next so many bytes.
    pub(super) fn take(&mut self, len: usize) -> Scanned<&'a [u8]> {
        let end = self
            .offset
            .checked_add(len)
            .ok_or(PickleErrorKind::Truncated)?;
        let taken = self
            .bytes
            .get(self.offset..end)
            .ok_or(PickleErrorKind::Truncated)?;
        self.offset = end;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Scanned<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn array<const N: usize>(&mut self) -> Scanned<[u8; N]> {
        self.take(N)?
            .try_into()
            .map_err(|_| PickleErrorKind::Truncated)
    }

    pub(super) fn u32(&mut self) -> Scanned<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// As many bytes as a little-endian length of `N` bytes in front of them says.
    pub(super) fn counted<const N: usize>(&mut self) -> Scanned<&'a [u8]> {
        let mut len = [0; 8];
        for (digit, byte) in len.iter_mut().zip(self.array::<N>()?) {
            *digit = byte;
        }
        let len = usize::try_from(u64::from_le_bytes(len));
        self.take(len.map_err(|_| PickleErrorKind::Truncated)?)
    }

    /// Counted bytes as text.
    pub(super) fn counted_text<const N: usize>(&mut self) -> Scanned<Cow<'a, str>> {
        text(self.counted::<N>()?).map(Cow::Borrowed)
    }

    /// The bytes up to the next line end, which is taken too.
    pub(super) fn line(&mut self) -> Scanned<&'a str> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let len = rest.iter().position(|byte| *byte == b'\n');
        let line = self.take(len.ok_or(PickleErrorKind::Truncated)?)?;
        self.offset += 1;
        text(line.strip_suffix(b"\r").unwrap_or(line))
    }

    pub(super) fn line_number<T: std::str::FromStr>(&mut self) -> Scanned<T> {
        self.line()?.parse().map_err(|_| PickleErrorKind::Number)
    }
}

pub(super) fn text(bytes: &[u8]) -> Scanned<&str> {
    std::str::from_utf8(bytes).map_err(|_| PickleErrorKind::Text)
}

/// A little-endian two's complement integer of any length up to 16 bytes.
pub(super) fn integer(bytes: &[u8]) -> Scanned<i128> {
    let sign = match bytes.last() {
        Some(last) if *last >= 0x80 => 0xff,
        _ => 0,
    };
    let mut digits = [sign; 16];
    let place = digits
        .get_mut(..bytes.len())
        .ok_or(PickleErrorKind::IntegerTooLong)?;
    place.copy_from_slice(bytes);
    Ok(i128::from_le_bytes(digits))
}

/// Text of a `UNICODE` line: backslash, `u` and four hexadecimal digits, or `U` and eight, for what is not on a line.
pub(super) fn unescape_unicode(line: &str) -> Scanned<Cow<'_, str>> {
    unescape(line, |kind| match kind {
        'u' => Some(Escape::Digits(4)),
        'U' => Some(Escape::Digits(8)),
        _ => None,
    })
}

/// Text of a `STRING` line: in quotes, escaped as Python writes text.
pub(super) fn unquote(line: &str) -> Scanned<Cow<'_, str>> {
    let quoted = line
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    let quoted = quoted.or_else(|| {
        line.strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
    });
    unescape(quoted.ok_or(PickleErrorKind::Text)?, |kind| match kind {
        'n' => Some(Escape::Is('\n')),
        'r' => Some(Escape::Is('\r')),
        't' => Some(Escape::Is('\t')),
        '\\' | '\'' | '"' => Some(Escape::Is(kind)),
        'x' => Some(Escape::Digits(2)),
        _ => None,
    })
}

/// What a backslash and a letter stand for.
enum Escape {
    Is(char),
    /// So many hexadecimal digits follow.
    Digits(usize),
}

fn unescape(text: &str, escape: impl Fn(char) -> Option<Escape>) -> Scanned<Cow<'_, str>> {
    if !text.contains('\\') {
        return Ok(Cow::Borrowed(text));
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        let kind = if letter == '\\' {
            rest.clone().next()
        } else {
            None
        };
        let Some(escape) = kind.and_then(&escape) else {
            plain.push(letter);
            continue;
        };
        rest.next();
        plain.push(match escape {
            Escape::Is(letter) => letter,
            Escape::Digits(count) => {
                let digits: String = rest.by_ref().take(count).collect();
                let number = u32::from_str_radix(&digits, 16).ok();
                let number = number.filter(|_| digits.len() == count);
                number
                    .and_then(char::from_u32)
                    .ok_or(PickleErrorKind::Text)?
            }
        });
    }
    Ok(Cow::Owned(plain))
}
