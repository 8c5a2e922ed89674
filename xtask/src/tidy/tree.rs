//! The tree as the rules see it: packages, texts and tokens.

use std::collections::BTreeMap;
use std::fmt;

use crate::workspace::{Package, Workspace};

use super::tokens::{self, Token};

/// All packages and all text files.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) packages: Vec<Package>,
    /// Every text file by its path from the root.
    pub(crate) texts: BTreeMap<String, String>,
    /// The Rust files among them.
    pub(crate) sources: Vec<Source>,
}

/// One Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
}

/// Something against a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// Counted from one; zero means the whole file.
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl Finding {
    /// Something at a line of a file.
    pub(crate) fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }

    /// Something about a whole file.
    pub(crate) fn in_file(path: &str, message: impl Into<String>) -> Self {
        Self::at(path, 0, message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

impl Tree {
    /// Reads the working tree. Files that are not text are left out.
    pub(crate) fn read(workspace: &Workspace) -> anyhow::Result<Self> {
        let mut texts = BTreeMap::new();
        for path in workspace.files()? {
            if let Ok(text) = String::from_utf8(std::fs::read(workspace.root().join(&path))?) {
                texts.insert(path, text);
            }
        }
        Ok(Self::new(workspace.packages().to_vec(), texts))
    }

    fn new(packages: Vec<Package>, texts: BTreeMap<String, String>) -> Self {
        let sources = texts
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| Source {
                path: path.clone(),
                text: text.clone(),
                tokens: tokens::read(text),
            })
            .collect();
        Self {
            packages,
            texts,
            sources,
        }
    }

    /// The text of one file, empty if there is no such file.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.texts.get(path).map_or("", String::as_str)
    }
}

impl Source {
    /// Whether the whole file is test code, by its place.
    pub(crate) fn is_test(&self) -> bool {
        let stem = self.stem();
        let in_folder = |folder: &str| self.path.split('/').any(|part| part == folder);
        in_folder("tests")
            || in_folder("fuzz_targets")
            || self.path.starts_with("benches/")
            || stem == "tests"
            || stem.ends_with("_tests")
    }

    /// The file's name without folder and ending.
    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.trim_end_matches(".rs")
    }

    /// The positions where these tokens stand one after the other.
    pub(crate) fn find(&self, pattern: &[&str]) -> Vec<usize> {
        let matches = |window: &[Token]| window.iter().zip(pattern).all(|(t, p)| t.text == *p);
        self.tokens
            .windows(pattern.len())
            .enumerate()
            .filter(|(_, window)| matches(window))
            .map(|(start, _)| start)
            .collect()
    }

    /// Whether the line, or the comments and attributes directly above it, contain `marker` in a comment.
    pub(crate) fn has_reason(&self, line: usize, marker: &str) -> bool {
        let lines: Vec<&str> = self.text.lines().collect();
        let marked = |text: &str| {
            text.split_once("//")
                .is_some_and(|(_, comment)| comment.trim_start().starts_with(marker))
        };
        let index = line.saturating_sub(1).min(lines.len());
        if lines.get(index).is_some_and(|text| marked(text)) {
            return true;
        }
        lines[..index]
            .iter()
            .rev()
            .map(|text| text.trim())
            .take_while(|text| {
                ["//", "#[", "thread_local!"]
                    .iter()
                    .any(|start| text.starts_with(start))
            })
            .any(marked)
    }
}

#[cfg(test)]
impl Tree {
    /// A tree of these files, without packages.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let texts = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        Self::new(Vec::new(), texts)
    }

    /// The same tree with a package, its folder and the packages it depends on.
    pub(crate) fn with_package(mut self, name: &str, folder: &str, depends_on: &[&str]) -> Self {
        self.packages.push(Package {
            name: name.to_owned(),
            folder: folder.to_owned(),
            depends_on: depends_on.iter().map(|name| (*name).to_owned()).collect(),
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_found_on_the_line_and_in_the_comments_above_it() {
        let tree = Tree::of(&[(
            "a.rs",
            "// GLOBAL: one per process\n#[used]\nstatic A: u8 = 0;\nstatic B: u8 = 0; // GLOBAL: two\nstatic C: u8 = 0;\n",
        )]);
        let has = |line| tree.sources[0].has_reason(line, "GLOBAL:");
        assert!(has(3));
        assert!(has(4));
        assert!(!has(5));
    }

    #[test]
    fn test_files_are_known_by_their_place() {
        let is_test = |path| Tree::of(&[(path, "")]).sources[0].is_test();
        assert!(is_test("crates/x/tests/a.rs"));
        assert!(is_test("crates/x/src/ring/loom_tests.rs"));
        assert!(!is_test("crates/x/src/ring.rs"));
        assert!(!is_test("crates/x/src/latest.rs"));
    }
}
