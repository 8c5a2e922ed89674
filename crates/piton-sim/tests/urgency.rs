//! Who holds an urgent queue up is urgent, wherever it stands and waits its turn.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "submission is unsafe")]

mod support;

use piton_driver::{
    Device, DeviceId, Driver, Grid, HardwareQueue, Launch, ModuleImage, Placement, Position,
    Priority, Queue, QueueActivity, QueueOptions, Signature,
};
use piton_sim::{KernelDefinition, SimConfig, SimDriver, SimModule};
use piton_sync::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use support::{accepted, comes, config, ends};

/// A machine with two hardware queues and two workers, one of which runs the kernel that holds the first of them.
struct Held {
    config: SimConfig,
    _driver: SimDriver,
    device: Arc<dyn Device>,
    gate: Arc<AtomicBool>,
    /// The kernels that ran, by name.
    log: Arc<Mutex<Vec<&'static str>>>,
    holder: Arc<dyn Queue>,
}

impl Held {
    fn new() -> Self {
        let mut config = SimConfig {
            workers: Some(2),
            ..config(1)
        };
        config.devices[0].hardware_queues = 2;
        let driver = SimDriver::new(config.clone()).unwrap();
        let (inside, gate) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (entered, opened) = (Arc::clone(&inside), Arc::clone(&gate));
        let holds = KernelDefinition::new("holds", Signature::new([]), move |_| {
            entered.store(true, Ordering::Release);
            comes(|| opened.load(Ordering::Acquire));
            Ok(())
        });
        let module = ["patient", "usual", "other"].into_iter().fold(
            SimModule::new("m").with(holds),
            |module, name| {
                let log = Arc::clone(&log);
                module.with(KernelDefinition::new(name, Signature::new([]), move |_| {
                    log.lock().push(name);
                    Ok(())
                }))
            },
        );
        driver.register(module);
        let device = driver.open(DeviceId(0)).unwrap();
        let holder = queue(&device, 0, 0);
        let held = Self {
            config,
            _driver: driver,
            device,
            gate,
            log,
            holder,
        };
        held.launch(&held.holder, "holds");
        assert!(comes(|| inside.load(Ordering::Acquire)));
        held
    }

    fn launch(&self, queue: &Arc<dyn Queue>, name: &str) -> Position {
        let module = self.device.kernels().load(ModuleImage::Registered("m"));
        let kernel = module.unwrap().kernel(name).unwrap();
        // SAFETY: the kernels name no memory.
        let position =
            accepted(unsafe { queue.launch(&Launch::new(&kernel, Grid::linear(1), &[])) });
        queue.flush().unwrap();
        position
    }

    /// The free worker has come to all that was ready: it runs this last, being of the lowest band.
    fn the_free_worker_has_come_by(&self) {
        let other = queue(&self.device, 1, 0);
        let position = self.launch(&other, "other");
        ends(&self.config, &other, position);
    }
}

fn queue(device: &Arc<dyn Device>, hardware: u32, priority: i32) -> Arc<dyn Queue> {
    let options = QueueOptions {
        priority: Priority(priority),
        placement: Placement::Explicit(HardwareQueue(hardware)),
        ..QueueOptions::default()
    };
    device.queues().create(&options).unwrap()
}

/// It stands in the list of the hardware queue, behind one that was more urgent until then.
#[test]
fn urgency_reaches_a_queue_that_waits_for_its_hardware_queue() {
    let held = Held::new();
    let [patient, usual] = [0, -1].map(|priority| queue(&held.device, 0, priority));
    let awaited = held.launch(&patient, "patient");
    let last = held.launch(&usual, "usual");
    held.the_free_worker_has_come_by();
    let urgent = queue(&held.device, 1, -2);
    let wait = accepted(urgent.wait_for(&*patient, awaited));
    urgent.flush().unwrap();
    assert!(comes(|| matches!(
        urgent.activity(),
        QueueActivity::Waiting(..)
    )));
    held.the_free_worker_has_come_by();
    assert_eq!(*held.log.lock(), ["other", "other"], "the two are held up");
    held.gate.store(true, Ordering::Release);
    ends(&held.config, &usual, last);
    ends(&held.config, &urgent, wait);
    assert_eq!(held.log.lock()[2..], ["patient", "usual"]);
}
