//! How the driver is to be opened.

use std::path::PathBuf;

/// How the driver is to be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CudaConfig {
    /// The library to open instead of the usual one. Its initialisers run: name one that is trusted.
    pub library: Option<PathBuf>,
    /// The compiler of CUDA C (NVRTC) to open instead of the usual one, where a module wants one. As for the library.
    pub compiler: Option<PathBuf>,
    /// Commands that a queue holds at most; 256 if not said. CUDA blocks where its own queue is full, at a depth that
    /// nobody documents, so the limit is piton's and lies below.
    pub queue_commands: Option<u32>,
}
