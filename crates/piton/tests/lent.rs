//! Memory that the program keeps, lent to devices for a scope.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{BufferError, Comparison, Runtime, Stream};
use std::{
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
};
use support::{check, runtime, sanitized, small_devices};

const WORDS: usize = 100_000;

fn stream(runtime: &Runtime) -> Stream {
    runtime.device(0).unwrap().stream("copies").unwrap()
}

#[test]
fn borrowed_memory_is_copied_where_it_is_on_any_streams_in_the_programs_order() {
    let runtime = sanitized(small_devices(1));
    let (one, other) = (stream(&runtime), stream(&runtime));
    let mut words: Vec<u32> = (0..).take(WORDS).collect();
    let mut there = one.allocate::<u32>(WORDS as u64).unwrap();
    let mut back = one.allocate::<u32>(WORDS as u64).unwrap();
    let place = words.as_ptr();
    let lent = one.lend(&mut words, |mut lent| {
        assert_eq!(lent.as_slice().unwrap().as_ptr(), place);
        lent.copy_to(&one, &mut there).unwrap();
        // Writes what the first reads, and is read by the third: each on a stream that knows nothing of the last.
        other.fill(&mut back, 7).unwrap();
        lent.copy_from(&other, &back).unwrap();
        lent.copy_to(&one, &mut back).unwrap();
        lent.as_mut_slice().unwrap()[0] = 1;
    });
    lent.unwrap();
    assert!(words[1..].iter().all(|word| *word == 7) && words[0] == 1);
    assert!(
        (0..)
            .zip(one.read(&there).unwrap())
            .all(|(at, word)| at == word)
    );
    assert!(one.read(&back).unwrap().iter().all(|word| *word == 7));
    check(&runtime);
}

#[test]
fn a_scope_ends_behind_its_copies_though_the_view_is_forgotten_or_the_scope_panics() {
    let runtime = runtime(small_devices(1));
    let (held, other) = (stream(&runtime), stream(&runtime));
    let mut gate = other.allocate_zeroed::<u32>(1).unwrap();
    let source = other.allocate_zeroed::<u32>(WORDS as u64).unwrap();
    for panics in [false, true] {
        let mut words = vec![9_u32; WORDS];
        other.write_value(&mut gate, 0, 0).unwrap();
        other.synchronize().unwrap();
        let scope = || {
            held.lend(&mut words, |lent| {
                let mut lent = ManuallyDrop::new(lent);
                held.wait_value(&gate, 0, Comparison::Equal, 1).unwrap();
                lent.copy_from(&held, &source).unwrap();
                assert!(!held.query().unwrap());
                other.write_value(&mut gate, 0, 1).unwrap();
                assert!(!panics, "as asked for");
            })
        };
        let ended = catch_unwind(AssertUnwindSafe(scope));
        assert_eq!(ended.is_err(), panics);
        // No wait in between: the scope has waited.
        assert!(words.iter().all(|word| *word == 0));
    }
}

#[test]
fn what_cannot_be_copied_is_refused_with_numbers_and_leaves_the_memory_as_it_was() {
    let (mine, another) = (runtime(small_devices(1)), runtime(small_devices(1)));
    let (stream, foreign) = (stream(&mine), stream(&another));
    let mut shorter = stream.allocate::<u16>(4).unwrap();
    let mut theirs = foreign.allocate::<u16>(5).unwrap();
    let mut words = [3_u16; 5];
    let lent = stream.lend(&mut words, |lent| {
        let refused = lent.copy_to(&stream, &mut shorter).unwrap_err();
        let BufferError::LengthMismatch {
            source_elements: 5,
            destination_elements: 4,
        } = refused
        else {
            panic!("{refused}");
        };
        let refused = lent.copy_to(&foreign, &mut theirs).unwrap_err();
        assert!(matches!(refused, BufferError::OtherRuntime), "{refused}");
        lent.len()
    });
    assert_eq!(lent.unwrap(), 5);
    assert_eq!(words, [3; 5]);
    let nothing = stream.lend(&mut [0_u16; 0], |_| panic!("nothing was lent"));
    assert!(matches!(nothing, Err::<(), _>(BufferError::Pinned(_))));
}
