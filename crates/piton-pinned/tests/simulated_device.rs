//! The pool under copies that a device really makes: the lane's progress is the queue's counter.

#![cfg(not(loom))]
#![expect(
    unsafe_code,
    reason = "submitting a copy is the driver contract's unsafe operation"
)]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

use piton_driver::{
    Admission, Device, DeviceId, DevicePtr, Driver, DriverError, Grid, Launch, Locking,
    ModuleImage, Parameter, Queue, QueueOptions, Signature,
};
use piton_pinned::{PinnedBlock, PinnedError, PinnedPool, PinnedPoolConfig};
use piton_sim::{DeviceConfig, KernelDefinition, SimConfig, SimDriver, SimModule};
use piton_timeline::{Lane, Progress, Timeline};
use std::sync::Arc;

const BYTES: usize = 100_000;

struct QueueProgress(Arc<dyn Queue>);

impl Progress for QueueProgress {
    fn completed(&self) -> u64 {
        self.0.completed().get()
    }
}

struct Bench {
    queue: Arc<dyn Queue>,
    lane: Lane,
    pool: PinnedPool,
    memory: DevicePtr,
    device: Arc<dyn Device>,
    driver: SimDriver,
}

fn bench() -> Bench {
    let driver = SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default())).unwrap();
    let device = driver.open(DeviceId(0)).unwrap();
    let queue = device.queues().create(&QueueOptions::default()).unwrap();
    let timeline = Timeline::new();
    let progress = Arc::new(QueueProgress(Arc::clone(&queue)));
    let config = PinnedPoolConfig {
        locking: Locking::Preferred,
        ..PinnedPoolConfig::default()
    };
    Bench {
        lane: timeline.register(Some(progress)).unwrap(),
        pool: PinnedPool::new(Arc::clone(&device), timeline, config).unwrap(),
        memory: device.memory().allocate(BYTES as u64).unwrap(),
        queue,
        device,
        driver,
    }
}

impl Bench {
    fn submitted(&self, admission: Result<Admission, DriverError>) -> piton_timeline::Timepoint {
        match admission.unwrap() {
            Admission::Accepted(position) => self.lane.submit(position.get()),
            Admission::Full => panic!("the queue is empty"),
        }
    }

    fn copy_in(&self, block: &PinnedBlock) {
        // SAFETY: the block is not written before the recorded read is complete; the device memory is used in this
        // queue's order only and never freed.
        let admission = unsafe {
            self.queue
                .copy_to_device(self.memory, block.as_ptr(), BYTES as u64)
        };
        block.record_read(self.submitted(admission));
    }

    fn copy_out(&self, block: &mut PinnedBlock) {
        // SAFETY: as above, and `block` is borrowed mutably, so no slice of it is out.
        let admission = unsafe {
            self.queue
                .copy_to_host(block.as_ptr(), self.memory, BYTES as u64)
        };
        block.record_write(self.submitted(admission));
    }

    fn synchronize(&self) {
        let outcome = self.queue.wait(self.queue.submitted(), None);
        assert_eq!(outcome, Ok(piton_driver::WaitOutcome::Reached));
    }
}

#[test]
fn what_goes_to_the_device_comes_back_through_another_block() {
    let bench = bench();
    let mut source = bench.pool.allocate(BYTES).unwrap();
    source.try_as_mut_slice().unwrap().fill(0xA5);
    bench.copy_in(&source);
    let mut back = bench.pool.allocate(BYTES).unwrap();
    bench.copy_out(&mut back);
    bench.synchronize();
    assert!(
        back.try_as_slice()
            .unwrap()
            .iter()
            .all(|byte| *byte == 0xA5)
    );
    bench.pool.check().unwrap();
}

#[test]
fn a_kernel_writes_a_block_where_it_lies_and_lent_memory_too() {
    let doubles = KernelDefinition::new(
        "doubles",
        Signature::new([Parameter::write::<u8>()]),
        |block| {
            let bytes = block.write::<u8>(0, 0..BYTES as u64)?;
            bytes.iter_mut().for_each(|byte| *byte *= 2);
            Ok(())
        },
    );
    let bench = bench();
    bench.driver.register(SimModule::new("m").with(doubles));
    let module = bench.device.kernels().load(ModuleImage::Registered("m"));
    let kernel = module.unwrap().kernel("doubles").unwrap();
    let launch = |address: DevicePtr| {
        let arguments = address.address().to_ne_bytes();
        let launch = Launch {
            extents: &[BYTES as u64],
            ..Launch::new(&kernel, Grid::linear(1), &arguments)
        };
        // SAFETY: the memory is that long, and nobody looks at it before the recorded write is complete.
        bench.submitted(unsafe { bench.queue.launch(&launch) })
    };
    let mut block = bench.pool.allocate(BYTES).unwrap();
    block.try_as_mut_slice().unwrap().fill(21);
    let point = launch(block.device_address().unwrap());
    block.record_write(point);
    bench.synchronize();
    assert!(
        block.try_as_slice().unwrap()[..BYTES]
            .iter()
            .all(|byte| *byte == 42)
    );
    let mut memory = vec![4_u8; BYTES];
    let lent = bench.pool.lend(
        &mut memory,
        |_| bench.synchronize(),
        |mut lent| {
            lent.record_write(launch(lent.device_address().unwrap()));
        },
    );
    assert_eq!(lent, Ok(()));
    assert!(memory.iter().all(|byte| *byte == 8));
}

#[test]
fn blocks_dropped_under_running_copies_come_round_again_unharmed() {
    let bench = bench();
    for round in 0..64_u8 {
        let mut source = bench.pool.allocate(BYTES).unwrap();
        source.try_as_mut_slice().unwrap().fill(round);
        bench.copy_in(&source);
        drop(source);
        let mut back = bench.pool.allocate(BYTES).unwrap();
        bench.copy_out(&mut back);
        match back.try_as_slice() {
            Ok(bytes) => assert_eq!(bytes[BYTES / 2], round),
            Err(PinnedError::InUse { pending }) => {
                assert!(!pending.is_empty());
                bench.synchronize();
                assert!(
                    back.try_as_slice()
                        .unwrap()
                        .iter()
                        .all(|byte| *byte == round)
                );
            }
            Err(other) => panic!("{other}"),
        }
    }
    bench.synchronize();
    bench.pool.collect();
    bench.pool.check().unwrap();
    assert_eq!(bench.pool.stats().pending_blocks, 0);
}
