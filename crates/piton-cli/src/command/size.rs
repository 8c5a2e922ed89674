//! Sizes as people type them: `512`, `64MiB`, `24 GiB`.

/// Why a text is no size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SizeError {
    /// No digits, or something that is no unit.
    #[error("expected bytes as a whole number, with KiB, MiB, GiB or TiB behind it if wanted")]
    Form,
    /// Zero, or 2^64 bytes and more.
    #[error("out of range: at least 1 byte, below 2^64")]
    Range,
}

/// Bytes meant by `text`: a whole number and perhaps a binary unit.
pub(super) fn parse(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(SizeError::Form),
    };
    if number.is_empty() {
        return Err(SizeError::Form);
    }
    let number: u64 = number.parse().map_err(|_| SizeError::Range)?;
    number
        .checked_mul(1 << shift)
        .filter(|bytes| *bytes > 0)
        .ok_or(SizeError::Range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_and_without_unit() {
        assert_eq!(parse("512"), Ok(512));
        assert_eq!(parse("64MiB"), Ok(64 << 20));
        assert_eq!(parse(" 24 GiB "), Ok(24 << 30));
        assert_eq!(parse("2g"), Ok(2 << 30));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "GiB", "-1", "1.5GiB", "1 GB2", "١"] {
            assert_eq!(parse(text), Err(SizeError::Form), "{text}");
        }
        for text in ["0", "0GiB", "99999999999999999999", "16777216TiB"] {
            assert_eq!(parse(text), Err(SizeError::Range), "{text}");
        }
    }
}
