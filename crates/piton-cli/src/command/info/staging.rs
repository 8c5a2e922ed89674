//! Which way copies of ordinary memory are staged on this machine, measured as a program's first long copies measure it.

use crate::command::Failure;
use piton::{Devices, Locking, Runtime, RuntimeConfig, RuntimeError, StagingStats, sim};

/// Bytes of a copy: more than a measurement needs.
const BYTES: usize = 32 << 20;

/// What was found, for people.
pub(super) fn lines() -> Result<[String; 2], Failure> {
    let stats = measured().map_err(Failure::result)?;
    Ok([
        format!("staged copies to sim devices: {}", stats.to_device),
        format!("staged copies from them: {}", stats.to_host),
    ])
}

fn measured() -> Result<StagingStats, RuntimeError> {
    let simulated = sim::SimConfig::uniform(1, &sim::DeviceConfig::default());
    let mut config = RuntimeConfig::on(Devices::Simulated(simulated));
    config.pinned.locking = Locking::Preferred;
    let runtime = Runtime::new(config)?;
    let device = runtime.device(0)?;
    let stream = device.stream("staging")?;
    let mut memory = stream.allocate_zeroed::<u8>(BYTES as u64)?;
    stream.synchronize()?;
    let mut ordinary = vec![1; BYTES];
    // A measurement is given up where the device still has work: a second copy measures then.
    for _ in 0..2 {
        stream.write(&mut memory, &ordinary)?;
        stream.read_into(&memory, &mut ordinary)?;
    }
    Ok(device.pinned_stats().staging)
}
