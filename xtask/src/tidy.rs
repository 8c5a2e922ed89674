//! The conventions of the workspace, checked by machine.
//!
//! Each rule is a function from the tree to findings, in a file of its own with tests that see it go red on a small
//! bad input. Rust is read as tokens, so words in comments and strings are never taken for code. Sizes of files are
//! reported and enforce nothing: past 600 lines one should ask what the second idea is, and may have an answer.

mod arrows;
mod dependency_reasons;
mod forbidden_unsafe;
mod inventory;
mod leftovers;
mod lint_opt_in;
mod machine_paths;
mod module_docs;
mod names;
mod primitives;
mod protocols;
mod sizes;
mod statics;
pub(crate) mod tokens;
pub(crate) mod tree;

use crate::report::Report;
use crate::workspace::Workspace;

use tree::{Finding, Tree};

/// A convention: its name, and what in the tree is against it.
struct Rule {
    name: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

const RULES: &[Rule] = &[
    rule("arrows between crates go down only", arrows::check),
    rule("each module opens with its docs", module_docs::check),
    rule("each crate takes the workspace's lints", lint_opt_in::check),
    rule("a name says what is in it", names::check),
    rule("primitives come from piton-sync", primitives::check),
    rule("globals have a reason", statics::check),
    rule("nothing is left over", leftovers::check),
    rule("no path of one machine", machine_paths::check),
    rule(
        "unsafe is forbidden where it can be",
        forbidden_unsafe::check,
    ),
    rule("the unsafe inventory is true", inventory::check),
    rule("each dependency has its reason", dependency_reasons::check),
    rule("each concurrent protocol has a mutant", protocols::check),
];

const fn rule(name: &'static str, check: fn(&Tree) -> Vec<Finding>) -> Rule {
    Rule { name, check }
}

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Report> {
    println!("$ cargo xtask tidy");
    let tree = Tree::read(workspace)?;
    let mut count = 0;
    for Rule { name, check } in RULES {
        let findings = check(&tree);
        println!("{:<48} {}", name, verdict(&findings));
        for finding in &findings {
            println!("    {finding}");
        }
        count += findings.len();
    }
    for long in sizes::long_files(&tree) {
        println!("note: {long}");
    }
    Ok(match count {
        0 => Report::passed(),
        1 => Report::failed("1 finding"),
        _ => Report::failed(format!("{count} findings")),
    })
}

fn verdict(findings: &[Finding]) -> &'static str {
    if findings.is_empty() { "ok" } else { "BROKEN" }
}
