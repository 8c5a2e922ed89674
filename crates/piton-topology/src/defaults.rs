//! Rates and latencies to assume where nothing was measured, in one table with sources.
//!
//! A rate here is the signalling peak times what copies reach of it: measured copies between real
//! devices get 80 to 85 per cent of a link's peak (packet headers, credits, acknowledgements). They are
//! starting points, marked [`Provenance::Default`](crate::Provenance::Default) or `Declared` on the link,
//! and meant to be replaced by measurement.
//!
//! | link | peak of one lane or link, one way | share | source of the peak |
//! |---|---|---|---|
//! | PCIe 1, 2 | 2.5, 5 GT/s, 8 of 10 bits | 0.80 | PCI Express Base Specification |
//! | PCIe 3, 4, 5 | 8, 16, 32 GT/s, 128 of 130 bits | 0.80 | the same |
//! | PCIe 6 | 64 GT/s, 236 of 256 bytes of a FLIT | 0.80 | the same |
//! | NVLink 1; 2 to 4; 5 | 20; 25; 50 GB/s | 0.82 | NVIDIA's white papers of P100 to B200; hwloc agrees |
//! | NVLink-C2C | 450 GB/s | 0.82 | NVIDIA Grace Hopper white paper |
//! | xGMI gfx906; 90a; 94x | 24; 36; 48 GB/s | 1 | RCCL's `topo.h`: already the rate of a copy |
//! | HCCS | 28 GB/s | 0.85 | Ascend 910B: 7 links, 392 GB/s both ways |
//! | HCCS to a switch | 196 GB/s | 0.85 | Atlas 900 A3: 392 GB/s both ways a die |
//! | SIO | 270 GB/s | 0.85 | Ascend 910C: 540 GB/s both ways |
//! | between sockets | 10 GB/s | 1 | NCCL's and RCCL's `topo.h` for Intel since Skylake |
//! | memory bus | 204.8 GB/s | 0.80 | 8 channels of DDR4-3200 |
//! | unknown | as PCIe 3 with 16 lanes | 0.80 | the slowest slot a device is likely to be in |
//!
//! Latencies are placeholders until calibrated: a link 1 µs end to end (half of it for each of the
//! two PCIe links of the shortest path), a switch 0.3 µs more, a host bridge 0.7 µs, a hop between
//! sockets 0.5 µs, starting a copy on a copy engine 5 µs.

use crate::link::{LinkKind, NvLinkVersion, PcieGeneration, XgmiVersion};
use crate::node::NodeKind;
use crate::quantity::{BytesPerSec, Nanos};

/// Time from submitting a copy until its copy engine moves the first byte.
pub const COPY_LAUNCH: Nanos = Nanos::new(5_000);

/// Time from the last byte of a copy to the first of the next on the same engine, which was submitted and ready by then: the
/// engine takes commands while it moves bytes, but answers for a copy before it begins another.
pub const COPY_BETWEEN: Nanos = Nanos::new(2_000);

/// Bytes a staged copy moves through host memory at a time.
pub const STAGING_CHUNK_BYTES: u64 = 1 << 20;

/// What a chunk of a copy that stops on its way takes on the wire: a few times what starting it takes.
pub const CHUNK_TIME: Nanos = Nanos::new(14_000);

/// The same of a copy that stops in host memory, for which a device may have but one engine: then nothing is carried while a chunk
/// is started.
pub const HOST_CHUNK_TIME: Nanos = Nanos::new(40_000);

/// What a copy between devices gets of the narrowest link where it crosses a host bridge, or two on its way into
/// host memory and out, in sixths: the bridge takes what comes in apart and sends it on in smaller packets.
/// NCCL's and RCCL's constant `INTEL_P2P_OVERHEAD`, a fifth more on the bus.
pub const HOST_BRIDGE_SIXTHS: u64 = 5;

/// Rate of a copy inside one device. NCCL's constant for a local path (5000 GB/s).
pub const LOCAL_COPY: BytesPerSec = BytesPerSec::new(5_000_000_000_000);

