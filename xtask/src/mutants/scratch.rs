//! A copy of the tree in which patches may be applied.
//!
//! The working tree is read once, at the start: it may be edited while the mutants run. The copy is kept between runs
//! and only files that differ are written, so that their times stay as they were and cargo rebuilds no more than the
//! crate a patch touched. Its builds have a target directory of their own: cargo
//! names a package's build by its place in the workspace, so a copy that shared a directory with the original would
//! be mistaken for it. What the working tree has built of other people's crates is taken over (see `seed`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::seed;
use crate::invocation::Invocation;
use crate::workspace::Workspace;

/// What is built and run in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Under `cfg(loom)`.
    Models,
    Others,
}

impl Kind {
    /// The copy's folder, and where the working tree builds the same.
    fn folders(self, workspace: &Workspace) -> (PathBuf, PathBuf) {
        let folder = workspace.target_for("mutants");
        match self {
            Self::Models => (folder.join("models"), workspace.target_for("loom")),
            Self::Others => (folder.join("others"), workspace.target_for("")),
        }
    }
}

/// The copy, and where it builds.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// What each file contained at the start.
    files: BTreeMap<String, Vec<u8>>,
    folder: PathBuf,
    tree: PathBuf,
    target: PathBuf,
    log: PathBuf,
}

impl Scratch {
    /// Makes the copy equal to the working tree.
    pub(crate) fn new(workspace: &Workspace, kind: Kind) -> anyhow::Result<Self> {
        let (folder, built) = kind.folders(workspace);
        let scratch = Self::between(workspace.root(), &workspace.files()?, &folder)?;
        scratch.restore()?;
        seed::plant(&built, scratch.target())?;
        Ok(scratch)
    }

    fn between(source: &Path, paths: &BTreeSet<String>, folder: &Path) -> anyhow::Result<Self> {
        let tree = folder.join("tree");
        fs::create_dir_all(&tree)?;
        let read = |path: &String| {
            let content = fs::read(source.join(path)).with_context(|| path.clone())?;
            Ok((path.clone(), content))
        };
        let files = paths.iter().map(read).collect::<anyhow::Result<_>>()?;
        Ok(Self {
            files,
            folder: folder.to_owned(),
            tree,
            target: folder.join("build"),
            log: folder.join("last.log"),
        })
    }

    /// The root of the copy.
    pub(crate) fn tree(&self) -> &Path {
        &self.tree
    }

    /// Where the last command's output is.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// The target directory of its builds.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Applies a patch, one of the tree's own files, to the copy; false if it does not fit.
    pub(crate) fn apply(&self, patch: &str) -> anyhow::Result<bool> {
        let ran = Invocation::new("git", "apply --whitespace=nowarn")
            .argument(patch)
            // Without this git would find the repository around the target directory and take the paths from there.
            .path_variable("GIT_CEILING_DIRECTORIES", &self.folder)
            .run(&self.tree)?;
        Ok(ran.success)
    }

    /// Makes the copy equal to what the working tree was at the start, and answers how many files differed.
    pub(crate) fn restore(&self) -> anyhow::Result<usize> {
        let mut differed = self.remove_strangers()?;
        for (path, wanted) in &self.files {
            let place = self.tree.join(path);
            if fs::read(&place).is_ok_and(|found| found == *wanted) {
                continue;
            }
            if let Some(folder) = place.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&place, wanted).with_context(|| place.display().to_string())?;
            differed += 1;
        }
        Ok(differed)
    }

    /// Removes what is in the copy and not in the working tree: files of an older tree, or made by a patch.
    fn remove_strangers(&self) -> anyhow::Result<usize> {
        let mut removed = 0;
        let mut folders = vec![self.tree.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let place = entry?.path();
                if place.is_dir() {
                    folders.push(place);
                    continue;
                }
                let path = place.strip_prefix(&self.tree)?.to_string_lossy();
                if !self.files.contains_key(path.as_ref()) {
                    fs::remove_file(&place)?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source folder with one file and a patch for it, and its scratch copy.
    fn scratch(name: &str) -> (PathBuf, Scratch) {
        let folder = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let source = folder.join("source");
        fs::create_dir_all(source.join("deep")).unwrap();
        fs::write(source.join("deep/file.txt"), "right\n").unwrap();
        let diff =
            "# a header\n--- a/deep/file.txt\n+++ b/deep/file.txt\n@@ -1 +1 @@\n-right\n+wrong\n";
        fs::write(source.join("break.patch"), diff).unwrap();
        let misfit = diff.replace("-right", "-other");
        fs::write(source.join("misfit.patch"), misfit).unwrap();
        let files = ["deep/file.txt", "break.patch", "misfit.patch"].map(str::to_owned);
        let copy = folder.join("copy");
        let scratch = Scratch::between(&source, &BTreeSet::from(files), &copy).unwrap();
        scratch.restore().unwrap();
        (folder, scratch)
    }

    fn content(scratch: &Scratch) -> String {
        fs::read_to_string(scratch.tree().join("deep/file.txt")).unwrap()
    }

    #[test]
    fn a_patch_changes_the_copy_and_restore_undoes_it() {
        let (folder, scratch) = scratch("applies");
        assert!(scratch.apply("break.patch").unwrap());
        assert_eq!(content(&scratch), "wrong\n");
        assert_eq!(scratch.restore().unwrap(), 1);
        assert_eq!(content(&scratch), "right\n");
        assert_eq!(scratch.restore().unwrap(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_patch_that_does_not_fit_says_so() {
        let (folder, scratch) = scratch("misfit");
        assert!(!scratch.apply("misfit.patch").unwrap());
        assert_eq!(content(&scratch), "right\n");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_the_tree_does_not_have_leaves_the_copy() {
        let (folder, scratch) = scratch("stranger");
        fs::write(scratch.tree().join("deep/stranger.txt"), "").unwrap();
        assert_eq!(scratch.restore().unwrap(), 1);
        assert!(!scratch.tree().join("deep/stranger.txt").exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
