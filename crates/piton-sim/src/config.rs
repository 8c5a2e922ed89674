//! What machine is simulated. Checked as a whole when the driver is made.

use crate::{fault::FaultPlan, machine::QUEUE_COMMANDS};
use piton_driver::{DeviceId, DriverError, LinkClass, PciAddress};
use std::{collections::BTreeMap, time::Duration};
use thiserror::Error;

/// What stands behind a device's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// Pages of a memfd, taken from the system when they are first touched.
    #[default]
    Pages,
    /// Nothing: the device keeps the books and the costs of memory. Copies and kernels are refused. For
    /// devices larger than this machine.
    Books,
    /// Nothing, and copies to, from and between such devices carry no byte, but take the time they would. To learn how long
    /// copies take on machines larger than this one. Kernels are refused.
    Times,
}

/// How the order of virtual time is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScheduleOrder {
    /// The ready queue that is earliest in virtual time runs next; ties by priority, then by the seed.
    #[default]
    ByTime,
    /// Any ready queue of the most urgent priority, as the seed says: explores schedules.
    Seeded,
}

/// What time is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockMode {
    /// The machine's. Commands run on worker threads as fast as they can.
    #[default]
    Real,
    /// Virtual: durations are modelled, nothing runs but when a host thread waits, and one seed always gives
    /// one order. Deterministic as long as one host thread drives.
    Virtual {
        /// Chooses among what is ready.
        seed: u64,
        /// How the choice is made.
        order: ScheduleOrder,
    },
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Its name, for people.
    pub name: String,
    /// Bytes of memory; a multiple of the page size, 2^40 (a tebibyte) at most.
    pub memory_bytes: u64,
    /// Bytes of a physical page: the granularity of allocation and mapping. A power of two, 4096 or more.
    pub page_bytes: u64,
    /// What stands behind the addresses.
    pub backing: Backing,
    /// Whether the device offers virtual memory; without it only plain allocations.
    pub has_virtual_memory: bool,
    /// Whether its kernels reach page-locked memory of the host where it is.
    pub reaches_host_memory: bool,
    /// Hardware queues: how many queues can run at once. From 1 to 1024.
    pub hardware_queues: u32,
    /// Commands a queue holds at most, rounded up to a power of two; from 1 to 1024.
    pub queue_commands: u32,
    /// Cores; at most 64.
    pub compute_units: u32,
    /// Bytes a second between host and device, each way, in virtual time.
    pub host_bytes_per_second: u64,
    /// Copies to and from other devices that it runs at once; at least 1.
    pub peer_engines: u32,
    /// Copies to the host that it runs at once, and as many from it; at least 1.
    pub host_engines: u32,
    /// Its place on the PCI bus.
    pub pci: Option<PciAddress>,
    /// The NUMA node it hangs on.
    pub numa_node: Option<u32>,
    /// Fresh memory is filled with this byte, so that reading what was never written shows.
    pub poison: Option<u8>,
}

impl Default for DeviceConfig {
    /// 1 GiB in pages of 2 MiB, eight hardware queues, two cores, 24 GB/s to the host (PCIe 4.0 x16).
    fn default() -> Self {
        Self {
            name: "piton simulated device".to_owned(),
            memory_bytes: 1 << 30,
            page_bytes: 2 << 20,
            backing: Backing::Pages,
            has_virtual_memory: true,
            reaches_host_memory: true,
            hardware_queues: 8,
            queue_commands: QUEUE_COMMANDS,
            compute_units: 2,
            host_bytes_per_second: 24_000_000_000,
            peer_engines: 2,
            host_engines: 1,
            pci: None,
            numa_node: None,
            poison: None,
        }
    }
}

/// What connects two devices, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// One end.
    pub a: DeviceId,
    /// The other end.
    pub b: DeviceId,
    /// What it is.
    pub class: LinkClass,
    /// Bytes a second, each way.
    pub bytes_per_second: u64,
    /// Nanoseconds from start to first byte.
    pub latency_ns: u64,
    /// Whether the two reach each other's memory directly over it.
    pub allows_peer_access: bool,
}

