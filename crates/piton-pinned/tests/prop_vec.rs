//! Elements in page-locked memory against a plain `Vec`, with a device that uses them now and then.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

mod fake;

use fake::{Ability, FakeDevice};
use piton_pinned::{PinnedError, PinnedPool, PinnedPoolConfig, PinnedVec};
use piton_timeline::{Lane, Timeline};
use proptest::prelude::*;
use std::io::{Read, Write};

#[derive(Clone, Debug)]
enum Step {
    Push(u32),
    Pop,
    Extend(Vec<u32>),
    Resize(usize, u32),
    Truncate(usize),
    Reserve(usize),
    Shrink,
    Set(usize, u32),
    DeviceReads,
    DeviceWrites,
    DeviceEnds,
    FailAt(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u32>().prop_map(Step::Push),
        2 => Just(Step::Pop),
        3 => prop::collection::vec(any::<u32>(), 0..300).prop_map(Step::Extend),
        1 => (0..3000_usize, any::<u32>()).prop_map(|(len, element)| Step::Resize(len, element)),
        1 => (0..300_usize).prop_map(Step::Truncate),
        1 => prop_oneof![0..5000_usize, Just(usize::MAX)].prop_map(Step::Reserve),
        1 => Just(Step::Shrink),
        3 => (any::<usize>(), any::<u32>()).prop_map(|(at, element)| Step::Set(at, element)),
        1 => Just(Step::DeviceReads),
        1 => Just(Step::DeviceWrites),
        3 => Just(Step::DeviceEnds),
        1 => (1..3_u64).prop_map(Step::FailAt),
    ]
}

struct Device {
    lane: Lane,
    submitted: u64,
}

/// Does the step to both if the pinned one is not refused.
fn apply(
    step: Step,
    pinned: &mut PinnedVec<u32>,
    model: &mut Vec<u32>,
    device: &mut Device,
) -> Result<(), PinnedError> {
    match step {
        Step::Push(element) => {
            pinned.push(element)?;
            model.push(element);
        }
        Step::Pop => assert_eq!(pinned.pop()?, model.pop()),
        Step::Extend(elements) => {
            pinned.extend_from_slice(&elements)?;
            model.extend_from_slice(&elements);
        }
        Step::Resize(len, element) => {
            pinned.resize(len, element)?;
            model.resize(len, element);
        }
        Step::Truncate(len) => {
            pinned.truncate(len);
            model.truncate(len);
        }
        Step::Reserve(more) => {
            pinned.reserve(more)?;
            assert!(pinned.capacity() >= pinned.len() + more);
        }
        Step::Shrink => pinned.shrink_to_fit()?,
        Step::Set(at, element) => {
            let elements = pinned.try_as_mut_slice()?;
            assert_eq!(elements.len(), model.len());
            if !model.is_empty() {
                let at = at % model.len();
                (elements[at], model[at]) = (element, element);
            }
        }
        Step::DeviceReads => {
            device.submitted += 1;
            pinned.record_read(device.lane.submit(device.submitted));
        }
        Step::DeviceWrites => {
            device.submitted += 1;
            pinned.record_write(device.lane.submit(device.submitted));
        }
        Step::DeviceEnds => device.lane.complete(device.submitted),
        Step::FailAt(_) => {}
    }
    Ok(())
}

fn pool() -> (
    std::sync::Arc<FakeDevice>,
    std::sync::Arc<Timeline>,
    PinnedPool,
) {
    let device = FakeDevice::new(Ability::default());
    let timeline = Timeline::new();
    let config = PinnedPoolConfig {
        cap_bytes: 256 << 10,
        slab_bytes: 64 << 10,
        large_above_bytes: 8 << 10,
        ..PinnedPoolConfig::default()
    };
    let pool = PinnedPool::new(device.clone(), timeline.clone(), config).unwrap();
    (device, timeline, pool)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn it_is_a_vec_or_refuses_and_stays_as_it_was(steps in prop::collection::vec(step(), 0..80)) {
        let (fake, timeline, pool) = pool();
        let mut device = Device { lane: timeline.register(None).unwrap(), submitted: 0 };
        let (mut pinned, mut model) = (PinnedVec::new(&pool), Vec::new());
        for step in steps {
            if let Step::FailAt(call) = step {
                fake.fail_at(call);
            }
            let outcome = apply(step, &mut pinned, &mut model, &mut device);
            prop_assert_eq!(pinned.len(), model.len(), "after {:?}", outcome);
            if let Ok(elements) = pinned.try_as_slice() {
                prop_assert_eq!(elements, &model[..]);
            }
            pool.check().unwrap();
        }
        device.lane.complete(device.submitted);
        prop_assert_eq!(pinned.try_as_slice().unwrap(), &model[..]);
    }
}