/// Rate of one lane or bonded link in kilobytes a second, one way, before the share a copy gets.
const fn peak_kilobytes(kind: LinkKind) -> u64 {
    match kind {
        LinkKind::Pcie(PcieGeneration::Gen1) => 250_000,
        LinkKind::Pcie(PcieGeneration::Gen2) => 500_000,
        LinkKind::Pcie(PcieGeneration::Gen3) => 984_615,
        LinkKind::Pcie(PcieGeneration::Gen4) => 1_969_230,
        LinkKind::Pcie(PcieGeneration::Gen5) => 3_938_461,
        LinkKind::Pcie(PcieGeneration::Gen6) => 7_375_000,
        LinkKind::NvLink(NvLinkVersion::V1) => 20_000_000,
        LinkKind::NvLink(NvLinkVersion::V2 | NvLinkVersion::V3 | NvLinkVersion::V4) => 25_000_000,
        LinkKind::NvLink(NvLinkVersion::V5) => 50_000_000,
        LinkKind::C2c => 450_000_000,
        LinkKind::Xgmi(XgmiVersion::Gfx906) => 24_000_000,
        LinkKind::Xgmi(XgmiVersion::Gfx90a) => 36_000_000,
        LinkKind::Xgmi(XgmiVersion::Gfx94x) => 48_000_000,
        LinkKind::Hccs => 28_000_000,
        LinkKind::HccsSwitch => 196_000_000,
        LinkKind::Sio => 270_000_000,
        LinkKind::Smp => 10_000_000,
        LinkKind::MemoryBus => 204_800_000,
        LinkKind::Unknown => 15_753_846,
    }
}

/// The share of the peak a copy gets, in per cent.
const fn share_percent(kind: LinkKind) -> u64 {
    match kind {
        LinkKind::Pcie(_) | LinkKind::MemoryBus | LinkKind::Unknown => 80,
        LinkKind::NvLink(_) | LinkKind::C2c => 82,
        LinkKind::Hccs | LinkKind::HccsSwitch | LinkKind::Sio => 85,
        LinkKind::Xgmi(_) | LinkKind::Smp => 100,
    }
}

/// Signalling peak of `lanes` lanes, one direction: what tools print as the link's bandwidth.
#[must_use]
pub const fn peak(kind: LinkKind, lanes: u16) -> BytesPerSec {
    BytesPerSec::new(peak_kilobytes(kind) * 1_000 * lanes as u64)
}

/// What a copy can expect of a link whose peak is known.
pub(crate) const fn of_peak(kind: LinkKind, peak: BytesPerSec) -> BytesPerSec {
    BytesPerSec::new(peak.get() / 100 * share_percent(kind))
}

/// What a copy over `lanes` lanes can expect, one direction, or `None` for zero lanes.
#[must_use]
pub const fn bandwidth(kind: LinkKind, lanes: u16) -> Option<BytesPerSec> {
    if lanes == 0 {
        return None;
    }
    Some(of_peak(kind, peak(kind, lanes)))
}

/// Time for the first byte to cross a link.
#[must_use]
pub const fn link_latency(kind: LinkKind) -> Nanos {
    Nanos::new(match kind {
        LinkKind::Pcie(_) | LinkKind::Unknown => 500,
        LinkKind::Smp => 500,
        // The host bridge's own time counts where a path crosses it.
        LinkKind::MemoryBus => 100,
        _ => 1_000,
    })
}

/// Time for the first byte to pass through a node that is not an end of the path.
#[must_use]
pub const fn transit_latency(kind: NodeKind) -> Nanos {
    Nanos::new(match kind {
        NodeKind::Switch | NodeKind::LinkSwitch => 300,
        NodeKind::HostBridge => 700,
        NodeKind::Memory(_) => 100,
        // Relaying through a device is a second copy: its launch is the price.
        NodeKind::Device(_) | NodeKind::Nic => COPY_LAUNCH.get(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pcie_peaks_are_what_other_tools_print_for_sixteen_lanes() {
        // Megabytes a second, as hwloc prints them for x16 of generations 3, 4 and 5.
        for (generation, megabytes) in [
            (PcieGeneration::Gen3, 15_753),
            (PcieGeneration::Gen4, 31_507),
            (PcieGeneration::Gen5, 63_015),
        ] {
            let peak = peak(LinkKind::Pcie(generation), 16);
            assert_eq!(peak.get() / 1_000_000, megabytes);
        }
    }

    #[test]
    fn no_lanes_is_no_rate_and_most_lanes_do_not_overflow() {
        assert_eq!(bandwidth(LinkKind::Hccs, 0), None);
        assert!(bandwidth(LinkKind::C2c, u16::MAX).is_some());
        assert_eq!(
            bandwidth(LinkKind::Hccs, 7),
            Some(BytesPerSec::from_mb(166_600))
        );
    }
}