/// Wires that copies between several pairs of devices pass through and share, in virtual time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wires {
    /// What each carries, in bytes a second.
    pub bytes_per_second: Vec<u64>,
    /// For an ordered pair of devices the wires on its way, by their places in the list. A pair that is not here has its
    /// link to itself, each way.
    pub ways: BTreeMap<(DeviceId, DeviceId), Box<[u32]>>,
    /// For a device, and the device that allocated page-locked memory or registered it, the wires on the way into that memory,
    /// and out of it. A pair that is not here shares the first device's way to the host.
    pub host_ways: BTreeMap<(DeviceId, DeviceId), [Box<[u32]>; 2]>,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimConfig {
    /// Its devices; the place in the list is the id.
    pub devices: Vec<DeviceConfig>,
    /// How many more were asked for than a machine can have, where that is so: such a machine is refused.
    pub excess: u32,
    /// What connects them. Pairs not named are connected through the host and have no peer access.
    pub links: Vec<LinkConfig>,
    /// What copies between devices share beside their links.
    pub wires: Wires,
    /// What time is.
    pub clock: ClockMode,
    /// Worker threads of this machine alone. `None`: the process's shared ones, as many as cores but one and
    /// at least one. Without meaning in virtual time.
    pub workers: Option<u32>,
    /// How long a thread that finds nothing to run looks for more before it sleeps: a worker, or a host thread that waits.
    /// `Some`: of this machine's own threads, as many as of the shared ones if `workers` does not say. Zero: none of
    /// them spins. `None`: 20 us. Without meaning in virtual time.
    pub spin: Option<Duration>,
    /// What goes wrong.
    pub faults: FaultPlan,
}

impl SimConfig {
    /// `count` devices like `device`, all linked to each other at 48 GB/s with peer access. Of more than
    /// [a machine can have](MAX_DEVICES) it lists so many, unlinked, and says how many are [over](Self::excess): the driver refuses them,
    /// and nothing that never is takes memory.
    pub fn uniform(count: u32, device: &DeviceConfig) -> Self {
        let made = count.min(MAX_DEVICES);
        let excess = count - made;
        let linked = if excess > 0 { 0 } else { made };
        let devices = (0..made)
            .map(|n| DeviceConfig {
                pci: pci(n),
                ..device.clone()
            })
            .collect();
        let pairs = (0..linked).flat_map(|a| (a + 1..linked).map(move |b| (a, b)));
        let links = pairs.map(|(a, b)| LinkConfig {
            a: DeviceId(a),
            b: DeviceId(b),
            class: LinkClass::Link,
            bytes_per_second: 48_000_000_000,
            latency_ns: 1_000,
            allows_peer_access: true,
        });
        Self {
            devices,
            excess,
            links: links.collect(),
            ..Self::default()
        }
    }

    /// The same machine in virtual time.
    #[must_use]
    pub fn in_virtual_time(mut self, seed: u64, order: ScheduleOrder) -> Self {
        self.clock = ClockMode::Virtual { seed, order };
        self
    }

    pub(crate) fn validate(&self) -> Result<(), SimError> {
        let listed = u32::try_from(self.devices.len()).unwrap_or(u32::MAX);
        let count = listed.saturating_add(self.excess);
        if count > MAX_DEVICES {
            return Err(SimError::TooManyDevices {
                count,
                limit: MAX_DEVICES,
            });
        }
        for (device, config) in (0..).zip(&self.devices) {
            validate_device(device, config)?;
        }
        for link in &self.links {
            for end in [link.a, link.b] {
                if end.0 >= count {
                    return Err(SimError::UnknownDevice {
                        device: end.0,
                        count,
                    });
                }
            }
            if link.a == link.b || link.bytes_per_second == 0 {
                return Err(SimError::InvalidLink {
                    a: link.a.0,
                    b: link.b.0,
                });
            }
        }
        self.validate_wires()?;
        match self.workers {
            Some(workers) if !(1..=MAX_WORKERS).contains(&workers) => {
                Err(SimError::InvalidWorkers {
                    workers,
                    limit: MAX_WORKERS,
                })
            }
            _ => Ok(()),
        }
    }

