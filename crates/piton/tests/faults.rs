//! A failure at any driver call of a short pipeline is an error somebody sees; nothing is lost or left locked.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    Grid, Machine, Runtime, RuntimeConfig, RuntimeError, Stream,
    sim::{DeviceConfig, FaultPlan, KernelDefinition, Signature, SimConfig, SimModule, Trigger},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
use support::{check, module, runtime, small_devices};

/// Two devices: copies up, kernels, a copy between devices, copies down, buffers dropped midway.
fn pipeline(runtime: &Runtime) -> Result<Vec<u32>, RuntimeError> {
    let (near, far) = (runtime.device(0)?, runtime.device(1)?);
    let kernels = near.load("test")?;
    let (add, scale) = (kernels.kernel("add")?, kernels.kernel("scale")?);
    let (copy, compute) = (near.stream("copy")?, near.stream("compute")?);
    let mut x = copy.allocate::<u32>(1024)?;
    let mut y = compute.allocate_zeroed::<u32>(1024)?;
    copy.write(&mut x, &[2; 1024])?;
    compute
        .launch(&add, Grid::linear(16))
        .write(&mut y)
        .read(&x)
        .submit()?;
    drop(x);
    let event = compute.record();
    copy.wait(&event)?;
    compute
        .launch(&scale, Grid::linear(16))
        .write(&mut y)
        .value(21_u32)
        .submit()?;
    let there = far.stream("there")?;
    let mut z = there.allocate::<u32>(1024)?;
    there.copy_peer(&y, &mut z)?;
    compute.call_host(|| {})?;
    compute.synchronize()?;
    Ok(there.read(&z)?)
}

#[test]
fn every_driver_call_may_fail() {
    let runtime = runtime(small_devices(2));
    let sim = runtime.sim().unwrap();
    let mut failed = 0;
    for n in 1.. {
        sim.set_faults(FaultPlan::new().with(Trigger::Call(n)));
        let result = pipeline(&runtime);
        let fired = sim.faults_fired();
        sim.set_faults(FaultPlan::new());
        check(&runtime);
        if fired == 0 {
            assert_eq!(result.unwrap(), [42; 1024]);
            break;
        }
        failed += u64::from(result.is_err());
    }
    assert!(failed >= 10, "only {failed} calls were seen to fail");
    assert_eq!(
        pipeline(&runtime).unwrap(),
        [42; 1024],
        "the runtime works on after all that"
    );
    for device in runtime.devices() {
        assert_eq!(
            device.memory_stats().live_bytes,
            0,
            "{:?}",
            device.memory_stats()
        );
    }
}

#[test]
fn a_trap_in_any_kernel_is_reported_and_passes() {
    let runtime = runtime(small_devices(2));
    let sim = runtime.sim().unwrap();
    for n in 1.. {
        sim.set_faults(FaultPlan::new().with(Trigger::TrapKernel(n, 7)));
        let result = pipeline(&runtime);
        if sim.faults_fired() == 0 {
            assert_eq!(result.unwrap(), [42; 1024]);
            assert!(n > 2);
            break;
        }
        assert!(result.is_err(), "trap {n} went unseen");
        check(&runtime);
    }
}

#[test]
fn a_device_may_be_lost_at_any_call() {
    for n in 1.. {
        let runtime = runtime(small_devices(2));
        let sim = runtime.sim().unwrap();
        let plan = Trigger::LoseDevice(piton::DeviceId(n % 2), u64::from(n));
        sim.set_faults(FaultPlan::new().with(plan));
        let result = pipeline(&runtime);
        check(&runtime);
        if sim.faults_fired() == 0 {
            assert_eq!(result.unwrap(), [42; 1024]);
            break;
        }
        // A device lost after its last part in the work is not missed; a wrong result would be.
        assert!(result.map_or(true, |words| words == [42; 1024]), "loss {n}");
    }
}

/// A kernel that has the only worker until it is let go.
struct Hold {
    stream: Stream,
    is_over: Arc<AtomicBool>,
}

impl Hold {
    /// Returns when the worker is busy.
    fn new(runtime: &Runtime, device: u32) -> Self {
        let (has_begun, is_over) = (flag(), flag());
        let (begins, ends) = (Arc::clone(&has_begun), Arc::clone(&is_over));
        let hold = KernelDefinition::new("hold", Signature::new([]), move |_| {
            begins.store(true, Ordering::Release);
            while !ends.load(Ordering::Acquire) {
                thread::yield_now();
            }
            Ok(())
        });
        runtime.register(SimModule::new("hold").with(hold)).unwrap();
        let device = runtime.device(device).unwrap();
        let kernel = device.load("hold").unwrap().kernel("hold").unwrap();
        let stream = device.stream("hold").unwrap();
        stream.launch(&kernel, Grid::linear(1)).submit().unwrap();
        while !has_begun.load(Ordering::Acquire) {
            thread::yield_now();
        }
        Self { stream, is_over }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        drop(self.stream.synchronize());
    }
}

fn flag() -> Arc<AtomicBool> {
    Arc::default()
}

/// Everything is run by the thread that waits: it settles failed copies in the middle of commands, for which others wait.
#[test]
fn a_device_may_be_lost_at_any_call_while_the_host_runs_everything() {
    for n in 1.. {
        let runtime = runtime(SimConfig {
            workers: Some(1),
            ..small_devices(3)
        });
        let hold = Hold::new(&runtime, 2);
        let sim = runtime.sim().unwrap();
        let plan = Trigger::LoseDevice(piton::DeviceId(n % 2), u64::from(n));
        sim.set_faults(FaultPlan::new().with(plan));
        let result = pipeline(&runtime);
        drop(hold);
        check(&runtime);
        if sim.faults_fired() == 0 {
            assert_eq!(result.unwrap(), [42; 1024]);
            break;
        }
        assert!(result.map_or(true, |words| words == [42; 1024]), "loss {n}");
    }
}

#[test]
fn strangers_copy_through_host_memory() {
    let machine = Machine::pcie_pairs(4).unwrap();
    let device = DeviceConfig {
        memory_bytes: 64 << 20,
        page_bytes: 64 << 10,
        ..DeviceConfig::default()
    };
    let config = RuntimeConfig::simulated_machine(&machine, &device).unwrap();
    let runtime = Runtime::new(config).unwrap();
    runtime.register(module()).unwrap();
    let words: Vec<u32> = (0..3_000_000).collect();
    for (from, to) in [(0, 1), (0, 2), (3, 0)] {
        let (a, b) = (runtime.device(from).unwrap(), runtime.device(to).unwrap());
        let (a, b) = (a.stream("a").unwrap(), b.stream("b").unwrap());
        let mut source = a.allocate::<u32>(3_000_000).unwrap();
        let mut target = b.allocate::<u32>(3_000_000).unwrap();
        a.write(&mut source, &words).unwrap();
        b.copy_peer(&source, &mut target).unwrap();
        // The source may be written again at once: the copy is in order.
        a.fill(&mut source, 0).unwrap();
        assert_eq!(b.read(&target).unwrap(), words, "{from} to {to}");
    }
    let kinds: Vec<_> = runtime
        .routes()
        .iter()
        .map(|route| route.kind.to_string())
        .collect();
    assert!(
        kinds.iter().any(|kind| kind.contains("switch")),
        "{kinds:?}"
    );
    assert!(
        kinds.iter().any(|kind| kind.contains("staged")),
        "{kinds:?}"
    );
    check(&runtime);
}
