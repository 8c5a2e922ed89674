//! Counting unsafe code, file by file, and keeping the page that lists it.
//!
//! The page is made from the code, never by hand: `tidy` compares the two, so unsafe code that appears or goes shows
//! in the same change. The reason beside each file is the one its `#![expect(unsafe_code, reason = "…")]` gives.

use std::fmt::Write as _;

use crate::report::Report;
use crate::tidy::tokens::Token;
use crate::tidy::tree::{Source, Tree};
use crate::workspace::Workspace;

/// Where the inventory is kept.
pub(crate) const PAGE: &str = "docs/unsafe.md";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write the page instead of printing it
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<Report> {
    let page = page(&Tree::read(workspace)?);
    if options.write {
        std::fs::write(workspace.root().join(PAGE), page)?;
    } else {
        print!("{page}");
    }
    Ok(Report::passed())
}

/// How often each kind of unsafe code occurs in a file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    blocks: usize,
    functions: usize,
    impls: usize,
    traits: usize,
    /// Unsafe attributes and foreign blocks.
    other: usize,
}

const HEAD: &str = "\
# Unsafe code

Made by `cargo xtask unsafe-inventory --write` and checked by `cargo xtask tidy`; do not edit.

Unsafe code is denied in the whole workspace and forbidden outright in most crates. A file that needs it says why in
its first lines. *Blocks* do something unsafe and argue beside it why they may (`SAFETY:`); *functions* and *traits*
ask something of their callers or implementers (`# Safety`); *impls* promise it. A call that a test makes counts too.

";

/// The page as it should be.
pub(crate) fn page(tree: &Tree) -> String {
    let mut text = HEAD.to_owned();
    text.push_str("| file | blocks | functions | impls | traits | other | why |\n");
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: | --- |\n");
    let mut total = Counts::default();
    for source in &tree.sources {
        let counts = count(&source.tokens);
        if counts != Counts::default() {
            push_row(
                &mut text,
                &format!("`{}`", source.path),
                counts,
                &reason(source),
            );
            total.add(counts);
        }
    }
    push_row(&mut text, "all", total, "");
    text
}

fn push_row(text: &mut String, file: &str, counts: Counts, why: &str) {
    let Counts {
        blocks,
        functions,
        impls,
        traits,
        other,
    } = counts;
    let row = format!("| {file} | {blocks} | {functions} | {impls} | {traits} | {other} | {why} |");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{row}");
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.functions += other.functions;
        self.impls += other.impls;
        self.traits += other.traits;
        self.other += other.other;
    }
}

/// What follows the word says what kind it is; `extern "C"` may stand between.
fn count(tokens: &[Token]) -> Counts {
    let mut counts = Counts::default();
    for (index, _) in tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| token.text == "unsafe")
    {
        let next = tokens[index + 1..]
            .iter()
            .map(|token| token.text.as_str())
            .find(|text| *text != "extern" && !text.starts_with('"'));
        let foreign = tokens
            .get(index + 1)
            .is_some_and(|token| token.text == "extern");
        match next {
            Some("{") if !foreign => counts.blocks += 1,
            Some("fn") => counts.functions += 1,
            Some("impl") => counts.impls += 1,
            Some("trait") => counts.traits += 1,
            _ => counts.other += 1,
        }
    }
    counts
}

/// The reason of the file's first `expect(unsafe_code, reason = "…")`.
fn reason(source: &Source) -> String {
    let pattern = ["expect", "(", "unsafe_code", ",", "reason", "="];
    source
        .find(&pattern)
        .first()
        .and_then(|start| source.tokens.get(start + pattern.len()))
        .map(|literal| unescaped(&literal.text))
        .unwrap_or_default()
}

/// The text of a string literal on one line: quotes gone, continuation lines joined.
fn unescaped(literal: &str) -> String {
    let inner = literal.trim_matches('"').replace("\\\"", "\"");
    inner
        .split('\\')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_apart() {
        let tree = Tree::of(&[(
            "crates/x/src/a.rs",
            "unsafe trait T { unsafe fn f(); } \
             unsafe impl T for u8 { unsafe fn f() { unsafe { g() } } } \
             unsafe extern \"C\" fn h() {} \
             unsafe extern \"C\" { fn c(); } \
             #[unsafe(no_mangle)] fn n() {} // unsafe { }",
        )]);
        assert_eq!(
            count(&tree.sources[0].tokens),
            Counts {
                blocks: 1,
                functions: 3,
                impls: 1,
                traits: 1,
                other: 2,
            }
        );
    }

    #[test]
    fn a_safe_file_is_not_listed_and_the_reason_of_an_unsafe_one_is() {
        let tree = Tree::of(&[
            ("crates/x/src/safe.rs", "#![forbid(unsafe_code)] fn f() {}"),
            (
                "crates/x/src/risky.rs",
                "#![expect(unsafe_code, reason = \"maps pages\")] fn f() { unsafe { g() } }",
            ),
        ]);
        let page = page(&tree);
        assert!(!page.contains("safe.rs` "));
        assert!(page.contains("| `crates/x/src/risky.rs` | 1 | 0 | 0 | 0 | 0 | maps pages |"));
        assert!(page.ends_with("| all | 1 | 0 | 0 | 0 | 0 |  |\n"));
    }
}