    fn validate_wires(&self) -> Result<(), SimError> {
        let Wires {
            bytes_per_second,
            ways,
            host_ways,
        } = &self.wires;
        let is_wire = |wire: &u32| {
            bytes_per_second
                .get(*wire as usize)
                .is_some_and(|rate| *rate > 0)
        };
        let host = host_ways.iter();
        let host = host.flat_map(|(pair, both)| both.iter().map(move |way| (pair, way)));
        let broken = ways
            .iter()
            .chain(host)
            .find(|(_, way)| way.is_empty() || !way.iter().all(is_wire));
        match broken {
            Some(((a, b), _)) => Err(SimError::InvalidLink { a: a.0, b: b.0 }),
            None => Ok(()),
        }
    }
}

/// Devices a machine can have: their number is part of every address.
pub const MAX_DEVICES: u32 = 64;
/// Hardware queues a device can have.
const MAX_HARDWARE_QUEUES: u32 = 1024;
/// Cores a device can have: a set of them is a word.
const MAX_COMPUTE_UNITS: u32 = 64;
/// Threads one machine may start.
const MAX_WORKERS: u32 = 256;
/// Bytes of address space a device has: bits 0 to 43 of an address.
pub(crate) const ADDRESS_BITS: u32 = 44;
/// Times its memory that a device's addresses reach: many, as real devices have it, so that a pool may place chunks far
/// apart and back few of them.
pub(crate) const SPAN_TIMES: u64 = 16;

fn pci(n: u32) -> Option<PciAddress> {
    let bus = u8::try_from(n).ok()?.checked_add(1)?;
    Some(PciAddress {
        domain: 0,
        bus,
        device: 0,
        function: 0,
    })
}

fn validate_device(device: u32, config: &DeviceConfig) -> Result<(), SimError> {
    let page_bytes = config.page_bytes;
    if !page_bytes.is_power_of_two() || !(4096..=1 << 30).contains(&page_bytes) {
        return Err(SimError::InvalidPage { device, page_bytes });
    }
    let memory_bytes = config.memory_bytes;
    let limit = (1 << ADDRESS_BITS) / SPAN_TIMES;
    if memory_bytes == 0 || memory_bytes > limit || !memory_bytes.is_multiple_of(page_bytes) {
        return Err(SimError::InvalidMemory {
            device,
            memory_bytes,
            page_bytes,
            limit,
        });
    }
    if config.peer_engines == 0 || config.host_engines == 0 {
        return Err(SimError::NoPeerEngine { device });
    }
    let (hardware_queues, compute_units) = (config.hardware_queues, config.compute_units);
    let has_queues = (1..=MAX_HARDWARE_QUEUES).contains(&hardware_queues);
    if !has_queues || !(1..=MAX_COMPUTE_UNITS).contains(&compute_units) {
        return Err(SimError::InvalidUnits {
            device,
            hardware_queues,
            compute_units,
        });
    }
    let commands = config.queue_commands;
    if !(1..=QUEUE_COMMANDS).contains(&commands) {
        return Err(SimError::InvalidQueue { device, commands });
    }
    if config.host_bytes_per_second == 0 {
        return Err(SimError::NoHostBandwidth { device });
    }
    Ok(())
}

