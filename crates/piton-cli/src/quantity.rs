//! Numbers as people read them: bytes in binary units, times in the unit that fits, counts in groups of three.

/// Bytes with a binary unit and three significant digits: `1.50 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = real(bytes) / 1024.0;
    let mut unit = UNITS[0];
    for larger in &UNITS[1..] {
        // What would be shown as 1024 is shown as 1 of the next unit.
        if value < 1023.5 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    format!("{} {unit}", three_digits(value))
}

/// Nanoseconds with a decimal unit and three significant digits: `12.3 us`.
#[must_use]
pub fn duration(nanoseconds: u64) -> String {
    const UNITS: [&str; 3] = ["us", "ms", "s"];
    if nanoseconds < 1000 {
        return format!("{nanoseconds} ns");
    }
    let mut value = real(nanoseconds) / 1000.0;
    let mut unit = UNITS[0];
    for larger in &UNITS[1..] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    format!("{} {unit}", three_digits(value))
}

/// A count with a thin gap between thousands: `1 234 567`.
#[must_use]
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A count with what is counted: `1 device`, `4 devices`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A share as per cent with one decimal: `97.2 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn real(value: u64) -> f64 {
    value as f64
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_unit_that_fits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes((1 << 20) - 1), "1.00 MiB");
        assert_eq!(bytes(60 << 30), "60.0 GiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        assert_eq!(duration(999), "999 ns");
        assert_eq!(duration(12_345), "12.3 us");
        assert_eq!(duration(999_999), "1.00 ms");
        assert_eq!(duration(123_000_000_000), "123 s");
    }

    #[test]
    fn counts_are_grouped_from_the_right() {
        assert_eq!(count(7), "7");
        assert_eq!(count(1234), "1\u{202f}234");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
    }
}
