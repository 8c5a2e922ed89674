//! A file, folder or module is named for what is in it. These names say nothing about that.

use super::tree::{Finding, Source, Tree};

const EMPTY_NAMES: &[&str] = &[
    "base", "common", "helper", "helpers", "misc", "util", "utils",
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources.iter().flat_map(in_source).collect()
}

fn in_source(source: &Source) -> Vec<Finding> {
    let parts = source.path.trim_end_matches(".rs").split('/');
    let of_path = parts
        .filter(|part| EMPTY_NAMES.contains(part))
        .map(|part| Finding::in_file(&source.path, format!("`{part}` names nothing")));
    let of_modules = source.tokens.windows(2).filter_map(|pair| {
        let name = pair[1].text.as_str();
        let empty = pair[0].text == "mod" && EMPTY_NAMES.contains(&name);
        empty.then(|| {
            Finding::at(
                &source.path,
                pair[1].line,
                format!("`mod {name}` names nothing"),
            )
        })
    });
    of_path.chain(of_modules).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_folders_and_modules_are_found() {
        let tree = Tree::of(&[
            ("crates/x/src/utils.rs", ""),
            ("crates/x/tests/common/device.rs", ""),
            ("crates/x/src/lib.rs", "mod misc { }"),
        ]);
        assert_eq!(check(&tree).len(), 3);
    }

    #[test]
    fn a_longer_name_may_contain_one_of_them() {
        let tree = Tree::of(&[("crates/x/src/base_address.rs", "mod utility {}")]);
        assert_eq!(check(&tree), []);
    }
}
