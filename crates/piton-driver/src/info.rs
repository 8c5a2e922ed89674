//! What a device says of itself when it is opened. Plain values; they do not change while it is open.

use std::fmt;

/// Which device of its driver, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.0)
    }
}

/// Where a device sits on the PCI bus. Domains may be wider than 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain, also called segment.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, 0 to 31.
    pub device: u8,
    /// Function, 0 to 7.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Which device of its driver.
    pub id: DeviceId,
    /// Its name, for people.
    pub name: String,
    /// Bytes of memory it has in all.
    pub memory_bytes: u64,
    /// Its place on the PCI bus, if it has one.
    pub pci: Option<PciAddress>,
    /// The NUMA node it hangs on, if the system says.
    pub numa_node: Option<u32>,
    /// How much of everything it takes.
    pub limits: Limits,
}

/// How much of everything a device takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most queues that may exist at once.
    pub queues: u32,
    /// Hardware queues they are placed on: how many can run at once.
    pub hardware_queues: u32,
    /// Most commands a queue holds before it answers [`crate::Admission::Full`].
    pub queue_commands: u32,
    /// Most bytes of packed arguments in a launch.
    pub argument_bytes: u32,
    /// Most blocks in a grid.
    pub grid_blocks: u64,
    /// Most bytes in one copy or fill.
    pub copy_bytes: u64,
}
