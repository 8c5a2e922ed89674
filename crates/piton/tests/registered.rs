//! Memory that the program has already, page-locked where it is.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{Comparison, Runtime, Stream};
use support::{check, runtime, sanitized, small_devices};

const WORDS: usize = 100_000;

fn stream(runtime: &Runtime) -> Stream {
    runtime.device(0).unwrap().stream("copies").unwrap()
}

#[test]
fn elements_of_the_programs_are_copied_from_and_to_where_they_are() {
    let runtime = sanitized(small_devices(1));
    let stream = stream(&runtime);
    let there: Vec<u64> = (0..WORDS as u64).collect();
    let place = there.as_ptr();
    let mut buffer = stream.allocate::<u64>(WORDS as u64).unwrap();
    let registered = stream.register(there.clone().into_boxed_slice()).unwrap();
    let sent = stream.copy_to_device(registered, &mut buffer).unwrap();
    assert_eq!(&*sent.wait().unwrap().into_boxed_slice().unwrap(), there);
    let back = stream.register(there).unwrap();
    assert_eq!(back.as_slice().as_ptr(), place);
    stream.clear(&mut buffer).unwrap();
    let landed = stream.copy_to_host(&buffer, back).unwrap().wait().unwrap();
    let landed = landed.into_boxed_slice().unwrap();
    assert_eq!(landed.as_ptr(), place);
    assert!(landed.iter().all(|word| *word == 0));
    check(&runtime);
}

#[test]
fn a_registered_buffer_dropped_midway_stays_until_the_device_is_done() {
    let runtime = runtime(small_devices(1));
    let (held, other) = (stream(&runtime), stream(&runtime));
    let mut gate = other.allocate_zeroed::<u32>(1).unwrap();
    let mut buffer = held.allocate::<u32>(WORDS as u64).unwrap();
    let leftovers = runtime.device(0).unwrap().pinned_pool().leftovers();
    let registered = held.register(vec![6_u32; WORDS]).unwrap();
    held.wait_value(&gate, 0, Comparison::Equal, 1).unwrap();
    drop(held.copy_to_device(registered, &mut buffer).unwrap());
    assert_eq!(leftovers.sweep(), 4 * WORDS as u64);
    other.write_value(&mut gate, 0, 1).unwrap();
    assert!(held.read(&buffer).unwrap().iter().all(|word| *word == 6));
    assert_eq!(leftovers.sweep(), 0);
    assert!(runtime.device(0).unwrap().raw().take_error().is_none());
}

#[test]
fn memory_of_the_pool_leaves_it_as_a_copy_and_nothing_cannot_be_registered() {
    let runtime = runtime(small_devices(1));
    let stream = stream(&runtime);
    let mut of_pool = stream.pinned::<u16>(5).unwrap();
    of_pool.as_mut_slice().fill(3);
    assert_eq!(*of_pool.into_boxed_slice().unwrap(), [3; 5]);
    let refused = stream.register(Vec::<u16>::new()).unwrap_err();
    assert!(refused.memory.is_empty());
}
