//! Where the workspace is, what belongs to it and where its builds go.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use crate::invocation::Invocation;

/// The workspace as cargo and git describe it.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
    packages: Vec<Package>,
}

/// One package of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its folder, relative to the root, with `/` between parts.
    pub(crate) folder: String,
    /// The packages of this workspace that it cannot be built without (build and development aside).
    pub(crate) depends_on: BTreeSet<String>,
}

impl Workspace {
    /// Asks cargo, starting from this package's own folder.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let answer = Invocation::cargo("metadata --no-deps --format-version 1").answer(here)?;
        Self::from_metadata(&serde_json::from_slice(&answer)?)
    }

    fn from_metadata(metadata: &Value) -> anyhow::Result<Self> {
        let root = PathBuf::from(text(metadata, "workspace_root")?);
        let packages = metadata["packages"]
            .as_array()
            .context("cargo metadata lists no packages")?
            .iter()
            .map(|package| Package::from_metadata(package, &root))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            target: PathBuf::from(text(metadata, "target_directory")?),
            root,
            packages,
        })
    }

    /// The folder of the root manifest.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A folder for builds with flags of their own, inside the target directory.
    pub(crate) fn target_for(&self, purpose: &str) -> PathBuf {
        self.target.join(purpose)
    }

    /// The packages, in cargo's order.
    pub(crate) fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// Every file that git tracks or would offer to add, as it is in the working tree: paths relative to the root,
    /// with `/` between parts, sorted.
    pub(crate) fn files(&self) -> anyhow::Result<BTreeSet<String>> {
        let listed = Invocation::new(
            "git",
            "ls-files -z --cached --others --exclude-standard --deduplicate",
        )
        .answer(&self.root)
        .context("the list of files comes from git")?;
        Ok(listed
            .split(|byte| *byte == 0)
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .filter(|path| self.root.join(path).is_file())
            .collect())
    }
}

impl Package {
    fn from_metadata(package: &Value, root: &Path) -> anyhow::Result<Self> {
        let manifest = PathBuf::from(text(package, "manifest_path")?);
        let folder = manifest
            .parent()
            .and_then(|folder| folder.strip_prefix(root).ok())
            .with_context(|| format!("{} is outside the workspace", manifest.display()))?;
        let depends_on = package["dependencies"]
            .as_array()
            .context("cargo metadata lists no dependencies")?
            .iter()
            // A normal dependency has no kind; one of this workspace has a path.
            .filter(|dependency| dependency["kind"].is_null() && dependency["path"].is_string())
            .map(|dependency| text(dependency, "name").map(str::to_owned))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            name: text(package, "name")?.to_owned(),
            folder: folder.to_string_lossy().replace('\\', "/"),
            depends_on,
        })
    }
}

fn text<'a>(value: &'a Value, key: &str) -> anyhow::Result<&'a str> {
    value[key]
        .as_str()
        .with_context(|| format!("cargo metadata has no `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_normal_dependencies_inside_the_workspace_are_arrows() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "target_directory": "/w/target",
            "packages": [{
                "name": "upper",
                "manifest_path": "/w/crates/upper/Cargo.toml",
                "dependencies": [
                    { "name": "lower", "kind": null, "path": "/w/crates/lower" },
                    { "name": "tested-with", "kind": "dev", "path": "/w/crates/tested-with" },
                    { "name": "from-the-registry", "kind": null },
                ],
            }],
        });
        let workspace = Workspace::from_metadata(&metadata).unwrap();
        assert_eq!(
            workspace.packages(),
            [Package {
                name: "upper".to_owned(),
                folder: "crates/upper".to_owned(),
                depends_on: BTreeSet::from(["lower".to_owned()]),
            }]
        );
    }

    #[test]
    fn this_workspace_contains_this_file() {
        let files = Workspace::find().unwrap().files().unwrap();
        assert!(files.contains("xtask/src/workspace.rs"));
    }
}
