//! What elements and attributes of an hwloc file mean.

use roxmltree::Document;

use crate::cpu_list::CpuList;
use crate::error::HwlocError;
use crate::xml::Element;

/// The outermost element, if its version is one this reader knows.
pub(super) fn topology<'d>(document: &'d Document<'_>) -> Result<Element<'d>, HwlocError> {
    let topology = Element {
        node: document.root_element(),
        name: "topology",
    };
    let line = topology.line();
    if !topology.node.has_tag_name(topology.name) {
        return Err(HwlocError::NoTopology { line });
    }
    // The first version did not say.
    let version = topology.optional("version", version)?.unwrap_or((1, 0));
    let (major, minor) = version;
    if !(1..=3).contains(&major) {
        return Err(HwlocError::Version { line, major, minor });
    }
    Ok(topology)
}

fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl<'d> Element<'d> {
    /// The words of all children with this name, one child after the other.
    pub(super) fn words(self, name: &'static str) -> impl Iterator<Item = &'d str> {
        let texts = self.children(name).filter_map(|child| child.node.text());
        texts.flat_map(str::split_whitespace)
    }
}

/// hwloc's sets: words of 32 bits with `0x` before each, empty words for none; `Some(None)` for a set
/// without an end (`0xf...f`).
pub(super) fn bit_set(text: &str) -> Option<Option<CpuList>> {
    if text.starts_with("0xf...f") {
        return Some(None);
    }
    let words: Vec<&str> = text
        .split(',')
        .map(|word| word.strip_prefix("0x").unwrap_or(word))
        .map(|word| if word.is_empty() { "0" } else { word })
        .collect();
    CpuList::from_mask(&words.join(",")).ok().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_as_hwloc_writes_them() {
        let read = |text| bit_set(text).map(|set| set.map(|set| set.to_string()));
        assert_eq!(
            read("0x00000001,,0x00000003"),
            Some(Some("0-1,64".to_owned()))
        );
        assert_eq!(read("0x0"), Some(Some(String::new())));
        assert_eq!(read("0xf...f"), Some(None));
        assert_eq!(read("0xg"), None);
    }

    #[test]
    fn a_version_is_two_numbers() {
        assert_eq!(version("2.0"), Some((2, 0)));
        assert_eq!(version("3"), Some((3, 0)));
        assert_eq!(version("two"), None);
    }
}
