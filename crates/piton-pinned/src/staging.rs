//! How copies of ordinary memory go through page-locked chunks, and which of two ways a pool has found to be faster.
//!
//! # The idea
//! A copy that goes through chunks has two halves: the host's, between ordinary memory and a chunk, and the device's, between
//! the chunk and the device's memory. Real devices carry their half out themselves, so the two *overlap*. Where the
//! device's half is done by the host's cores, as a simulated device's is, there is a second way: the thread that has filled a
//! chunk carries the device's half out as well, *in turn*, while the chunk lies in its core's cache. Then nobody is woken
//! and no second core is needed, but nothing overlaps. If the device takes ordinary memory for a copy that is carried out so, no chunk
//! is needed either.
//!
//! Which of them is faster depends on the machine: how many cores there are, what they share, what else they do. So a pool
//! measures it, in each direction, by the first copy that is long enough ([`StagingTrial`]). Until then, and where
//! there is nothing to choose, [`StagedWay::default`] is taken. What a machine does changes, so after [`AGAIN`] long copies the next
//! one measures anew.
//!
//! # Not here
//! The copies themselves, and the clock: whoever copies takes the time.

use crate::{PinnedError, StagingTrial, config::PAGE};
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use std::{fmt, time::Duration};

/// Long copies between two measurements.
const AGAIN: u32 = 64;

/// How the two halves of a staged copy follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StagedWay {
    /// The device copies one chunk while the host fills or empties another.
    Overlapped,
    /// The thread that copies carries out both halves of a chunk, one after the other, or the device's alone and straight from or to
    /// the ordinary memory, where the device takes that. Where the device does its own work, or
    /// has work already, it is as if this were [`Overlapped`](Self::Overlapped).
    #[default]
    InTurn,
}

impl StagedWay {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Overlapped, Self::InTurn];
}

/// Where a staged copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagedDirection {
    /// From ordinary memory to the device.
    ToDevice,
    /// From the device to ordinary memory.
    ToHost,
}

impl fmt::Display for StagedWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlapped => "overlapped",
            Self::InTurn => "in turn",
        })
    }
}

/// How copies of ordinary memory are to be staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingConfig {
    /// The way; `None` for the one that is measured to be faster.
    pub way: Option<StagedWay>,
    /// Bytes of a chunk: a multiple of 4096, at most 16 MiB. A chunk of one element is as long as that, if it is longer.
    pub chunk_bytes: u64,
}

impl Default for StagingConfig {
    /// Measured; chunks of 256 KiB.
    fn default() -> Self {
        Self {
            way: None,
            chunk_bytes: 256 << 10,
        }
    }
}

impl StagingConfig {
    const MAX_CHUNK: u64 = 16 << 20;

    /// Whether every setting can take effect.
    ///
    /// # Errors
    /// [`PinnedError::InvalidChunk`].
    pub fn validate(&self) -> Result<(), PinnedError> {
        let given = self.chunk_bytes;
        if given.is_multiple_of(PAGE) && (PAGE..=Self::MAX_CHUNK).contains(&given) {
            return Ok(());
        }
        Err(PinnedError::InvalidChunk {
            given,
            multiple_of: PAGE,
            maximum: Self::MAX_CHUNK,
        })
    }
}

/// The way of copies in one direction, and what it was chosen by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StagingChoice {
    /// The way that is taken now.
    pub way: StagedWay,
    /// For how long a MiB was under way, overlapped and in turn; none where nothing was measured.
    pub per_mebibyte: Option<[Duration; 2]>,
}

impl fmt::Display for StagingChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.way)?;
        let Some([overlapped, in_turn]) = self.per_mebibyte.map(|both| both.map(|d| d.as_micros()))
        else {
            return f.write_str(" (not measured)");
        };
        write!(
            f,
            " (measured for a MiB: overlapped {overlapped} us, in turn {in_turn} us)"
        )
    }
}

/// The ways of copies through a pool's chunks, in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StagingStats {
    /// Of copies to the device.
    pub to_device: StagingChoice,
    /// Of copies to the host.
    pub to_host: StagingChoice,
}

/// What a pool knows of the ways.
#[derive(Debug)]
pub struct Staging {
    config: StagingConfig,
    to_device: Choice,
    to_host: Choice,
}

impl Staging {
    pub(crate) fn new(config: StagingConfig) -> Self {
        Self {
            config,
            to_device: Choice::new(config.way),
            to_host: Choice::new(config.way),
        }
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> usize {
        usize::try_from(self.config.chunk_bytes).unwrap_or(usize::MAX)
    }

    /// The way that copies take now.
    pub fn way(&self, direction: StagedDirection) -> StagedWay {
        self.choice(direction).way()
    }

    /// A measurement for the caller to make on its copy of `bytes` bytes, if the way is not given, was not measured lately,
    /// nobody else measures it now and the copy is long enough. It goes back by [`settle`](Self::settle).
    pub fn trial(&self, direction: StagedDirection, bytes: usize) -> Option<StagingTrial> {
        let is_long = bytes >= StagingTrial::BYTES;
        (is_long && self.choice(direction).begin()).then(StagingTrial::default)
    }

    /// The measurement is over. What it found, if it came to its end, is the way from now on; else all is as it was, and the
    /// next long copy may measure.
    pub fn settle(&self, direction: StagedDirection, trial: &StagingTrial) {
        self.choice(direction).settle(trial.outcome());
    }

    /// The ways, and what they were chosen by.
    pub fn stats(&self) -> StagingStats {
        StagingStats {
            to_device: self.to_device.stats(),
            to_host: self.to_host.stats(),
        }
    }

    fn choice(&self, direction: StagedDirection) -> &Choice {
        match direction {
            StagedDirection::ToDevice => &self.to_device,
            StagedDirection::ToHost => &self.to_host,
        }
    }
}

/// What is known of one direction. A copy that measures nothing takes no lock.
#[derive(Debug)]
struct Choice {
    is_overlapped: AtomicBool,
    /// None where the way is given.
    measuring: Option<Mutex<Measuring>>,
}

/// Where measurements are at.
#[derive(Debug, Default)]
struct Measuring {
    is_under_way: bool,
    /// What the last one found.
    per_mebibyte: Option<[Duration; 2]>,
    /// Long copies that come before the next.
    copies_before: u32,
}

impl Choice {
    fn new(given: Option<StagedWay>) -> Self {
        let way = given.unwrap_or_default();
        Self {
            is_overlapped: AtomicBool::new(way == StagedWay::Overlapped),
            measuring: given.is_none().then(Mutex::default),
        }
    }

