//! The drawing as text: well formed, nothing from a machine gets out of its place.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

#[path = "prop_machine/random.rs"]
mod random;

use piton_topology::{
    DeviceId, Highlight, LinkId, LinkKind, Machine, MachineBuilder, PeerAccess, Router, svg,
};
use proptest::prelude::*;

/// Walks the tags of `markup` and asserts that each is closed in order, attributes quoted.
fn assert_well_formed(markup: &str) {
    let mut open = Vec::new();
    let mut rest = markup;
    while let Some(start) = rest.find('<') {
        assert!(
            !rest[..start].contains('>'),
            "stray > in {}",
            &rest[..start]
        );
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap());
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?} stay open");
}

fn count(markup: &str, what: &str) -> usize {
    markup.matches(what).count()
}

#[test]
fn every_node_has_a_box_and_every_link_a_line() {
    let machine = Machine::linked_pairs(4, LinkKind::Hccs, 2).unwrap();
    let markup = svg(&machine, &[]);
    assert_well_formed(&markup);
    assert_eq!(count(&markup, "<rect class="), machine.nodes().len());
    // Four kinds of link in the legend.
    assert_eq!(count(&markup, "<path class="), machine.links().len() + 4);
    assert_eq!(count(&markup, "class=\"device\""), 4);
}

#[test]
fn links_that_carried_copies_stand_out_and_the_pair_is_listed() {
    let machine = Machine::linked_pairs(4, LinkKind::Hccs, 2).unwrap();
    let router = Router::new(&machine, &PeerAccess::all());
    let (from, to) = (DeviceId::new(0), DeviceId::new(2));
    let route = router.route(from, to, 1 << 20).unwrap();
    let highlight = Highlight {
        from,
        to,
        hops: &route.hops,
        label: "7 copies",
        weight: 9,
    };
    let markup = svg(&machine, &[highlight]);
    assert_well_formed(&markup);
    assert_eq!(count(&markup, " traffic\""), route.hops.len());
    // Both devices, both switches, both host bridges, both memories.
    assert_eq!(count(&markup, " crossed\""), 8);
    assert!(markup.contains("DEV0 → DEV2: 7 copies"));
}

#[test]
fn names_and_labels_are_text_and_never_markup() {
    let mut builder = MachineBuilder::new();
    let evil = "<script>\"'&";
    builder.device(evil).unwrap();
    builder.switch("</svg><b>").unwrap();
    let machine = builder.build().unwrap();
    let highlight = Highlight {
        from: DeviceId::new(0),
        to: DeviceId::new(77),
        hops: &[LinkId::new(99)],
        label: "<img src=x>\u{0}",
        weight: u64::MAX,
    };
    let markup = svg(&machine, &[highlight, highlight]);
    assert_well_formed(&markup);
    assert!(!markup.contains("<script") && !markup.contains("<img") && !markup.contains("<b>"));
    assert!(!markup.contains('\u{0}'));
}

#[test]
fn a_machine_with_nothing_in_it_is_drawn() {
    assert_well_formed(&svg(&MachineBuilder::new().build().unwrap(), &[]));
}

/// Whether two boxes share some area.
fn overlap(a: &[i32], b: &[i32]) -> bool {
    let apart = |at: usize| a[at] + a[at + 2] <= b[at] || b[at] + b[at + 2] <= a[at];
    !apart(0) && !apart(1)
}

/// Left, top, width, height of every box.
fn boxes(markup: &str) -> Vec<Vec<i32>> {
    let number = |tag: &str, name: &str| -> i32 {
        let value = tag.split(&format!(" {name}=\"")).nth(1).unwrap();
        value.split('"').next().unwrap().parse().unwrap()
    };
    let tags = markup.split("<rect ").skip(1);
    tags.filter(|tag| !tag.starts_with("class=\"bar\""))
        .map(|tag| {
            ["x", "y", "width", "height"]
                .map(|name| number(tag, name))
                .to_vec()
        })
        .collect()
}

proptest! {
    #[test]
    fn any_machine_is_drawn_well_formed_and_no_box_covers_another(parts in random::machines()) {
        let machine = parts.build();
        let markup = svg(&machine, &[]);
        assert_well_formed(&markup);
        let boxes = boxes(&markup);
        prop_assert_eq!(boxes.len(), machine.nodes().len());
        for (position, a) in boxes.iter().enumerate() {
            for b in &boxes[position + 1..] {
                prop_assert!(!overlap(a, b), "{:?} and {:?}", a, b);
            }
        }
    }
}
