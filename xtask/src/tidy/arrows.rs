//! Which crate may depend on which.
//!
//! The table is ordered from the bottom up and an arrow may only point to a crate above it in the text, so there is
//! no circle. Only normal dependencies count: tests may use what they like. Adding an arrow is a design decision;
//! it goes into `docs/architecture.md` in the same change.

use super::tree::{Finding, Tree};

const ARROWS: &[(&str, &[&str])] = &[
    // Knows nothing: the door to primitives, offsets, the contract.
    ("piton-sync", &[]),
    ("piton-suballoc", &[]),
    ("piton-driver", &[]),
    ("piton-copy", &[]),
    // Blocks and offsets, and what others recorded of them: nobody is asked anything.
    ("piton-plan", &[]),
    ("piton-snapshot", &[]),
    // A test's allocator, which counts.
    ("piton-heap", &["piton-sync"]),
    // Integers and their counters.
    ("piton-timeline", &["piton-sync"]),
    // Pure: links and devices as data.
    ("piton-topology", &["piton-driver"]),
    // Flows through a machine's links, in virtual time.
    ("piton-fluid", &["piton-topology"]),
    // What backends recorded, as files: nobody is asked anything.
    ("piton-trace", &["piton-driver"]),
    // Backends know the contract and not each other. The simulated machine's links share what flows through them.
    (
        "piton-sim",
        &["piton-fluid", "piton-copy", "piton-driver", "piton-sync"],
    ),
    // What the demonstration computes: on simulated devices, and as text for others.
    ("piton-training", &["piton-driver", "piton-sim"]),
    // Stand in for vendors' libraries, in tests, and what they share: kernels by name, the demonstration's among them.
    (
        "piton-standin",
        &["piton-driver", "piton-sim", "piton-sync", "piton-training"],
    ),
    ("piton-fakecuda", STAND_IN),
    ("piton-fakeascend", STAND_IN),
    // What those over a vendor's library share.
    ("piton-native", &["piton-driver", "piton-sync"]),
    ("piton-opencl", VENDOR),
    ("piton-cuda", VENDOR),
    ("piton-ascend", VENDOR),
    ("piton-conformance", &["piton-driver", "piton-sync"]),
    // What is told of streams and memory, and not who tells it.
    (
        "piton-sanitizer",
        &["piton-timeline", "piton-driver", "piton-sync"],
    ),
    // The allocators know timelines, and neither streams nor a backend.
    // The device pool also serves from plans.
    (
        "piton-alloc",
        &[
            "piton-plan",
            "piton-timeline",
            "piton-suballoc",
            "piton-driver",
            "piton-sync",
        ],
    ),
    ("piton-pinned", ALLOCATOR),
    (
        "piton-stream",
        &[
            "piton-sanitizer",
            "piton-timeline",
            "piton-driver",
            "piton-sync",
        ],
    ),
    // Graphs are made of what streams record, and replayed on them.
    (
        "piton-graph",
        &[
            "piton-sanitizer",
            "piton-stream",
            "piton-timeline",
            "piton-driver",
            "piton-sync",
        ],
    ),
    (
        "piton-transfer",
        &[
            "piton-topology",
            "piton-sanitizer",
            "piton-stream",
            "piton-pinned",
            "piton-timeline",
            "piton-driver",
            "piton-sync",
        ],
    ),
    // Buffers that remember their uses: what the facade needs and may not do itself, as it forbids unsafe code.
    (
        "piton-buffer",
        &[
            "piton-alloc",
            "piton-copy",
            "piton-driver",
            "piton-graph",
            "piton-pinned",
            "piton-sanitizer",
            "piton-stream",
            "piton-sync",
            "piton-timeline",
            "piton-transfer",
        ],
    ),
    // The facade wires them together.
    (
        "piton",
        &[
            "piton-alloc",
            "piton-buffer",
            "piton-driver",
            "piton-pinned",
            "piton-sanitizer",
            "piton-sim",
            "piton-snapshot",
            "piton-stream",
            "piton-sync",
            "piton-timeline",
            "piton-topology",
            "piton-trace",
            "piton-transfer",
        ],
    ),
    // The command also looks below the facade: replay and topo show single layers.
    (
        "piton-cli",
        &[
            "piton",
            "piton-alloc",
            "piton-ascend",
            "piton-conformance",
            "piton-cuda",
            "piton-driver",
            "piton-fluid",
            "piton-opencl",
            "piton-pinned",
            "piton-plan",
            "piton-sim",
            "piton-snapshot",
            "piton-stream",
            "piton-suballoc",
            "piton-sync",
            "piton-timeline",
            "piton-topology",
            "piton-trace",
            "piton-training",
            "piton-transfer",
        ],
    ),
    ("piton-benches", &[]),
    ("xtask", &[]),
];

/// What stands in for a vendor's library.
const STAND_IN: &[&str] = &["piton-standin", "piton-driver", "piton-sim", "piton-sync"];

/// Backends over a vendor's library.
const VENDOR: &[&str] = &["piton-driver", "piton-native", "piton-sync"];

const ALLOCATOR: &[&str] = &[
    "piton-timeline",
    "piton-suballoc",
    "piton-driver",
    "piton-sync",
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let manifest = format!("{}/Cargo.toml", package.folder);
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            let message = format!("{} is not in the table of arrows", package.name);
            findings.push(Finding::in_file(&manifest, message));
            continue;
        };
        for lower in &package.depends_on {
            if !allowed.contains(&lower.as_str()) {
                let message = format!("{} may not depend on {lower}", package.name);
                findings.push(Finding::in_file(&manifest, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_points_down_only() {
        for (index, (name, allowed)) in ARROWS.iter().enumerate() {
            for lower in *allowed {
                let below = ARROWS[..index].iter().any(|(known, _)| known == lower);
                assert!(below, "{name} -> {lower}");
            }
        }
    }

    #[test]
    fn an_arrow_between_allocators_is_found() {
        let tree = Tree::default()
            .with_package("piton-alloc", "crates/piton-alloc", &["piton-pinned"])
            .with_package("piton-pinned", "crates/piton-pinned", &["piton-driver"]);
        let findings = check(&tree);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "crates/piton-alloc/Cargo.toml");
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        let tree = Tree::default().with_package("piton-new", "crates/piton-new", &[]);
        assert_eq!(check(&tree).len(), 1);
    }
}
