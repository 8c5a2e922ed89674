//! `piton info`: drivers and devices, and why others are absent.

mod staging;

use piton_ascend::{AscendConfig, AscendDriver, MissingAbility};
use piton_cuda::{CudaConfig, CudaDriver};
use piton_driver::{Device, DeviceId, Driver, DriverError};
use piton_opencl::{OpenClConfig, OpenClDriver};
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use serde::Serialize;

use crate::quantity;

use super::{Failure, Output};

/// Options of `piton info`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Measure how copies of ordinary memory are staged on this machine: copies some MiB to a simulated device and back.
    #[arg(long, conflicts_with = "json")]
    staging: bool,
}

/// What is known of one driver.
#[derive(Serialize)]
struct DriverFacts {
    name: &'static str,
    /// Why it is absent; nothing if it is there.
    absent: Option<String>,
    /// What the vendor's library lacks, and so its devices.
    missing: Vec<String>,
    devices: Vec<DeviceFacts>,
}

#[derive(Serialize)]
struct DeviceFacts {
    id: u32,
    name: String,
    memory_bytes: u64,
    hardware_queues: u32,
    pci: Option<String>,
    numa_node: Option<u32>,
    abilities: Vec<&'static str>,
}

pub(super) fn run(options: &Options, output: &mut Output) -> Result<(), Failure> {
    let drivers = drivers()?;
    if options.json {
        return output.line(serde_json::to_string_pretty(&drivers).map_err(Failure::result)?);
    }
    for driver in &drivers {
        match &driver.absent {
            Some(reason) => output.line(format_args!("{}: absent: {reason}", driver.name))?,
            None => output.line(format_args!(
                "{}: {}",
                driver.name,
                quantity::counted(driver.devices.len() as u64, "device")
            ))?,
        }
        for missing in &driver.missing {
            output.line(format_args!("  {missing}"))?;
        }
        for device in &driver.devices {
            output.line(described(device))?;
        }
    }
    if options.staging {
        for line in staging::lines()? {
            output.line(line)?;
        }
    }
    Ok(())
}

fn drivers() -> Result<Vec<DriverFacts>, Failure> {
    let sim =
        SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default())).map_err(Failure::result)?;
    Ok(vec![present("sim", &sim)?, opencl()?, cuda()?, ascend()?])
}

/// The devices of OpenCL, or which library was looked for and what the system said.
fn opencl() -> Result<DriverFacts, Failure> {
    let config = OpenClConfig {
        keep_times: true,
        ..OpenClConfig::default()
    };
    match OpenClDriver::open(config) {
        Ok(driver) => present("opencl", &driver),
        Err(absence) => Ok(absent("opencl", absence.to_string())),
    }
}

/// The devices of CUDA, or which library was looked for and what the system said.
fn cuda() -> Result<DriverFacts, Failure> {
    match CudaDriver::open(CudaConfig::default()) {
        Ok(driver) => {
            let mut facts = lacking("cuda", &driver, driver.missing())?;
            if let Err(absence) = driver.compiler() {
                facts
                    .missing
                    .push(format!("no CUDA C, only PTX: {absence}"));
            }
            Ok(facts)
        }
        Err(absence) => Ok(absent("cuda", absence.to_string())),
    }
}

/// The devices of Ascend, or which library was looked for and what the system said.
fn ascend() -> Result<DriverFacts, Failure> {
    match AscendDriver::open(AscendConfig::default()) {
        Ok(driver) => lacking("ascend", &driver, driver.missing()),
        Err(absence) => Ok(absent("ascend", absence.to_string())),
    }
}

/// A driver's devices, and what its library lacks.
fn lacking(
    name: &'static str,
    driver: &dyn Driver,
    missing: &[MissingAbility],
) -> Result<DriverFacts, Failure> {
    Ok(DriverFacts {
        missing: missing.iter().map(ToString::to_string).collect(),
        ..present(name, driver)?
    })
}

fn present(name: &'static str, driver: &dyn Driver) -> Result<DriverFacts, Failure> {
    let devices: Result<_, DriverError> = (0..driver.device_count())
        .map(|id| facts(&*driver.open(DeviceId(id))?))
        .collect();
    Ok(DriverFacts {
        name,
        absent: None,
        missing: Vec::new(),
        devices: devices.map_err(Failure::result)?,
    })
}

const fn absent(name: &'static str, reason: String) -> DriverFacts {
    DriverFacts {
        name,
        absent: Some(reason),
        missing: Vec::new(),
        devices: Vec::new(),
    }
}

fn facts(device: &dyn Device) -> Result<DeviceFacts, DriverError> {
    device.status()?;
    let info = device.info();
    let abilities = [
        ("virtual memory", device.virtual_memory().is_some()),
        ("page sharing", device.page_sharing().is_some()),
        ("host memory", device.host_memory().is_some()),
        ("host functions", device.host_functions().is_some()),
        ("semaphores", device.semaphores().is_some()),
        ("semaphore sharing", device.semaphore_sharing().is_some()),
        ("peers", device.peers().is_some()),
        ("priorities", device.priorities().is_some()),
        ("timestamps", device.timestamps().is_some()),
        ("compute units", device.compute_units().is_some()),
        ("execution trace", device.execution_trace().is_some()),
    ];
    Ok(DeviceFacts {
        id: info.id.0,
        name: info.name.clone(),
        memory_bytes: info.memory_bytes,
        hardware_queues: info.limits.hardware_queues,
        pci: info.pci.map(|address| address.to_string()),
        numa_node: info.numa_node,
        abilities: abilities
            .into_iter()
            .filter(|(_, has_it)| *has_it)
            .map(|(name, _)| name)
            .collect(),
    })
}

fn described(device: &DeviceFacts) -> String {
    let place = device
        .pci
        .as_ref()
        .map(|pci| format!(", at {pci}"))
        .unwrap_or_default();
    format!(
        "  {} {}: {}, {} hardware queues{place}\n    {}",
        device.id,
        device.name,
        quantity::bytes(device.memory_bytes),
        device.hardware_queues,
        device.abilities.join(", ")
    )
}
