//! `docs/unsafe.md` lists exactly the unsafe code there is, so that a change of it shows in review.

use crate::unsafe_inventory;

use super::tree::{Finding, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    if tree.text(unsafe_inventory::PAGE) == unsafe_inventory::page(tree) {
        return Vec::new();
    }
    let message = "is not what the code says; run `cargo xtask unsafe-inventory --write`";
    vec![Finding::in_file(unsafe_inventory::PAGE, message)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_misses_a_block_is_found() {
        let safe = ("crates/x/src/a.rs", "fn f() {}");
        let page = unsafe_inventory::page(&Tree::of(&[safe]));
        let listed = (unsafe_inventory::PAGE, page.as_str());
        assert_eq!(check(&Tree::of(&[safe, listed])), []);
        let risky = ("crates/x/src/a.rs", "fn f() { unsafe { g() } }");
        assert_eq!(check(&Tree::of(&[risky, listed])).len(), 1);
    }
}
