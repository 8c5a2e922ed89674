//! No file speaks of a place that exists on one machine only: somebody's home, or a build machine's folders.

use super::tree::{Finding, Tree};

/// Put together here so that this file does not find itself.
const PLACES: &[&str] = &[
    concat!("/", "home/"),
    concat!("/", "root/"),
    concat!("/", "work/"),
    concat!("/", "Users/"),
];

/// The kinds of file that people write; data may contain anything.
const WRITTEN: &[&str] = &[".rs", ".md", ".toml", ".sh", ".yml", ".patch", "/run"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.texts {
        if !WRITTEN.iter().any(|ending| path.ends_with(ending)) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            if let Some(place) = PLACES.iter().find(|place| names_place(line, place)) {
                let message = format!("`{place}` is a place on one machine");
                findings.push(Finding::at(path, index + 1, message));
            }
        }
    }
    findings
}

/// Whether the place begins a path: nothing of a longer path or address stands before it.
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-./}~*".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_place_on_one_machine_is_found_in_code_and_text() {
        let place = PLACES[0];
        assert_eq!(count("docs/a.md", &format!("run `{place}me/x`")), 1);
        assert_eq!(count("crates/x/src/a.rs", &format!("// see {place}me")), 1);
    }

    #[test]
    fn a_longer_path_and_data_are_fine() {
        let place = PLACES[2];
        assert_eq!(count("docs/a.md", &format!("target{place}tree")), 0);
        assert_eq!(count("data/machine.xml", place), 0);
    }
}
