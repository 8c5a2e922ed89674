//! What is reported of random programs is what a search through the graph of their order finds.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod program;

use piton_driver::Access;
use program::{Command, Op, World, access, conflicts, plain, with_holds};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The pairs that the rule of shadow memory reports, by brute force: of two commands that conflict on a byte in no
/// order, unless one that stands for the first lies between them.
fn expected(world: &World) -> BTreeSet<(usize, usize)> {
    let before = world.reachability();
    let is_before = |a: &Command, b: &Command| before[b.node].contains(&a.node);
    let mut pairs = BTreeSet::new();
    for (j, second) in world.commands.iter().enumerate() {
        for (i, first) in world.commands[..j].iter().enumerate() {
            if is_before(first, second) {
                continue;
            }
            let is_met = |byte: &u64| {
                !world.commands[i + 1..j].iter().any(|between| {
                    let covers = match access(between, *byte) {
                        Some(Access::Write) => true,
                        Some(Access::Read) => access(first, *byte) == Some(Access::Read),
                        None => false,
                    };
                    covers && is_before(first, between)
                })
            };
            if conflicts(first, second).iter().any(is_met) {
                pairs.insert((i, j));
            }
        }
    }
    pairs
}

fn reported(world: &World) -> BTreeSet<(usize, usize)> {
    let index = |point| {
        world
            .commands
            .iter()
            .position(|c| c.point == point)
            .unwrap()
    };
    let pairs = world.reported.iter();
    pairs
        .map(|(first, second)| (index(*first), index(*second)))
        .collect()
}

fn check_holds(program: &[Op]) {
    let world = World::run(program);
    let (before, looked_at) = (world.reachability(), world.looked_at());
    let is_before =
        |a: usize, b: usize| before[world.commands[b].node].contains(&world.commands[a].node);
    let unordered = |a: usize, b: usize| !is_before(a, b) && !is_before(b, a);
    let seen = |n: usize| looked_at[world.commands[n].node];
    let reported = reported(&world);
    for &(a, b) in &reported {
        assert!(seen(a) && seen(b), "{a} and {b} are not known to run");
        assert!(unordered(a, b), "{a} and {b} are ordered");
        assert!(!conflicts(&world.commands[a], &world.commands[b]).is_empty());
    }
    // Whether the pair, or one that stands for `a` in it, is reported on the byte.
    let stands = |a: usize, b: usize, byte: u64| {
        reported.iter().any(|&(x, y)| {
            let shares = conflicts(&world.commands[x], &world.commands[y]).contains(&byte);
            y == b && (x == a || is_before(a, x)) && shares
        })
    };
    for a in 0..world.commands.len() {
        for b in 0..a {
            if !(seen(a) && seen(b) && unordered(a, b)) {
                continue;
            }
            for byte in conflicts(&world.commands[a], &world.commands[b]) {
                let is_told = stands(a, b, byte) || stands(b, a, byte);
                assert!(
                    is_told,
                    "{b} and {a} race on byte {byte}, and nothing says so"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_pairs_that_nothing_stands_for_are_reported(program in plain()) {
        let world = World::run(&program);
        prop_assert_eq!(reported(&world), expected(&world));
    }

    #[test]
    fn late_signals_and_host_functions_hide_nothing_and_invent_nothing(program in with_holds()) {
        check_holds(&program);
    }
}
