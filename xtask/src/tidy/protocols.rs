//! Each concurrent protocol is in the table of `docs/testing.md`, with the patch that breaks it on purpose.
//!
//! Three things must agree: the table, the files that contain loom models, and the folder of mutants.

use crate::mutants;

use super::tree::{Finding, Tree};

const PAGE: &str = "docs/testing.md";
const HEADING: &str = "## Concurrent protocols";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let rows = rows(tree.text(PAGE));
    if rows.is_empty() {
        let message = format!("has no table under `{HEADING}`");
        return vec![Finding::in_file(PAGE, message)];
    }
    [
        rows_without_mutant(tree, &rows),
        models_without_row(tree, &rows),
        mutants_without_mention(tree),
    ]
    .concat()
}

/// The lines of the table below the heading, without its head, each with its number.
fn rows(page: &str) -> Vec<(usize, &str)> {
    page.lines()
        .enumerate()
        .skip_while(|(_, line)| *line != HEADING)
        .skip(1)
        .take_while(|(_, line)| !line.starts_with("## "))
        .filter(|(_, line)| line.starts_with('|'))
        .skip(2)
        .map(|(index, line)| (index + 1, line))
        .collect()
}

/// What stands between backticks in a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn rows_without_mutant(tree: &Tree, rows: &[(usize, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, row) in rows {
        let mut patches = quoted(row)
            .filter(|word| word.ends_with(".patch"))
            .peekable();
        if patches.peek().is_none() {
            let message = "a protocol without a mutant";
            findings.push(Finding::at(PAGE, *line, message));
        }
        for patch in patches {
            if !tree
                .texts
                .contains_key(&format!("{}{patch}", mutants::FOLDER))
            {
                let message = format!("there is no {}{patch}", mutants::FOLDER);
                findings.push(Finding::at(PAGE, *line, message));
            }
        }
    }
    findings
}

fn models_without_row(tree: &Tree, rows: &[(usize, &str)]) -> Vec<Finding> {
    tree.sources
        .iter()
        .filter(|source| !source.find(&["mod", "loom_tests"]).is_empty())
        .filter(|source| {
            let mentioned = |(_, row): &(usize, &str)| quoted(row).any(|word| word == source.path);
            !rows.iter().any(mentioned)
        })
        .map(|source| {
            let message = format!("has loom models and no row in {PAGE}");
            Finding::in_file(&source.path, message)
        })
        .collect()
}

fn mutants_without_mention(tree: &Tree) -> Vec<Finding> {
    let page = tree.text(PAGE);
    tree.texts
        .keys()
        .filter_map(|path| path.strip_prefix(mutants::FOLDER))
        .filter(|name| name.ends_with(".patch") && !page.contains(&format!("`{name}`")))
        .map(|name| {
            let path = format!("{}{name}", mutants::FOLDER);
            Finding::in_file(&path, format!("is not named in {PAGE}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: (&str, &str) = ("crates/x/src/ring.rs", "mod loom_tests {}");
    const MUTANT: (&str, &str) = ("xtask/mutants/early.patch", "");

    fn page(rows: &str) -> String {
        format!("{HEADING}\n\n| protocol | where | mutants |\n| --- | --- | --- |\n{rows}")
    }

    fn check_with(rows: &str, files: &[(&str, &str)]) -> Vec<Finding> {
        let page = page(rows);
        let mut files = files.to_vec();
        files.push((PAGE, &page));
        check(&Tree::of(&files))
    }

    #[test]
    fn table_models_and_mutants_may_agree() {
        let row = "| ring | `crates/x/src/ring.rs` | `early.patch` |\n";
        assert_eq!(check_with(row, &[MODEL, MUTANT]), []);
    }

    #[test]
    fn a_row_without_a_mutant_is_found() {
        let row = "| ring | `crates/x/src/ring.rs` | |\n";
        assert_eq!(check_with(row, &[MODEL]).len(), 1);
    }

    #[test]
    fn a_row_whose_mutant_is_gone_is_found() {
        let row = "| ring | `crates/x/src/ring.rs` | `early.patch` |\n";
        assert_eq!(check_with(row, &[MODEL]).len(), 1);
    }

    #[test]
    fn a_model_without_a_row_is_found() {
        let row = "| other | `crates/x/src/other.rs` | `early.patch` |\n";
        assert_eq!(check_with(row, &[MODEL, MUTANT]).len(), 1);
    }

    #[test]
    fn a_mutant_nobody_mentions_is_found() {
        let row = "| ring | `crates/x/src/ring.rs` | `early.patch` |\n";
        let late = ("xtask/mutants/late.patch", "");
        assert_eq!(check_with(row, &[MODEL, MUTANT, late]).len(), 1);
    }

    #[test]
    fn a_page_without_the_table_is_found() {
        assert_eq!(check(&Tree::of(&[(PAGE, "# Testing\n")])).len(), 1);
    }
}
