//! Kernels and small machines that the facade's tests share.

#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

pub(crate) mod copies;
pub(crate) mod executor;

use piton::{
    Device, Devices, Runtime, RuntimeConfig, SanitizerConfig,
    sim::{DeviceConfig, KernelDefinition, Parameter, Signature, SimConfig, SimModule},
};

pub(crate) const BLOCK: u64 = 64;

/// `add`: y[i] += x[i]; `scale`: y[i] = y[i] * factor; `trap`: fails.
pub(crate) fn module() -> SimModule {
    let two = Signature::new([Parameter::write::<u32>(), Parameter::read::<u32>()]);
    let add = KernelDefinition::new("add", two, |block| {
        let range = range(block.index().x);
        let x = block.read::<u32>(1, range.clone())?;
        for (y, x) in block.write::<u32>(0, range)?.iter_mut().zip(x) {
            *y = y.wrapping_add(*x);
        }
        Ok(())
    });
    let one = || Signature::new([Parameter::write::<u32>(), Parameter::value::<u32>()]);
    let scale = KernelDefinition::new("scale", one(), |block| {
        let factor: u32 = block.value(1)?;
        for y in block.write::<u32>(0, range(block.index().x))? {
            *y = y.wrapping_mul(factor);
        }
        Ok(())
    });
    let trap = KernelDefinition::new("trap", one(), |block| {
        Err(piton::sim::Fault::Trapped {
            code: block.value(1)?,
        })
    });
    SimModule::new("test").with(add).with(scale).with(trap)
}

fn range(block: u32) -> std::ops::Range<u64> {
    let start = u64::from(block) * BLOCK;
    start..start + BLOCK
}

pub(crate) fn small_devices(count: u32) -> SimConfig {
    let device = DeviceConfig {
        memory_bytes: 64 << 20,
        page_bytes: 64 << 10,
        ..DeviceConfig::default()
    };
    SimConfig::uniform(count, &device)
}

pub(crate) fn runtime(config: SimConfig) -> Runtime {
    configured(RuntimeConfig::on(Devices::Simulated(config)))
}

/// A runtime that looks for races, and fills memory that it hands out.
pub(crate) fn sanitized(config: SimConfig) -> Runtime {
    configured(RuntimeConfig {
        sanitizer: Some(SanitizerConfig {
            poison: Some(0xA5),
            ..SanitizerConfig::default()
        }),
        ..RuntimeConfig::on(Devices::Simulated(config))
    })
}

pub(crate) fn configured(config: RuntimeConfig) -> Runtime {
    let runtime = Runtime::new(config).unwrap();
    runtime.register(module()).unwrap();
    runtime
}

/// Every pool's and every device's books agree, and a sanitizer has found nothing.
pub(crate) fn check(runtime: &Runtime) {
    if let Some(sanitizer) = runtime.sanitizer() {
        sanitizer.check();
        let reports = sanitizer.reports();
        assert!(reports.is_empty(), "{}", reports[0]);
        assert_eq!(sanitizer.counts().unknown_extents, 0);
    }
    for device in runtime.devices() {
        device.memory().check().unwrap();
        check_pinned(&device);
        assert!(runtime.sim().unwrap().device(device.id()).unwrap().check());
    }
}

/// A copy that failed is settled by a thread of the runtime's, which may be giving back page-locked memory just now, and books are
/// exact only while nobody does: what does not add up yet is looked at again.
fn check_pinned(device: &Device) {
    let mut looks = 0;
    while let Err(wrong) = device.pinned_pool().check() {
        looks += 1;
        assert!(looks < 1_000_000, "{wrong}");
        std::thread::yield_now();
    }
}