    fn way(&self) -> StagedWay {
        if self.is_overlapped.load(Ordering::Relaxed) {
            StagedWay::Overlapped
        } else {
            StagedWay::InTurn
        }
    }

    /// A long copy comes: whether it measures.
    fn begin(&self) -> bool {
        let Some(measuring) = &self.measuring else {
            return false;
        };
        let mut measuring = measuring.lock();
        if measuring.is_under_way {
            return false;
        }
        if measuring.copies_before > 0 {
            measuring.copies_before -= 1;
            return false;
        }
        measuring.is_under_way = true;
        true
    }

    fn settle(&self, outcome: Option<(StagedWay, [Duration; 2])>) {
        let Some(measuring) = &self.measuring else {
            return;
        };
        let mut measuring = measuring.lock();
        measuring.is_under_way = false;
        if let Some((way, per_mebibyte)) = outcome {
            measuring.per_mebibyte = Some(per_mebibyte);
            measuring.copies_before = AGAIN;
            let is_overlapped = way == StagedWay::Overlapped;
            self.is_overlapped.store(is_overlapped, Ordering::Relaxed);
        }
    }

    fn stats(&self) -> StagingChoice {
        let measuring = self.measuring.as_ref();
        StagingChoice {
            way: self.way(),
            per_mebibyte: measuring.and_then(|measuring| measuring.lock().per_mebibyte),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LONG: usize = StagingTrial::BYTES;

    fn staging(way: Option<StagedWay>) -> Staging {
        Staging::new(StagingConfig {
            way,
            ..StagingConfig::default()
        })
    }

    /// All segments of a measurement, with so many microseconds for a MiB of each way.
    fn made(mut trial: StagingTrial, [overlapped, in_turn]: [u64; 2]) -> StagingTrial {
        while let Some(way) = trial.next() {
            let micros = match way {
                StagedWay::Overlapped => overlapped,
                StagedWay::InTurn => in_turn,
            };
            trial.note(Duration::from_micros(micros) * StagingTrial::SEGMENT_MIB);
        }
        trial
    }

    #[test]
    fn each_direction_is_measured_by_one_long_copy_and_again_after_many() {
        let (staging, to, from) = (
            staging(None),
            StagedDirection::ToDevice,
            StagedDirection::ToHost,
        );
        assert!(staging.trial(to, LONG - 1).is_none());
        let trial = staging.trial(to, LONG).unwrap();
        assert!(staging.trial(to, LONG).is_none(), "one measures already");
        assert!(staging.trial(from, LONG).is_some());
        staging.settle(to, &made(trial, [100, 200]));
        assert_eq!(staging.way(to), StagedWay::Overlapped);
        assert_eq!(staging.way(from), StagedWay::default());
        let again = (0..=AGAIN).filter(|_| staging.trial(to, LONG).is_some());
        assert_eq!(again.count(), 1, "the last of them");
        let measured = Some([100, 200].map(Duration::from_micros));
        assert_eq!(staging.stats().to_device.per_mebibyte, measured);
    }

    #[test]
    fn a_measurement_that_was_given_up_leaves_all_as_it_was() {
        let (staging, to) = (staging(None), StagedDirection::ToDevice);
        let trial = staging.trial(to, LONG).unwrap();
        staging.settle(to, &trial);
        assert_eq!(staging.stats(), StagingStats::default());
        assert!(staging.trial(to, LONG).is_some());
    }

    #[test]
    fn a_way_that_is_given_is_not_measured() {
        for way in StagedWay::ALL {
            let staging = staging(Some(way));
            assert!(staging.trial(StagedDirection::ToHost, LONG).is_none());
            assert_eq!(staging.way(StagedDirection::ToHost), way);
        }
    }

    #[test]
    fn chunks_that_cannot_be_are_refused_with_their_numbers() {
        for given in [0, 1000, 4097, (16 << 20) + 4096, u64::MAX] {
            let config = StagingConfig {
                chunk_bytes: given,
                ..StagingConfig::default()
            };
            let refused = PinnedError::InvalidChunk {
                given,
                multiple_of: 4096,
                maximum: 16 << 20,
            };
            assert_eq!(config.validate(), Err(refused));
        }
        for chunk_bytes in [4096, 16 << 20] {
            let way = None;
            assert_eq!(StagingConfig { way, chunk_bytes }.validate(), Ok(()));
        }
    }
}
