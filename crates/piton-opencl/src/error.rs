//! Why there is no OpenCL, and why a program does not build.

use crate::status::Status;
use piton_native::{Searched, SearchedLibrary};
use std::fmt;
use thiserror::Error;

/// A device that was found and cannot be used, and what it lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableDevice {
    /// Its name.
    pub name: String,
    /// What it lacks.
    pub lacks: Lack,
}

/// What a device must have.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Lack {
    /// A compiler for kernels.
    #[error("it has no compiler")]
    Compiler,
}

/// Why OpenCL could not be opened. An ordinary answer on a machine without it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// No library of any of the names could be opened.
    #[error("no OpenCL library: {}", Searched(.searched))]
    NoLibrary {
        /// Each name and the answer, in the order in which they were looked for.
        searched: Vec<SearchedLibrary>,
    },
    /// The library lacks a function that every OpenCL 2.0 has.
    #[error("{library} has no {symbol}")]
    NoSymbol {
        /// The library that was opened.
        library: String,
        /// The function.
        symbol: &'static str,
    },
    /// The library knows no driver.
    #[error("the OpenCL loader knows no platform: no vendor's driver is installed")]
    NoPlatform,
    /// There are drivers, and no device of theirs can be used.
    #[error("no usable OpenCL device{}", Lacking(.unusable))]
    NoDevice {
        /// The devices that were found, and what they lack.
        unusable: Vec<UnusableDevice>,
    },
    /// The thread that listens to the driver could not be started.
    #[error("no thread could be started")]
    NoThread,
    /// A call failed.
    #[error("{call} answered {status}")]
    Call {
        /// Which.
        call: &'static str,
        /// With what.
        status: Status,
    },
}

/// Devices and what they lack, behind a colon.
struct Lacking<'a>(&'a [UnusableDevice]);

impl fmt::Display for Lacking<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, device) in self.0.iter().enumerate() {
            let gap = if index == 0 { ": " } else { "; " };
            write!(f, "{gap}{}: {}", device.name, device.lacks)?;
        }
        Ok(())
    }
}
