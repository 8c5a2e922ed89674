//! Each call to the source of a short program fails in turn: nothing leaks, nothing changes that should not.

#![cfg(not(loom))]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod source;
mod world;

use piton_alloc::{ExactBlocks, MemoryPoolConfig};
use source::GRANULE;
use world::{Uses, World};

/// Grows, fills the device, gives Blocks back to make room, trims.
fn program(world: &mut World) {
    for bytes in [GRANULE, 3 * GRANULE, 4 * GRANULE, 700] {
        world.allocate(bytes, 1, Some(0));
    }
    world.free(1, Uses { lanes: 1 });
    world.free(1, Uses { lanes: 3 });
    world.allocate(6 * GRANULE, 1, Some(1));
    world.complete(0, 100);
    world.complete(1, 100);
    world.allocate(9 * GRANULE, 1, Some(2));
    world.free(0, Uses { lanes: 4 });
    world.allocate(2 * GRANULE, 1, Some(0));
    world.complete(2, 100);
    world.trim(2 * GRANULE);
    world.allocate(GRANULE, 1, None);
    world.trim(0);
}

fn run_with_fault(mut world: World, call: u64) -> bool {
    world.source.fail_call(call);
    program(&mut world);
    let fired = world.source.has_fired();
    world.finish();
    fired
}

const CAPACITY: u64 = 16 * GRANULE;

fn config() -> MemoryPoolConfig {
    MemoryPoolConfig {
        block_bytes: Some(2 * GRANULE),
        exact_blocks: ExactBlocks::Automatic,
        ..MemoryPoolConfig::default()
    }
}

#[test]
fn any_failing_call_to_the_source_leaves_the_pool_whole() {
    let run = |call: &u64| run_with_fault(World::new(CAPACITY, &config()), *call);
    let calls = (1..).take_while(run).count();
    assert!(
        calls >= 6,
        "the program reaches the source only {calls} times"
    );
}

#[test]
fn any_failing_call_for_pages_leaves_the_pool_whole() {
    let run = |call: &u64| run_with_fault(World::with_pages(CAPACITY, &config()), *call);
    let calls = (1..).take_while(run).count();
    assert!(
        calls >= 16,
        "the program reaches the source only {calls} times"
    );
}
