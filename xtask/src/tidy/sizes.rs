//! Files that have grown long. Reported, not enforced.

use super::tree::Tree;

const LONG: usize = 600;

/// One line of text for each long file.
pub(crate) fn long_files(tree: &Tree) -> Vec<String> {
    tree.sources
        .iter()
        .map(|source| (source, source.text.lines().count()))
        .filter(|(_, lines)| *lines > LONG)
        .map(|(source, lines)| format!("{} has {lines} lines", source.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_files_are_named() {
        let long = "\n".repeat(LONG + 1);
        let tree = Tree::of(&[("a.rs", long.as_str()), ("b.rs", "\n")]);
        assert_eq!(long_files(&tree), ["a.rs has 601 lines"]);
    }
}
