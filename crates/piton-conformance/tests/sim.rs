//! The suite on the simulated device, in each way it can run. The example for writers of backends.

use piton_conformance::{Subject, TestKernels, run, table};
use piton_driver::{Device, Driver, DriverError, Fault, Module, ModuleImage, Parameter, Signature};
use piton_sim::{
    DeviceConfig, KernelDefinition, ScheduleOrder, SimConfig, SimDriver, SimError, SimModule,
};
use std::sync::Arc;

const MODULE: &str = "conformance";

fn config() -> SimConfig {
    let device = DeviceConfig {
        memory_bytes: 64 << 20,
        page_bytes: 64 << 10,
        poison: Some(0xa5),
        ..DeviceConfig::default()
    };
    SimConfig::uniform(2, &device)
}

fn module() -> SimModule {
    let adds = || Signature::new([Parameter::write::<u32>(), Parameter::value::<u32>()]);
    let copies = Signature::new([Parameter::write::<u32>(), Parameter::read::<u32>()]);
    let own = |index: u32| {
        let block = u64::from(TestKernels::BLOCK);
        u64::from(index) * block..(u64::from(index) + 1) * block
    };
    let add = KernelDefinition::new(TestKernels::ADD, adds(), move |block| {
        let value = block.value::<u32>(1)?;
        for x in block.write::<u32>(0, own(block.index().x))? {
            *x = x.wrapping_add(value);
        }
        Ok(())
    });
    let copy = KernelDefinition::new(TestKernels::COPY, copies, move |block| {
        let range = own(block.index().x);
        let from = block.read::<u32>(1, range.clone())?;
        block.write::<u32>(0, range)?.copy_from_slice(from);
        Ok(())
    });
    let trap = KernelDefinition::new(TestKernels::TRAP, adds(), |_| {
        Err(Fault::Trapped { code: 7 })
    });
    SimModule::new(MODULE).with(add).with(copy).with(trap)
}

fn load(device: &dyn Device) -> Result<Arc<dyn Module>, DriverError> {
    device.kernels().load(ModuleImage::Registered(MODULE))
}

fn subject(name: &str, config: SimConfig) -> Subject {
    let open = move || -> Result<Arc<dyn Driver>, DriverError> {
        let driver = SimDriver::new(config.clone()).map_err(|error| match error {
            SimError::Driver(error) => error,
            other => panic!("the configuration is sound: {other}"),
        })?;
        driver.register(module());
        Ok(Arc::new(driver))
    };
    Subject::new(name, TestKernels::new(true, load), open)
}

fn in_real_time(name: &str, workers: Option<u32>) -> Subject {
    subject(
        name,
        SimConfig {
            workers,
            ..config()
        },
    )
}

fn in_virtual_time(name: &str, seed: u64, order: ScheduleOrder) -> Subject {
    let reason = "in virtual time nothing runs but when a host thread waits";
    subject(name, config().in_virtual_time(seed, order))
        .with_gap("a_queue_nobody_waits_for_runs_by_itself", reason)
        .with_gap("a_dropped_queue_runs_what_was_submitted", reason)
}

#[expect(clippy::print_stdout, reason = "the table is what one runs this for")]
fn assert_conforms(subjects: &[Subject]) {
    let reports: Vec<_> = subjects.iter().map(run).collect();
    println!("{}", table(&reports));
    let failures: usize = reports.iter().map(|report| report.failures().count()).sum();
    assert_eq!(failures, 0, "the table above says which");
}

#[test]
fn the_simulated_device_conforms_in_real_time() {
    assert_conforms(&[
        in_real_time("shared", None),
        in_real_time("workers=2", Some(2)),
        in_real_time("workers=1", Some(1)),
    ]);
}

#[test]
fn the_simulated_device_conforms_in_virtual_time() {
    assert_conforms(&[
        in_virtual_time("by time", 1, ScheduleOrder::ByTime),
        in_virtual_time("by time 2", 2, ScheduleOrder::ByTime),
        in_virtual_time("seed 1", 1, ScheduleOrder::Seeded),
        in_virtual_time("seed 2", 2, ScheduleOrder::Seeded),
        in_virtual_time("seed 3", 3, ScheduleOrder::Seeded),
    ]);
}
