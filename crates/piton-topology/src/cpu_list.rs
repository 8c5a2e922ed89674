//! Sets of processors as the kernel writes them: lists (`0-7,16-23`) and masks (`00ff00ff`).

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The largest processor number accepted; Linux is built for at most 8192.
pub const MAX_CPU: u32 = 65_535;

/// A set of processors, kept as sorted ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList {
    /// First and last of each range.
    ranges: Vec<(u32, u32)>,
}

/// The text is not a processor list or mask, or names a processor above [`MAX_CPU`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a set of processors (ranges such as 0-7,16-23, none above {MAX_CPU})")]
pub struct CpuListError;

impl CpuList {
    /// Reads the mask form: hexadecimal words of 32 bits, the most significant first.
    ///
    /// # Errors
    /// [`CpuListError`] if a word is not hexadecimal or a bit lies above [`MAX_CPU`].
    pub fn from_mask(text: &str) -> Result<Self, CpuListError> {
        let mut ranges = Vec::new();
        let mut base = 0_u32;
        for word in text.trim().rsplit(',') {
            let bits = parse_word(word)?;
            for bit in (0..32).filter(|bit| bits & (1 << bit) != 0) {
                ranges.push((base + bit, base + bit));
            }
            base += 32;
            if base > MAX_CPU + 1 {
                return Err(CpuListError);
            }
        }
        Ok(Self::from_ranges(ranges))
    }

    /// The set as hexadecimal words of 32 bits, the most significant first: what [`CpuList::from_mask`] reads.
    #[must_use]
    pub fn to_mask(&self) -> String {
        let last = self.ranges.last().map_or(0, |(_, last)| *last);
        let word = |number: u32| {
            let base = number * 32;
            let has = |cpu: u32| {
                self.ranges
                    .iter()
                    .any(|&(first, last)| first <= cpu && cpu <= last)
            };
            let bits = (0..32)
                .filter(|bit| has(base + bit))
                .fold(0_u32, |bits, bit| bits | 1 << bit);
            format!("{bits:08x}")
        };
        let words: Vec<String> = (0..=last / 32).rev().map(word).collect();
        words.join(",")
    }

    fn from_ranges(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(previous) if first <= previous.1 + 1 => previous.1 = previous.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self { ranges: merged }
    }

    /// The lowest processor of the set.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|(first, _)| *first)
    }

    /// The only processor of the set, if it has one and no more.
    #[must_use]
    pub fn single(&self) -> Option<u32> {
        match self.ranges[..] {
            [(first, last)] if first == last => Some(first),
            _ => None,
        }
    }

    /// Whether no processor is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether some processor is in both sets.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.ranges.iter().any(|&(first, last)| {
            other
                .ranges
                .iter()
                .any(|&(other_first, other_last)| first <= other_last && other_first <= last)
        })
    }
}

fn parse_word(word: &str) -> Result<u32, CpuListError> {
    if word.is_empty() || word.len() > 8 || !word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(CpuListError);
    }
    u32::from_str_radix(word, 16).map_err(|_| CpuListError)
}

fn parse_cpu(text: &str) -> Result<u32, CpuListError> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CpuListError);
    }
    text.parse()
        .ok()
        .filter(|cpu| *cpu <= MAX_CPU)
        .ok_or(CpuListError)
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::default());
        }
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = (parse_cpu(first)?, parse_cpu(last)?);
            if range.0 > range.1 {
                return Err(CpuListError);
            }
            ranges.push(range);
        }
        Ok(Self::from_ranges(ranges))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for CpuList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_and_a_list_of_the_same_processors_are_equal() {
        let mask = CpuList::from_mask("0000,00000000,00000000,00ff00ff\n").unwrap();
        assert_eq!(mask, "0-7,16-23".parse().unwrap());
        assert_eq!(mask.to_string(), "0-7,16-23");
        assert!(CpuList::from_mask("0").unwrap().is_empty());
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let list: CpuList = "4-5,0-3,9,8".parse().unwrap();
        assert_eq!(list.to_string(), "0-5,8-9");
        assert!(list.intersects(&"5".parse().unwrap()));
        assert!(!list.intersects(&"6-7".parse().unwrap()));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["a", "3-1", "1-", "-1", "0,,1", "65536", "+1", "99999999999"] {
            assert_eq!(text.parse::<CpuList>(), Err(CpuListError), "{text:?}");
        }
        for text in ["", "g", "123456789", "1,,1"] {
            assert_eq!(CpuList::from_mask(text), Err(CpuListError), "{text:?}");
        }
        let many = vec!["0"; 2_049].join(",");
        assert_eq!(CpuList::from_mask(&many), Err(CpuListError));
    }
}
