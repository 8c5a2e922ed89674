//! Each package says `[lints] workspace = true`: a crate that forgets it is checked by nothing.

use super::tree::{Finding, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.packages
        .iter()
        .map(|package| format!("{}/Cargo.toml", package.folder))
        .filter(|manifest| !opts_in(tree.text(manifest)))
        .map(|manifest| Finding::in_file(&manifest, "has no `[lints]` with `workspace = true`"))
        .collect()
}

fn opts_in(manifest: &str) -> bool {
    manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "[lints]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .any(|line| line.replace(' ', "") == "workspace=true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(manifest: &str) -> usize {
        let tree = Tree::of(&[("crates/x/Cargo.toml", manifest)]);
        check(&tree.with_package("x", "crates/x", &[])).len()
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        assert_eq!(count("[package]\nname = \"x\"\n"), 1);
        assert_eq!(count("[lints]\n[dependencies]\nworkspace = true\n"), 1);
    }

    #[test]
    fn a_crate_with_the_lints_is_fine() {
        assert_eq!(count("[lints]\nworkspace = true\n"), 0);
    }
}