/// A machine that cannot be simulated. Sizes are bytes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SimError {
    /// More devices than addresses can name.
    #[error("{count} devices are more than the {limit} that a simulated machine can have")]
    TooManyDevices {
        /// How many were asked for.
        count: u32,
        /// How many there can be.
        limit: u32,
    },
    /// A page size that is not a power of two between 4096 and 1 GiB.
    #[error(
        "device {device}: pages of {page_bytes} bytes are not a power of two from 4096 to 2^30"
    )]
    InvalidPage {
        /// The device.
        device: u32,
        /// The page size given.
        page_bytes: u64,
    },
    /// A memory size that is zero, too large, or not a multiple of the page size.
    #[error(
        "device {device}: {memory_bytes} bytes are not a multiple of the page ({page_bytes}) \
         between one page and {limit}"
    )]
    InvalidMemory {
        /// The device.
        device: u32,
        /// The size given.
        memory_bytes: u64,
        /// Its page size.
        page_bytes: u64,
        /// The largest size.
        limit: u64,
    },
    /// No hardware queue, no core, or too many of either.
    #[error(
        "device {device}: {hardware_queues} hardware queues and {compute_units} cores; at least one \
         of each, at most {MAX_HARDWARE_QUEUES} queues and {MAX_COMPUTE_UNITS} cores"
    )]
    InvalidUnits {
        /// The device.
        device: u32,
        /// Hardware queues given.
        hardware_queues: u32,
        /// Cores given.
        compute_units: u32,
    },
    /// Queues that hold no command, or too many.
    #[error("device {device}: queues of {commands} commands; they may hold 1 to {QUEUE_COMMANDS}")]
    InvalidQueue {
        /// The device.
        device: u32,
        /// Commands given.
        commands: u32,
    },
    /// A bandwidth of zero to the host.
    #[error("device {device} has no bandwidth to the host")]
    NoHostBandwidth {
        /// The device.
        device: u32,
    },
    /// No engine for copies between devices.
    #[error("device {device} has no engine for copies between devices")]
    NoPeerEngine {
        /// The device.
        device: u32,
    },
    /// A link to a device that is not there.
    #[error("a link names device {device} of {count}")]
    UnknownDevice {
        /// The device named.
        device: u32,
        /// How many there are.
        count: u32,
    },
    /// A link from a device to itself, or without bandwidth.
    #[error("the link between devices {a} and {b} joins a device to itself or has no bandwidth")]
    InvalidLink {
        /// One end.
        a: u32,
        /// The other end.
        b: u32,
    },
    /// No worker thread, or too many.
    #[error("{workers} worker threads are not between 1 and {limit}")]
    InvalidWorkers {
        /// How many were asked for.
        workers: u32,
        /// How many there can be.
        limit: u32,
    },
    /// The system refused memory or threads.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn verdict(change: impl Fn(&mut DeviceConfig)) -> Result<(), SimError> {
        let mut device = DeviceConfig::default();
        change(&mut device);
        SimConfig::uniform(2, &device).validate()
    }

    #[test]
    fn a_uniform_machine_of_too_many_devices_is_refused_and_takes_no_memory_for_them() {
        let limit = MAX_DEVICES;
        for count in [limit + 1, 1_000_000, u32::MAX] {
            let config = SimConfig::uniform(count, &DeviceConfig::default());
            assert!(config.devices.len() <= 64 && config.links.is_empty());
            let refused = Err(SimError::TooManyDevices { count, limit });
            assert_eq!(config.validate(), refused);
        }
        let most = SimConfig::uniform(limit, &DeviceConfig::default());
        assert_eq!((most.links.len(), most.validate()), (64 * 63 / 2, Ok(())));
    }

    #[test]
    fn a_device_has_as_many_hardware_queues_and_cores_as_can_be() {
        for (queues, units) in [(1, 1), (MAX_HARDWARE_QUEUES, MAX_COMPUTE_UNITS)] {
            let result = verdict(|device| {
                (device.hardware_queues, device.compute_units) = (queues, units);
            });
            assert_eq!(result, Ok(()));
        }
        for (queues, units) in [
            (0, 1),
            (1, 0),
            (MAX_HARDWARE_QUEUES + 1, 1),
            (u32::MAX, 1),
            (1, 65),
        ] {
            let result = verdict(|device| {
                (device.hardware_queues, device.compute_units) = (queues, units);
            });
            assert!(
                matches!(result, Err(SimError::InvalidUnits { .. })),
                "{queues}, {units}"
            );
        }
    }

    #[test]
    fn a_queue_holds_as_many_commands_as_it_may_and_one_at_least() {
        for commands in [1, 8, QUEUE_COMMANDS] {
            assert_eq!(verdict(|device| device.queue_commands = commands), Ok(()));
        }
        for commands in [0, QUEUE_COMMANDS + 1] {
            let device = 0;
            let refused = Err(SimError::InvalidQueue { device, commands });
            assert_eq!(verdict(|device| device.queue_commands = commands), refused);
        }
    }

    #[test]
    fn the_addresses_of_a_device_end_before_the_next_ones() {
        let most = (1 << ADDRESS_BITS) / SPAN_TIMES;
        assert_eq!(verdict(|device| device.memory_bytes = most), Ok(()));
        for page_bytes in [4096, 1 << 30] {
            let result = verdict(|device| {
                (device.memory_bytes, device.page_bytes) = (most + page_bytes, page_bytes);
            });
            assert!(matches!(result, Err(SimError::InvalidMemory { .. })));
        }
    }
}