#[test]
fn bytes_are_written_read_in_and_read_out_as_of_a_file() {
    let (_fake, _timeline, pool) = pool();
    let mut bytes = PinnedVec::new(&pool);
    write!(bytes, "one {}", 2).unwrap();
    assert_eq!(bytes.read_from(&b" three and more"[..], 6).unwrap(), 6);
    assert_eq!(bytes.read_from(&b""[..], 100).unwrap(), 0);
    let mut text = String::new();
    bytes
        .try_as_slice()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "one 2 three");
    assert!(bytes.read_from(&b"x"[..], usize::MAX).is_err());
    assert_eq!(bytes.len(), 11);
}

#[test]
fn growing_leaves_the_old_memory_to_the_device_that_reads_it() {
    let (_fake, timeline, pool) = pool();
    let lane = timeline.register(None).unwrap();
    let mut elements = PinnedVec::with_capacity(&pool, 10).unwrap();
    elements.resize(elements.capacity(), 7_u64).unwrap();
    let before = elements.block().unwrap().as_ptr();
    elements.record_read(lane.submit(1));
    assert!(elements.try_as_mut_slice().is_err());
    elements.push(8).unwrap();
    assert_ne!(elements.block().unwrap().as_ptr(), before);
    assert!(elements.uses().is_empty(), "the new memory is nobody's yet");
    assert_eq!(pool.stats().pending_blocks, 1);
    lane.complete(1);
    pool.collect();
    assert_eq!(pool.stats().pending_blocks, 0);
}

#[cfg(feature = "bytes")]
#[test]
fn bytes_of_network_code_keep_the_memory_and_refuse_a_writing_device() {
    let (_fake, timeline, pool) = pool();
    let lane = timeline.register(None).unwrap();
    let mut written = PinnedVec::<u8>::new(&pool);
    written.extend_from_buf(&b"page-locked"[..]).unwrap();
    written.record_write(lane.submit(1));
    let refused = written.into_bytes().unwrap_err();
    assert!(matches!(refused.error, PinnedError::InUse { .. }));
    lane.complete(1);
    let bytes = refused.memory.into_bytes().unwrap();
    let part = bytes.slice(5..);
    drop(bytes);
    assert_eq!((&part[..], pool.stats().live_blocks), (&b"locked"[..], 1));
    drop(part);
    assert_eq!(pool.stats().live_blocks, 0);
}

#[cfg(feature = "allocator-api2")]
#[test]
fn collections_lie_in_the_pool_and_leave_nothing_there() {
    let (_fake, _timeline, pool) = pool();
    let mut numbers: allocator_api2::vec::Vec<u64, &PinnedPool> =
        allocator_api2::vec::Vec::new_in(&pool);
    numbers.extend(0..1000);
    numbers.retain(|number| number % 3 == 0);
    numbers.shrink_to_fit();
    assert!(numbers.iter().copied().eq((0..1000).step_by(3)));
    assert_eq!(pool.stats().live_blocks, 1);
    let aligned = allocator_api2::boxed::Box::new_in(Aligned([3; 4096]), &pool);
    assert!((&raw const *aligned).addr().is_multiple_of(4096));
    assert_eq!(aligned.0, [3; 4096]);
    let empty = allocator_api2::vec::Vec::<u8, &PinnedPool>::with_capacity_in(0, &pool);
    drop((numbers, aligned, empty));
    assert_eq!(pool.stats().live_blocks, 0);
    pool.check().unwrap();
}

#[cfg(feature = "allocator-api2")]
#[repr(align(4096))]
struct Aligned([u8; 4096]);

#[test]
fn elements_of_no_bytes_are_refused_and_not_lost() {
    let (_fake, _timeline, pool) = pool();
    let mut elements = PinnedVec::new(&pool);
    let refused = PinnedError::InvalidSize {
        given: 0,
        maximum: isize::MAX as u64,
    };
    assert_eq!(elements.push(()), Err(refused.clone()));
    assert_eq!(elements.resize(3, ()), Err(refused));
    assert_eq!((elements.len(), elements.resize(0, ())), (0, Ok(())));
}
