//! The small files of sysfs: read within limits, then parsed, each apart.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use crate::cpu_list::CpuList;
use crate::error::{Field, ProbeError};
use crate::pci;

/// The most bytes of a file that are read; the kernel's own attributes are a page at most.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The most entries of a folder that are read.
pub(super) const MAX_ENTRIES: usize = 16 << 10;

/// The bytes of a file, `None` if there is none.
pub(super) fn bytes(path: &Path) -> Result<Option<Vec<u8>>, ProbeError> {
    match read_regular(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(source) if is_absent(&source) => Ok(None),
        Err(source) => Err(ProbeError::Unreadable {
            path: path.to_owned(),
            source,
        }),
    }
}

fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe in a captured tree would block for ever.
    if !fs::metadata(path)?.is_file() {
        return Err(ErrorKind::Unsupported.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The kernel answers "invalid argument" for an attribute that a device has in name only.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput
    )
}

/// A file parsed by `parse`, which answers `None` for text that is not `expected`. Captures of old kernels have a zero byte behind
/// the line.
pub(super) fn parsed<T>(
    path: &Path,
    expected: Field,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, ProbeError> {
    let Some(bytes) = bytes(path)? else {
        return Ok(None);
    };
    let value = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| parse(text.trim_end_matches('\0').trim()));
    let path = path.to_owned();
    value
        .map(Some)
        .ok_or(ProbeError::Malformed { path, expected })
}

/// The names in a folder, sorted; empty if there is none.
pub(super) fn names(path: &Path) -> Result<Vec<OsString>, ProbeError> {
    let unreadable = |source| ProbeError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        if names.len() == MAX_ENTRIES {
            let (path, limit) = (path.to_owned(), MAX_ENTRIES);
            return Err(ProbeError::TooManyEntries { path, limit });
        }
        names.push(entry.map_err(unreadable)?.file_name());
    }
    names.sort_unstable();
    Ok(names)
}

/// A hexadecimal number, with or without `0x`.
pub(super) fn hex(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

/// A NUMA node: the outer `None` is no number, the inner one is -1, "not said".
pub(super) fn numa_node(text: &str) -> Option<Option<u16>> {
    if text == "-1" {
        return Some(None);
    }
    text.parse().ok().map(Some)
}

/// Megatransfers a second; `None` inside where the file says it does not know.
#[expect(
    clippy::option_option,
    clippy::unnecessary_wraps,
    reason = "the shape `parsed` asks for: any text is a speed, known or not"
)]
pub(super) fn speed(text: &str) -> Option<Option<u32>> {
    Some(pci::megatransfers(text))
}

/// Lanes; `None` inside for what no link has.
pub(super) fn width(text: &str) -> Option<Option<u8>> {
    let _: u16 = text.parse().ok()?;
    Some(pci::lanes(text))
}

/// A list of processors.
pub(super) fn cpu_list(text: &str) -> Option<CpuList> {
    text.parse().ok()
}

/// A mask of processors.
pub(super) fn cpu_mask(text: &str) -> Option<CpuList> {
    CpuList::from_mask(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_that_no_link_has_are_unknown() {
        assert_eq!(width("16"), Some(Some(16)));
        assert_eq!(width("0"), Some(None));
        assert_eq!(width("255"), Some(None));
        assert_eq!(width("wide"), None);
    }

    #[test]
    fn minus_one_is_a_numa_node_that_was_not_said() {
        assert_eq!(numa_node("-1"), Some(None));
        assert_eq!(numa_node("6"), Some(Some(6)));
        assert_eq!(numa_node("-2"), None);
    }

    #[test]
    fn a_pipe_in_the_tree_is_refused_and_a_missing_file_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(bytes(&folder.path().join("none")).unwrap().is_none());
        let pipe = folder.path().join("pipe");
        let mkfifo = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(mkfifo.unwrap().success());
        assert!(matches!(bytes(&pipe), Err(ProbeError::Unreadable { .. })));
        assert!(matches!(
            bytes(folder.path()),
            Err(ProbeError::Unreadable { .. })
        ));
    }
}
