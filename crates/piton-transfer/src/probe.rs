//! Whether bytes come over a leg unchanged, tried before any are entrusted to it.
//!
//! Some machines grant peer access and then lose or change what is written through it (ACS, IOMMU, a bridge that does not
//! forward). So a pattern goes over first: pushed by the source's queue, and pulled by the destination's, each time into
//! memory that was cleared, and is read back.

#![expect(unsafe_code, reason = "submits copies between memory of its own")]

use crate::{
    TransferError, carrier::Carrier, end::Ends, incident::Reason, relay_memory::Slab, way::Leg,
};
use piton_driver::{Command, DeviceId, DevicePtr, FillPattern, PeerAddress, Priority};
use piton_pinned::PinnedBlock;
use piton_timeline::Frontier;

/// Bytes of the pattern that are pushed, and as many that are pulled.
const HALF: u64 = 16 << 10;

/// A pattern on its way between two devices.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) leg: Leg,
    /// The source's lane and the destination's.
    pub(crate) carriers: Vec<Carrier>,
    slabs: Vec<(DeviceId, Slab)>,
    /// The pattern, and what came: pushed, pulled.
    blocks: Vec<PinnedBlock>,
    is_submitted: bool,
}

/// What a probe has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    Trusted,
    Bad(Reason),
    /// It could not be tried.
    Untried,
}

/// The source's lane, and the destination's.
const SOURCE: usize = 0;
const SINK: usize = 1;

impl Probe {
    /// Sends a pattern over a leg between two devices.
    pub(crate) fn send(ends: &Ends, leg: Leg) -> Self {
        let mut probe = Self {
            leg,
            carriers: Vec::new(),
            slabs: Vec::new(),
            blocks: Vec::new(),
            is_submitted: false,
        };
        let sent = leg.pair().map(|(from, to)| {
            probe.equip(ends, from, to)?;
            probe.submit(from, to)
        });
        probe.is_submitted = matches!(sent, Some(Ok(())));
        probe
    }

    fn equip(&mut self, ends: &Ends, from: DeviceId, to: DeviceId) -> Result<(), TransferError> {
        for device in [from, to] {
            let end = ends.get(device)?;
            self.carriers
                .push(Carrier::on(end, self.leg, Priority::DEFAULT)?);
            self.slabs.push((device, end.take_slab(2 * HALF)?));
        }
        for (device, bytes) in [(from, 2 * HALF), (to, HALF), (to, HALF)] {
            self.blocks.push(ends.get(device)?.take_block(bytes)?);
        }
        for (at, byte) in (0..).zip(self.blocks[0].try_as_mut_slice()?.iter_mut()) {
            *byte = pattern(at);
        }
        Ok(())
    }

    fn submit(&mut self, from: DeviceId, to: DeviceId) -> Result<(), TransferError> {
        let (src, dst) = (self.slabs[0].1.ptr, self.slabs[1].1.ptr);
        let second = src.checked_add(HALF);
        let second = second.ok_or(TransferError::PastTheEnd { bytes: HALF })?;
        let peer = |at| Command::CopyPeer {
            dst: PeerAddress {
                device: to,
                ptr: dst,
            },
            src: PeerAddress {
                device: from,
                ptr: at,
            },
            bytes: HALF,
        };
        self.run(
            SOURCE,
            &Command::CopyToDevice {
                dst: src,
                src: self.blocks[0].as_ptr(),
                bytes: 2 * HALF,
            },
        )?;
        self.run(SINK, &cleared(dst))?;
        self.meet(SOURCE, SINK)?;
        self.run(SOURCE, &peer(src))?;
        self.meet(SINK, SOURCE)?;
        self.read_back(1, dst)?;
        self.run(SINK, &cleared(dst))?;
        self.run(SINK, &peer(second))?;
        self.read_back(2, dst)?;
        // What the source's lane ends with covers what the sink has read.
        self.meet(SOURCE, SINK)
    }

    fn read_back(&mut self, block: usize, from: DevicePtr) -> Result<(), TransferError> {
        let copy = Command::CopyToHost {
            dst: self.blocks[block].as_ptr(),
            src: from,
            bytes: HALF,
        };
        self.run(SINK, &copy)
    }

