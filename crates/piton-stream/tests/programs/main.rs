//! Random programs over at most eight streams, on schedules that a seed decides and on threads, against what the
//! program says.
//!
//! A program is data (`program`). A run does it and keeps books of what it asked for (`run`, `books`). Kernels and host
//! functions write a log of what they met (`world`), the device a trace. When everything has ended, the log and the
//! trace are held against the books (`verdict`). The numbers of invariants are those of `docs/testing.md`.
//!
//! A program that fails is shortened and printed with its seed. `PITON_PROGRAM=<seed>` runs that one alone.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests may")]

mod books;
mod contents;
mod program;
mod run;
mod verdict;
#[path = "../support/wakers.rs"]
mod wakers;
mod watched;
mod world;

use piton_driver::ExecutionRecord;
use piton_sim::{ScheduleOrder, SimConfig};
use program::Program;
use run::Run;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use world::{Entry, World, config};

/// Programs that failed once.
const REGRESSIONS: &[u64] = &[];

fn execute(program: &Program, config: SimConfig) -> (Vec<ExecutionRecord>, Vec<Entry>) {
    let world = World::new(config);
    let devices = world.devices.iter().map(|one| &one.device);
    let traces: Vec<_> = devices.map(|one| one.execution_trace().unwrap()).collect();
    traces.iter().for_each(|trace| trace.start(100_000));
    let mut run = Run::new(&world, program);
    run.all(&program.ops);
    if world.is_virtual {
        run.quiet();
    }
    let is_finished = !(program.is_abandoned && world.is_virtual);
    if is_finished {
        run.finish();
    }
    let mut records = Vec::new();
    for trace in traces {
        let (recorded, untold) = trace.finish();
        assert_eq!(untold, 0);
        records.extend(recorded);
    }
    if is_finished {
        // Nothing reads what a device held that is gone.
        let left = (!world.is_lost.get()).then(|| world.contents());
        verdict::check(&run, &records, left.as_ref());
    }
    let token = run.drop_all();
    // What waits for memory that nobody will write waits for ever; and nobody waits on the host for a device that is gone.
    let is_cut_off = program.has_memory_waits() || program.devices == 1 && world.is_lost.get();
    let waits_for_ever = !is_finished && is_cut_off;
    if !is_finished && !waits_for_ever {
        world.let_pass();
    }
    if !waits_for_ever {
        world.streams.prune();
        assert_eq!(world.streams.detached(), 0, "a queue is kept");
        assert_eq!(Arc::strong_count(&token), 1, "a host function is kept");
        world.streams.check();
        world.free();
    }
    let log = Arc::clone(&world.log);
    let is_alone = world.is_virtual && !waits_for_ever;
    drop(world);
    if is_alone {
        assert_eq!(Arc::strong_count(&log), 1, "the machine is leaked");
    }
    let entries = log.lock().clone();
    (records, entries)
}

fn seeded(program: &Program) -> SimConfig {
    config(program).in_virtual_time(program.seed, ScheduleOrder::Seeded)
}

fn passes(program: &Program, config: &SimConfig) -> bool {
    catch_unwind(AssertUnwindSafe(|| execute(program, config.clone()))).is_ok()
}

/// Leaves out what is not needed to fail. Only for schedules that are the same each time.
fn shortened(program: &Program, config: &SimConfig) -> Program {
    let mut shortest = program.clone();
    let mut length = shortest.ops.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at + length <= shortest.ops.len() {
            let shorter = shortest.without(at..at + length);
            if passes(&shorter, config) {
                at += length;
            } else {
                shortest = shorter;
            }
        }
        length /= 2;
    }
    shortest
}

/// Runs the programs of these seeds on the machine that `machine` makes of each.
fn run_all(seeds: impl Iterator<Item = u64>, machine: impl Fn(&Program) -> SimConfig) {
    let wanted = std::env::var("PITON_PROGRAM").ok();
    let wanted: Option<u64> = wanted.and_then(|seed| seed.parse().ok());
    let seeds = REGRESSIONS.iter().copied().chain(seeds);
    for seed in wanted.map_or_else(|| seeds.collect(), |seed| vec![seed]) {
        let program = Program::random(seed);
        let config = machine(&program);
        if !passes(&program, &config) {
            let shortest = if config.workers.is_none() {
                shortened(&program, &config)
            } else {
                program
            };
            panic!("seed {seed} fails: {shortest:#?}");
        }
    }
}

#[test]
fn programs_do_what_they_say_on_any_schedule() {
    run_all(0..10_000, seeded);
}

#[test]
fn programs_do_what_they_say_with_one_worker() {
    run_all(0..2_500, |program| SimConfig {
        workers: Some(1),
        ..config(program)
    });
}

#[test]
fn programs_do_what_they_say_with_two_workers() {
    run_all(0..2_500, |program| SimConfig {
        workers: Some(2),
        ..config(program)
    });
}

#[test]
fn programs_do_what_they_say_where_nobody_spins() {
    for workers in [1, 2] {
        run_all(2_500..3_000, |program| SimConfig {
            workers: Some(workers),
            spin: Some(Duration::ZERO),
            ..config(program)
        });
    }
}

#[test]
fn the_lowest_band_is_served_however_much_the_others_have_to_do() {
    for seed in 0..100 {
        let program = Program::crowded(seed);
        let (records, _) = execute(&program, seeded(&program));
        // Queues are numbered in the order they are made in.
        let lowest = records.iter().map(|record| record.queue).min().unwrap();
        verdict::is_served(lowest, &records);
    }
}

#[test]
fn one_seed_gives_one_run_to_the_byte() {
    for seed in 0..500 {
        let program = Program::random(seed);
        let first = execute(&program, seeded(&program));
        assert_eq!(first, execute(&program, seeded(&program)), "seed {seed}");
    }
}
