//! Each dependency from outside has its reason on its line of the root manifest.

use super::tree::{Finding, Tree};

const MANIFEST: &str = "Cargo.toml";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.text(MANIFEST)
        .lines()
        .enumerate()
        .skip_while(|(_, line)| line.trim() != "[workspace.dependencies]")
        .skip(1)
        .take_while(|(_, line)| !line.starts_with('['))
        .filter(|(_, line)| needs_reason(line) && !has_reason(line))
        .map(|(index, line)| {
            let name = line.split('=').next().unwrap_or(line).trim();
            Finding::at(MANIFEST, index + 1, format!("`{name}` has no `# reason`"))
        })
        .collect()
}

/// Crates of this workspace explain themselves.
fn needs_reason(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim_start().starts_with('#') && !line.contains("path = ")
}

fn has_reason(line: &str) -> bool {
    line.split_once(" # ")
        .is_some_and(|(_, reason)| reason.trim().len() > 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let tree = Tree::of(&[(
            MANIFEST,
            "[workspace.dependencies]\n\
             piton = { path = \"crates/piton\" }\n\
             slab = \"0.4\" # stable small indices\n\
             left-pad = \"1.0\"\n\
             \n\
             [profile.dev]\n\
             opt-level = 1\n",
        )]);
        let findings = check(&tree);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 4);
        assert!(findings[0].message.contains("left-pad"));
    }
}
