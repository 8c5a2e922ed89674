//! The crates that say `#![forbid(unsafe_code)]`, which no attribute below can lift.
//!
//! Everything above the contract that talks to users, and everything that only computes.

use super::tree::{Finding, Tree};

const CRATE_ROOTS: &[&str] = &[
    "crates/piton/src/lib.rs",
    "crates/piton-cli/src/main.rs",
    "crates/piton-fluid/src/lib.rs",
    "crates/piton-plan/src/lib.rs",
    "crates/piton-snapshot/src/lib.rs",
    "crates/piton-suballoc/src/lib.rs",
    "crates/piton-timeline/src/lib.rs",
    "crates/piton-topology/src/lib.rs",
    "xtask/src/main.rs",
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let forbid = ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"];
    CRATE_ROOTS
        .iter()
        .filter(|path| {
            let root = tree.sources.iter().find(|source| source.path == **path);
            root.is_none_or(|source| source.find(&forbid).is_empty())
        })
        .map(|path| Finding::in_file(path, "does not say `#![forbid(unsafe_code)]`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_only_denies_is_found() {
        let files: Vec<(&str, &str)> = CRATE_ROOTS
            .iter()
            .map(|path| (*path, "#![forbid(unsafe_code)]"))
            .collect();
        assert_eq!(check(&Tree::of(&files)), []);
        let mut denied = files;
        denied[0].1 = "#![deny(unsafe_code)]";
        assert_eq!(check(&Tree::of(&denied)).len(), 1);
    }
}
