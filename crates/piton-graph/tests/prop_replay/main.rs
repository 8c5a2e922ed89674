//! Random programs over at most four streams: made into graphs and replayed, they leave the bytes that they leave when
//! they are run at once.
//!
//! A program (`program`) is a list of operations on a few buffers of the device and of the host: kernels, fills, copies
//! every way, host functions; parts of it run once, or again, or not at all, as a value in device memory says. What
//! conflicts is ordered with events, as any program must (`submitter`). Run at once, the host asks for what decides; in
//! a graph, bodies do (`case`). Some buffers are the graph's own in the replay, and ordinary ones otherwise. Where a sanitizer
//! looks on, it finds nothing.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests may")]

mod case;
mod program;
mod submitter;
#[path = "../support/mod.rs"]
mod support;

use case::{Case, bench};
use piton_graph::{Executable, GraphBuilder, NodeId, PrivateBlock};
use piton_sim::{ScheduleOrder, SimConfig};
use program::{Op, PUBLIC, Part, Updates, WORDS, captured, decided, filled_whole, updates};
use proptest::prelude::*;
use support::{config, offer, replay};

/// What the nodes of a program do, by their numbers: as submitted, those of bodies behind the node they belong to.
fn nodes(parts: &mut [Part]) -> Vec<Node<'_>> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            Part::Run(ops) => {
                let ops = ops.iter_mut().map(|(_, op)| op);
                all.extend(ops.filter(|op| op.named().is_some()).map(Node::Op));
            }
            Part::If { flag, word, body } => {
                all.push(Node::If { flag: *flag, word });
                all.extend(nodes(body));
            }
            Part::While { body, .. } => {
                all.push(Node::While);
                all.extend(nodes(body));
            }
        }
    }
    all
}

enum Node<'a> {
    Op(&'a mut Op),
    If { flag: usize, word: &'a mut usize },
    While,
}

/// Gives some nodes of a program other values; says which, in the order of the last time.
fn change(parts: &mut [Part], updates: &Updates) -> Vec<usize> {
    let mut nodes = nodes(parts);
    let mut changed = Vec::new();
    for (index, dice) in updates {
        if nodes.is_empty() {
            break;
        }
        let number = index.index(nodes.len());
        match &mut nodes[number] {
            Node::Op(op) => **op = op.changed(*dice),
            Node::If { word, .. } => **word = *dice as usize % WORDS,
            // What it looks at is what its body counts down.
            Node::While => continue,
        }
        changed.push(number);
    }
    changed
}

/// Gives nodes of what was made of a program the values that they have there now.
fn update(case: &Case, executable: &mut Executable, parts: &mut [Part], changed: &[usize]) {
    let nodes = nodes(parts);
    assert_eq!(executable.node_count() as usize, nodes.len());
    for number in changed {
        let work = match &nodes[*number] {
            Node::Op(op) => case.graph_memory().work(**op),
            Node::If { flag, word } => case.condition(*flag, **word),
            Node::While => panic!("a loop is not changed"),
        };
        let node = NodeId(u32::try_from(*number).unwrap());
        executable.update(node, work).unwrap();
    }
}

/// Run once, again, and twice with other values: replayed, all of it is under way at once but for the first.
fn replays_do_what_running_does(case: &Case, parts: &[Part], changes: &[Updates; 2]) {
    let mut changed = parts.to_vec();
    let versions = changes.each_ref().map(|updates| {
        let numbers = change(&mut changed, updates);
        (changed.clone(), numbers)
    });
    case.reset();
    case.eager(parts);
    let once = case.contents();
    case.eager(parts);
    for (version, _) in &versions {
        case.eager(version);
    }
    let all = case.contents();
    let graph = case.graph(parts);
    assert!(case.contents() == all, "something runs in a capture");
    let mut executable = graph.instantiate(&case.bench.device).unwrap();
    case.reset();
    assert!(offer(&mut executable, case.stream(1)).is_ok());
    assert!(case.contents() == once, "a replay does something else");
    replay(&mut executable, case.stream(2)).unwrap();
    for (turn, (mut version, numbers)) in (3..).zip(versions) {
        update(case, &mut executable, &mut version, &numbers);
        replay(&mut executable, case.stream(turn)).unwrap();
    }
    assert!(case.contents() == all, "replays do something else");
}

/// The same as a part of something larger, with memory from elsewhere.
fn so_does_a_part_of_a_graph(case: &Case, parts: &[Part]) {
    let around = [filled_whole(0, 77), Op::Add(PUBLIC - 1, 78)];
    let [first, last] = around.map(|op| [Part::Run(vec![(0, op)])]);
    case.reset();
    for parts in [&first, parts, &last] {
        case.eager(parts);
    }
    let once = case.contents();
    let mut builder = GraphBuilder::new();
    let mut behind = Vec::new();
    for parts in [&first, parts, &last] {
        behind = case.build(&mut builder, parts, &behind).unwrap();
    }
    let graph = builder.finish(case.private.clone());
    let bytes = graph.private_bytes().unwrap();
    let block = PrivateBlock::allocate(&case.bench.device, bytes + 1).unwrap();
    let mut executable = graph.instantiate_in(&case.bench.device, &block).unwrap();
    case.reset();
    replay(&mut executable, case.stream(3)).unwrap();
    assert!(case.contents() == once, "as a part it does something else");
}

fn check(config: SimConfig, is_watched: bool, parts: &[Part], changes: &[Updates; 2]) {
    let case = Case::new(bench(config, is_watched));
    replays_do_what_running_does(&case, parts, changes);
    so_does_a_part_of_a_graph(&case, parts);
    if is_watched {
        // Neither the program, nor its replays, nor chunks that share bytes.
        assert_eq!(case.bench.reports(), []);
    }
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        // Enough to be read, and not many times as long as what it shortens.
        max_shrink_iters: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn changes() -> impl Strategy<Value = [Updates; 2]> {
    [updates(), updates()]
}

fn of_workers(workers: u32) -> SimConfig {
    SimConfig {
        workers: Some(workers),
        ..config()
    }
}

proptest! {
    #![proptest_config(cases(6_000))]

    #[test]
    fn a_replay_does_what_the_program_does_in_virtual_time(
        seed in any::<u64>(), program in captured(), changes in changes(),
    ) {
        let config = config().in_virtual_time(seed, ScheduleOrder::Seeded);
        check(config, seed % 4 == 0, &program, &changes);
    }

    #[test]
    fn bodies_do_what_the_program_decides_in_virtual_time(
        seed in any::<u64>(), program in decided(), changes in changes(),
    ) {
        let config = config().in_virtual_time(seed, ScheduleOrder::Seeded);
        check(config, seed % 4 == 0, &program, &changes);
    }
}

proptest! {
    #![proptest_config(cases(750))]

    #[test]
    fn a_replay_does_what_the_program_does_with_one_worker(program in captured(), changes in changes()) {
        check(of_workers(1), false, &program, &changes);
    }

    #[test]
    fn a_replay_does_what_the_program_does_with_two_workers(program in captured(), changes in changes()) {
        check(of_workers(2), false, &program, &changes);
    }

    #[test]
    fn bodies_do_what_the_program_decides_with_one_worker(program in decided(), changes in changes()) {
        check(of_workers(1), true, &program, &changes);
    }

    #[test]
    fn bodies_do_what_the_program_decides_with_two_workers(program in decided(), changes in changes()) {
        check(of_workers(2), true, &program, &changes);
    }
}
