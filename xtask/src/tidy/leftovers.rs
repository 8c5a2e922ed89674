//! Things that are never finished work: tests that do not run, code that is not there, waiting by the clock.
//!
//! Outside tests a sleep may stay with a comment `// SLEEP: …` directly above. In a test there is no excuse: the
//! simulated device has virtual time.

use super::tree::{Finding, Source, Tree};

const LEFTOVERS: &[(&[&str], &str)] = &[
    (&["#", "[", "ignore"], "an ignored test proves nothing"),
    (&["todo", "!"], "`todo!`"),
    (&["unimplemented", "!"], "`unimplemented!`"),
    (&["dbg", "!"], "`dbg!`"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources
        .iter()
        .flat_map(|source| [leftovers(source), sleeps(source)].concat())
        .collect()
}

fn leftovers(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (pattern, message) in LEFTOVERS {
        for index in source.find(pattern) {
            findings.push(Finding::at(
                &source.path,
                source.tokens[index].line,
                *message,
            ));
        }
    }
    findings
}

fn sleeps(source: &Source) -> Vec<Finding> {
    source
        .find(&["thread", "::", "sleep"])
        .into_iter()
        .map(|index| &source.tokens[index])
        .filter(|token| {
            let in_test = token.test || source.is_test();
            in_test || !source.has_reason(token.line, "SLEEP:")
        })
        .map(|token| Finding::at(&source.path, token.line, "sleeping instead of waiting"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn unfinished_things_are_found() {
        let text = "#[test] #[ignore = \"slow\"] fn f() { todo!(); dbg!(1); unimplemented!() }";
        assert_eq!(count("crates/x/src/a.rs", text), 4);
    }

    #[test]
    fn a_sleep_needs_a_reason_and_has_none_in_a_test() {
        let bare = "fn f() {\n    std::thread::sleep(d);\n}";
        let excused = "fn f() {\n    // SLEEP: nothing to wait for\n    std::thread::sleep(d);\n}";
        assert_eq!(count("crates/x/src/a.rs", bare), 1);
        assert_eq!(count("crates/x/src/a.rs", excused), 0);
        assert_eq!(count("crates/x/tests/a.rs", excused), 1);
    }

    #[test]
    fn words_in_strings_and_comments_are_not_code() {
        let text = "// todo!()\nconst A: &str = \"thread::sleep\";";
        assert_eq!(count("crates/x/src/a.rs", text), 0);
    }
}
