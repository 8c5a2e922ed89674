//! Each file opens with `//!`: what it is, the idea, the invariants, what it leaves to others.
//!
//! Inner attributes may stand before it; code may not.

use super::tokens::{Token, after_group};
use super::tree::{Finding, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources
        .iter()
        .filter(|source| !opens_with_docs(&source.tokens))
        .map(|source| Finding::in_file(&source.path, "does not open with `//!`"))
        .collect()
}

/// A line `//! …` reads as the tokens of `#![doc = "…"]`.
fn opens_with_docs(tokens: &[Token]) -> bool {
    let is = |index: usize, text: &str| tokens.get(index).is_some_and(|token| token.text == text);
    let mut start = 0;
    while is(start, "#") && is(start + 1, "!") {
        if is(start + 3, "doc") {
            return true;
        }
        start = after_group(tokens, start + 2);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&Tree::of(&[("crates/x/src/a.rs", text)])).len()
    }

    #[test]
    fn a_file_without_docs_is_found() {
        assert_eq!(count("use std::fmt;\n"), 1);
        assert_eq!(count("// An ordinary comment.\nuse std::fmt;\n"), 1);
        assert_eq!(count("/// Docs of the function.\nfn f() {}\n"), 1);
        assert_eq!(count(""), 1);
    }

    #[test]
    fn docs_may_follow_inner_attributes() {
        assert_eq!(count("//! What it is.\nuse std::fmt;\n"), 0);
        assert_eq!(count("#![no_main]\n//! What it is.\n"), 0);
    }
}
