//! A kept patch: a header that says what it breaks and which test must notice, then a unified diff.
//!
//! ```text
//! # crate: piton-timeline
//! # test: --lib loom_tests
//! # loom: yes
//! # breaks: a lane's completed number can go backwards
//! --- a/crates/piton-timeline/src/lane.rs
//! +++ b/crates/piton-timeline/src/lane.rs
//! @@ …
//! ```
//! `crate` is the one whose tests run, and need not be the one that is broken. `test` holds what follows `cargo test -p CRATE`; `loom` is left out for tests that run on the real primitives.

use anyhow::Context as _;

/// One mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patch {
    /// The file's name without folder and ending.
    pub(crate) name: String,
    /// The file, relative to the root.
    pub(crate) path: String,
    /// The arguments of `cargo test`, the package first.
    pub(crate) test: Vec<String>,
    /// Whether the tests are models, built under `cfg(loom)`.
    pub(crate) loom: bool,
    /// What the patch breaks, in one sentence.
    pub(crate) breaks: String,
}

impl Patch {
    /// Reads the header of the patch at `path`.
    ///
    /// # Errors
    /// When a line of the header is missing, or the diff touches what is no crate's: the lock file, say, changes often
    /// and the patch would not apply for long.
    pub(crate) fn parse(path: &str, text: &str) -> anyhow::Result<Self> {
        let field = |key: &str| {
            text.lines()
                .take_while(|line| line.starts_with('#'))
                .find_map(|line| {
                    line.strip_prefix("# ")?
                        .strip_prefix(key)?
                        .strip_prefix(": ")
                })
                .map(str::trim)
        };
        let required = |key| field(key).with_context(|| format!("no line `# {key}: …`"));
        let package = required("crate")?;
        let mut targets = text
            .lines()
            .filter_map(|line| line.strip_prefix("+++ b/"))
            .peekable();
        anyhow::ensure!(targets.peek().is_some(), "no line `+++ b/crates/…`");
        if let Some(other) = targets.find(|path| !path.starts_with("crates/")) {
            anyhow::bail!("a mutant changes code of the crates alone, not {other}");
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        Ok(Self {
            name: name.trim_end_matches(".patch").to_owned(),
            path: path.to_owned(),
            test: ["-p", package]
                .into_iter()
                .chain(required("test")?.split_whitespace())
                .map(str::to_owned)
                .collect(),
            loom: field("loom") == Some("yes"),
            breaks: required("breaks")?.to_owned(),
        })
    }

    /// How often the tests are run at most for one answer: a model says the same each time.
    pub(crate) fn runs(&self) -> usize {
        if self.loom { 1 } else { super::RUNS }
    }

    /// What is run for this patch; two patches with the same command share their baseline.
    pub(crate) fn command(&self) -> String {
        format!("{} {}", self.loom, self.test.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
        # crate: piton-x\n\
        # test: --lib ring\n\
        # loom: yes\n\
        # breaks: the reader looks too early\n\
        --- a/crates/piton-x/src/ring.rs\n\
        +++ b/crates/piton-x/src/ring.rs\n";

    #[test]
    fn a_complete_header_is_read() {
        let patch = Patch::parse("xtask/mutants/ring_reads_early.patch", GOOD).unwrap();
        assert_eq!(patch.name, "ring_reads_early");
        assert_eq!(patch.test, ["-p", "piton-x", "--lib", "ring"]);
        assert!(patch.loom);
        assert_eq!(patch.breaks, "the reader looks too early");
    }

    #[test]
    fn a_missing_line_is_named() {
        let text = GOOD.replace("# breaks: the reader looks too early\n", "");
        let error = Patch::parse("x.patch", &text).unwrap_err();
        assert!(error.to_string().contains("breaks"));
    }

    #[test]
    fn a_text_without_a_diff_is_refused() {
        let text = GOOD.replace("+++ b/", "+++ ");
        assert!(Patch::parse("x.patch", &text).is_err());
    }

    #[test]
    fn a_diff_of_more_than_crates_is_refused() {
        let text = format!("{GOOD}--- a/Cargo.lock\n+++ b/Cargo.lock\n");
        let error = Patch::parse("x.patch", &text).unwrap_err();
        assert!(error.to_string().contains("Cargo.lock"));
    }

    #[test]
    fn a_header_inside_the_diff_does_not_count() {
        let text = GOOD.replace("# loom: yes\n", "") + "# loom: yes\n";
        assert!(!Patch::parse("x.patch", &text).unwrap().loom);
    }
}