    fn run(&mut self, at: usize, command: &Command<'_>) -> Result<(), TransferError> {
        // SAFETY: lanes, slabs and blocks are the probe's own until all lanes have ended; the lanes meet wherever they use
        // the same memory.
        let point = unsafe { self.carriers[at].lane.submit(command) }?;
        self.carriers[at].reaches(point);
        for block in &mut self.blocks {
            block.record_write(point);
        }
        Ok(())
    }

    /// One lane waits for the other.
    fn meet(&self, waiting: usize, awaited: usize) -> Result<(), TransferError> {
        let awaited = self.carriers[awaited].lane.now();
        self.carriers[waiting].lane.wait_timepoint(awaited)?;
        Ok(())
    }

    /// Where all that was submitted has ended.
    pub(crate) fn ended(&self) -> Frontier {
        self.carriers.iter().filter_map(Carrier::last).collect()
    }

    /// What came of it. Every lane has ended.
    pub(crate) fn finding(&self, deadline_ns: u64) -> Finding {
        if !self.is_submitted {
            return Finding::Untried;
        }
        if !self.carriers.iter().all(Carrier::has_ended_well) {
            return self.failure(deadline_ns);
        }
        let mut wrong = 0;
        for (half, block) in self.blocks.iter().skip(1).enumerate() {
            let Ok(came) = block.try_as_slice() else {
                return Finding::Untried;
            };
            let sent = (half as u64 * HALF..).map(pattern);
            wrong += came.iter().zip(sent).filter(|(a, b)| **a != *b).count() as u64;
        }
        match wrong {
            0 => Finding::Trusted,
            wrong => Finding::Bad(Reason::Corrupted {
                wrong,
                bytes: 2 * HALF,
            }),
        }
    }

    fn failure(&self, deadline_ns: u64) -> Finding {
        if self.carriers.iter().any(Carrier::is_overdue) {
            return Finding::Bad(Reason::Overdue {
                predicted_ns: PREDICTED_NS,
                deadline_ns,
            });
        }
        let failures = self.carriers.iter().filter_map(|on| on.lane.failure());
        let kinds = failures.map(|failure| failure.error.kind);
        let first = kinds.into_iter().find(|kind| !is_inherited(*kind));
        first.map_or(Finding::Untried, |kind| Finding::Bad(Reason::Failed(kind)))
    }

    /// Gives back what it took. Every lane has ended.
    pub(crate) fn give_back(self, ends: &Ends) {
        for carrier in self.carriers {
            carrier.give_back(ends);
        }
        for (device, slab) in self.slabs {
            if let Ok(end) = ends.get(device) {
                // A pair is tried once: nobody needs so little again.
                end.relay.free(slab);
            }
        }
    }
}

/// What a probe takes, generously, in nanoseconds.
pub(crate) const PREDICTED_NS: u64 = 200_000;

pub(crate) fn is_inherited(kind: piton_driver::ErrorKind) -> bool {
    matches!(kind, piton_driver::ErrorKind::DependencyFailed { .. })
}

fn cleared(dst: DevicePtr) -> Command<'static> {
    Command::Fill {
        dst,
        pattern: FillPattern::Byte(0),
        bytes: HALF,
    }
}

/// Byte `at` of the pattern: never zero, and another in the other half.
fn pattern(at: u64) -> u8 {
    (at.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 | 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_stays_away_or_comes_from_elsewhere_is_noticed() {
        let half = |start: u64| (start..start + HALF).map(pattern).collect::<Vec<_>>();
        let (pushed, pulled) = (half(0), half(HALF));
        assert!(pushed.iter().all(|byte| *byte != 0));
        let same = pushed.iter().zip(&pulled).filter(|(a, b)| a == b).count() as u64;
        assert!(
            same < HALF / 8,
            "{same} of {HALF} are the same in both halves"
        );
        let shifted = pushed.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
        assert!(
            shifted < HALF / 8,
            "{shifted} of {HALF} would not show a shift"
        );
    }
}
