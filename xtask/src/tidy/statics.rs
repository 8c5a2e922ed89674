//! No globals, unless a comment `// GLOBAL: …` directly above says why there must be one.
//!
//! A global is shared by all devices, runtimes and tests of a process, and nobody passed it. Thread-local ones count. A
//! file that is compiled in (`include_bytes!`, `include_str!`) is no state and needs no reason.

use super::tokens::Token;
use super::tree::{Finding, Source, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources.iter().flat_map(in_source).collect()
}

fn in_source(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, token) in source.tokens.iter().enumerate() {
        // In `'static` the quote is a token of its own.
        let lifetime = index > 0 && source.tokens[index - 1].text == "'";
        let item = token.text == "static" && !lifetime;
        if item && !is_file(&source.tokens[index..]) && !source.has_reason(token.line, "GLOBAL:") {
            let message = "a static without a `// GLOBAL:` reason";
            findings.push(Finding::at(&source.path, token.line, message));
        }
    }
    findings
}

/// Whether the item that starts here is a file compiled in.
fn is_file(tokens: &[Token]) -> bool {
    tokens
        .iter()
        .take_while(|token| token.text != ";")
        .skip_while(|token| token.text != "=")
        .nth(1)
        .is_some_and(|token| matches!(token.text.as_str(), "include_bytes" | "include_str"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&Tree::of(&[("crates/x/src/a.rs", text)])).len()
    }

    #[test]
    fn globals_are_found_wherever_they_hide() {
        assert_eq!(count("static A: u8 = 0;"), 1);
        assert_eq!(count("fn f() { static mut A: u8 = 0; }"), 1);
        assert_eq!(count("thread_local! {\n    static A: u8 = 0;\n}"), 1);
    }

    #[test]
    fn a_reason_excuses_a_global() {
        assert_eq!(
            count("// GLOBAL: signal handlers take no argument\nstatic A: u8 = 0;"),
            0
        );
    }

    #[test]
    fn a_file_compiled_in_is_no_state() {
        assert_eq!(count("static A: &[u8] = include_bytes!(\"a\");"), 0);
        assert_eq!(
            count("static A: Lock<u8> = lock(include_bytes!(\"a\"));"),
            1
        );
    }

    #[test]
    fn lifetimes_are_not_globals() {
        assert_eq!(count("fn f(a: &'static str) where T: 'static {}"), 0);
    }
}
