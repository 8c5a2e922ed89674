//! Atomics, locks, cells and threads come from `piton_sync` and from nowhere else, so that one switch puts a model
//! checker under every protocol.
//!
//! What stays with std, and why:
//! - `Arc` and `Weak`: they cross crate boundaries, hold unsized values (loom's cannot on stable Rust), and what
//!   they order is lifetime, which no protocol here relies on.
//! - `OnceLock`: set once and then only read. Loom has no such thing, so a door for it would only look modelled; what
//!   leads up to the setting is the protocol's, and is.
//! - `Cell` and `RefCell`: they cannot be shared between threads.
//! - `thread::available_parallelism` and `thread::panicking`: questions, not primitives.
//!
//! Not bound by this rule: code that only tests build, benches, fuzz targets, the `piton` command and `xtask`. No
//! protocol is proved there. A third-party queue (`crossbeam_queue`) is a structure, not a primitive; loom does not
//! see into it, so it may be used where its own guarantee is all that is needed.

use super::tokens::Token;
use super::tree::{Finding, Source, Tree};

/// Packages and folders outside the rule.
const FREE: &[&str] = &[
    "crates/piton-sync/",
    "crates/piton-cli/",
    "benches/",
    "fuzz/",
    "xtask/",
];

/// Where a path must begin to be looked at.
const ROOTS: &[&str] = &[
    "std",
    "core",
    "alloc",
    "parking_lot",
    "loom",
    "crossbeam",
    "crossbeam_channel",
    "crossbeam_epoch",
    "crossbeam_utils",
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources
        .iter()
        .filter(|source| !source.is_test())
        .filter(|source| !FREE.iter().any(|free| source.path.starts_with(free)))
        .flat_map(in_source)
        .collect()
}

fn in_source(source: &Source) -> Vec<Finding> {
    paths(&source.tokens)
        .into_iter()
        .filter(|path| is_primitive(&path.names))
        .map(|path| {
            let message = format!("`{}` does not come from piton_sync", path.names.join("::"));
            Finding::at(&source.path, path.line, message)
        })
        .collect()
}

/// Whether a full path names a primitive, or a module full of them.
fn is_primitive(path: &[String]) -> bool {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    match names[..] {
        ["std" | "core" | "alloc", "sync", name, ..] => {
            !matches!(name, "Arc" | "Weak" | "OnceLock")
        }
        ["std", "thread", name, ..] => !matches!(name, "available_parallelism" | "panicking"),
        ["std" | "core", "cell", name, ..] => {
            matches!(name, "UnsafeCell" | "SyncUnsafeCell" | "OnceCell" | "*")
        }
        ["std" | "core" | "alloc", "sync"] | ["std", "thread"] => true,
        ["std" | "core" | "alloc", ..] => false,
        _ => true,
    }
}

/// A path as it would be written in full, and where its last part stands.
#[derive(Debug, PartialEq, Eq)]
struct FullPath {
    names: Vec<String>,
    line: usize,
}

/// Every path of the file's real code that begins at one of [`ROOTS`], with the braces of `use` taken apart.
fn paths(tokens: &[Token]) -> Vec<FullPath> {
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let begins = !token.test
            && ROOTS.contains(&token.text.as_str())
            && !continues_a_path(tokens, index)
            && tokens.get(index + 1).is_some_and(|next| next.text == "::");
        if begins {
            expand(tokens, index, &[], &mut found);
        }
    }
    found
}

/// Whether a name and `::` stand before this one, as in `piton_sync::loom`. A leading `::` alone continues nothing.
fn continues_a_path(tokens: &[Token], index: usize) -> bool {
    let is_name = |text: &str| text.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    index >= 2 && tokens[index - 1].text == "::" && is_name(&tokens[index - 2].text) && {
        // `use ::std` has a keyword there, not a path.
        tokens[index - 2].text != "use"
    }
}

/// Reads one path at `index` and answers the position after it.
fn expand(tokens: &[Token], index: usize, before: &[String], found: &mut Vec<FullPath>) -> usize {
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text.as_str());
    let mut names = before.to_vec();
    let mut index = index;
    loop {
        names.push(text(index).to_owned());
        if text(index + 1) != "::" {
            break;
        }
        match text(index + 2) {
            "{" => return expand_group(tokens, index + 3, &names, found),
            // A turbofish ends the path that names something.
            "<" => break,
            _ => index += 2,
        }
    }
    if names.last().is_some_and(|name| name == "self") {
        names.pop();
    }
    let line = tokens[index.min(tokens.len() - 1)].line;
    found.push(FullPath { names, line });
    index + 1
}

/// Reads the paths between the braces of a `use` and answers the position after the closing one.
fn expand_group(
    tokens: &[Token],
    start: usize,
    before: &[String],
    found: &mut Vec<FullPath>,
) -> usize {
    let mut index = start;
    while let Some(token) = tokens.get(index) {
        match token.text.as_str() {
            "}" => return index + 1,
            "," => index += 1,
            // The new name of a renamed import.
            "as" => index += 2,
            _ => index = expand(tokens, index, before, found),
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let findings = check(&Tree::of(&[("crates/piton-x/src/a.rs", text)]));
        let message = |finding: &Finding| finding.message.split('`').nth(1).unwrap().to_owned();
        findings.iter().map(message).collect()
    }

    #[test]
    fn an_import_in_nested_braces_is_found() {
        assert_eq!(
            found("use std::{fmt, sync::{Arc, Mutex as Lock, atomic::{AtomicU64, Ordering}}};"),
            [
                "std::sync::Mutex",
                "std::sync::atomic::AtomicU64",
                "std::sync::atomic::Ordering"
            ]
        );
    }

    #[test]
    fn a_path_in_an_expression_is_found() {
        assert_eq!(
            found("fn f() { std::thread::spawn(|| ()); }"),
            ["std::thread::spawn"]
        );
        assert_eq!(
            found("fn f() { ::core::cell::UnsafeCell::new(0); }"),
            ["core::cell::UnsafeCell::new"]
        );
    }

    #[test]
    fn the_module_itself_may_not_be_imported() {
        assert_eq!(found("use std::sync;"), ["std::sync"]);
        assert_eq!(found("use std::sync::{self, Arc};"), ["std::sync"]);
        assert_eq!(found("use std::thread::*;"), ["std::thread::*"]);
    }

    #[test]
    fn other_doors_are_found() {
        assert_eq!(found("use parking_lot::Mutex;"), ["parking_lot::Mutex"]);
        assert_eq!(found("use loom::thread;"), ["loom::thread"]);
    }

    #[test]
    fn what_stays_with_std_is_fine() {
        let fine = "use std::sync::{Arc, OnceLock, Weak}; use std::cell::RefCell; \
                    fn f() { std::thread::available_parallelism(); piton_sync::loom::x(); }";
        assert_eq!(found(fine), [""; 0]);
    }

    #[test]
    fn test_code_is_free() {
        assert_eq!(
            found("#[cfg(test)] mod tests { use std::thread; }"),
            [""; 0]
        );
        let tree = Tree::of(&[("crates/piton-x/tests/a.rs", "use std::thread;")]);
        assert_eq!(check(&tree), []);
    }
}
