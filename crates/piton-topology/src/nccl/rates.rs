//! The rates of a topology file's links: piton's own, or the constants of the library that wrote it.
//!
//! The library's are for comparing answers with it: it counts PCIe 3 with 16 lanes as 12 GB/s, and
//! memory as no limit. They are in `topo.h` and `topo.cc` of NCCL 2.30 and RCCL 2.20.

use crate::defaults;
use crate::error::NcclError;
use crate::link::{Link, LinkKind, PcieGeneration};
use crate::quantity::BytesPerSec;
use crate::xml::Element;

/// Whose rates the links of a machine get that is read from a topology file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NcclRates {
    /// What a copy can expect, by [`defaults`](crate::defaults).
    #[default]
    Copies,
    /// The constants of NCCL, or of RCCL for its files.
    Library,
}

/// The library's rate of a local path, megabytes a second: no limit.
const LOCAL: u64 = 5_000_000;

/// What a file's links are given rates by.
#[derive(Clone, Copy)]
pub(super) struct Rates {
    pub(super) whose: NcclRates,
    /// Version 2 is RCCL's.
    pub(super) version: u32,
}

impl Rates {
    /// The link with its rate; `megabytes` is the library's.
    fn rated(self, mut link: Link, megabytes: Option<u64>) -> Link {
        if let (NcclRates::Library, Some(rate)) = (self.whose, megabytes) {
            (link.up, link.down) = (BytesPerSec::from_mb(rate), BytesPerSec::from_mb(rate));
        }
        link
    }

    /// A link of the PCI tree.
    pub(super) fn pcie(self, link: Link) -> Link {
        let LinkKind::Pcie(generation) = link.kind else {
            return link;
        };
        let sixteen_lanes = match generation {
            PcieGeneration::Gen1 => 3_000,
            PcieGeneration::Gen2 => 6_000,
            PcieGeneration::Gen3 => 12_000,
            PcieGeneration::Gen4 => 24_000,
            PcieGeneration::Gen5 => 48_000,
            PcieGeneration::Gen6 => 96_000,
        };
        let rate = sixteen_lanes * u64::from(link.lanes) / 16;
        self.rated(link, Some(rate))
    }

    /// The bus between a host bridge and its memory.
    pub(super) fn memory(self, link: Link) -> Link {
        self.rated(link, Some(LOCAL))
    }

    /// A link between processors.
    pub(super) fn processors(self, link: Link, cpu: Processor) -> Link {
        self.rated(link, Some(cpu.megabytes(self.version)))
    }

    /// A link between a processor and its device, which the file says to carry `megabytes` at most.
    pub(super) fn c2c(self, mut link: Link, megabytes: u64) -> Link {
        let rate = match self.whose {
            NcclRates::Copies => defaults::of_peak(link.kind, BytesPerSec::from_mb(megabytes)),
            NcclRates::Library => BytesPerSec::from_mb(megabytes),
        };
        (link.up, link.down) = (rate, rate);
        link
    }

    /// A link of the device fabric; `compute` is the device's compute capability, 80 for 8.0. What xGMI
    /// links carry is the same in both tables.
    pub(super) fn fabric(self, link: Link, compute: Option<u32>) -> Link {
        let one = match (link.kind, compute) {
            (LinkKind::NvLink(_), Some(60..70)) => 18_000,
            (LinkKind::NvLink(_), Some(86)) => 12_000,
            (LinkKind::NvLink(_), Some(90..100)) => 20_600,
            (LinkKind::NvLink(_), Some(100..)) => 40_100,
            (LinkKind::NvLink(_), _) => 20_000,
            _ => return link,
        };
        let rate = one * u64::from(link.lanes);
        self.rated(link, Some(rate))
    }
}

/// Processors by how fast they are joined to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Processor {
    #[default]
    Other,
    Arm,
    Power,
    Amd,
    /// With its model, of family 6.
    Intel(u32),
    Zhaoxin,
}

impl Processor {
    /// What a `cpu` element says of itself.
    pub(super) fn read(cpu: Element<'_>) -> Result<Self, NcclError> {
        let number = |text: &str| text.parse::<u32>().ok();
        let family = cpu.known("familyid", number)?.unwrap_or(0);
        let model = cpu.known("modelid", number)?.unwrap_or(0);
        let model = if family == 6 { model } else { 0 };
        let [architecture, vendor] =
            ["arch", "vendor"].map(|name| cpu.node.attribute(name).unwrap_or(""));
        Ok(match (architecture, vendor) {
            ("arm64", _) => Self::Arm,
            ("ppc64", _) => Self::Power,
            (_, "AuthenticAMD") => Self::Amd,
            (_, "GenuineIntel") => Self::Intel(model),
            (_, "CentaurHauls" | "  Shanghai  ") => Self::Zhaoxin,
            _ => Self::Other,
        })
    }

    const fn megabytes(self, version: u32) -> u64 {
        match self {
            Self::Other => LOCAL,
            Self::Arm => 6_000,
            Self::Power => 32_000,
            Self::Amd | Self::Zhaoxin => 16_000,
            Self::Intel(0xcf..) if version == 1 => 40_000,
            Self::Intel(0x8f..) if version == 1 => 22_000,
            Self::Intel(0x55..) => 10_000,
            Self::Intel(_) => 6_000,
        }
    }
}
