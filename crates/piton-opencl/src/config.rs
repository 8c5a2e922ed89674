//! How the driver is to be opened.

use std::path::PathBuf;

/// How the driver is to be opened. The default takes the first platform that has a usable device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenClConfig {
    /// The library to open instead of the usual one. Its initialisers run: name one that is trusted.
    pub library: Option<PathBuf>,
    /// A part of the name of the platform to take, where there are several.
    pub platform: Option<String>,
    /// Bytes of each device that may be allocated; at most what the device says it has, and that by default. Some
    /// drivers never say that memory is out, so this limit is piton's own.
    pub memory_bytes: Option<u64>,
    /// Whether device memory is buffers even where the devices have shared virtual memory. It is where one of them has not.
    /// Kernels then take only addresses that are multiples of the device's base alignment, which pools' are.
    pub avoids_shared_memory: bool,
    /// Whether queues keep times: only then has a device timestamps and a trace. Costs a little at each command.
    pub keep_times: bool,
    /// A folder where binaries of compiled kernels are kept from one run to the next. Without one they are kept for
    /// the driver's life only.
    pub binaries: Option<PathBuf>,
    /// Commands that a queue holds at most; 1024 if not said.
    pub queue_commands: Option<u32>,
}
