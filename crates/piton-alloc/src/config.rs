//! Configuration, and the settings it comes to on a given source.
//!
//! A setting that contradicts another, or that could have no effect, is refused when the pool is made: nothing is
//! clamped silently.

use piton_suballoc::Tlsf;

use crate::allocation::About;
use crate::error::ConfigError;
use crate::events::MAX_EVENTS;
use crate::front::MOST_SHELVED;
use crate::region::Region;
use crate::source::BlockSource;

/// Smallest alignment a pool may have, in bytes.
const MIN_ALIGNMENT: u64 = 32;
/// Blocks an automatic block size leaves room for below the limit.
const AUTOMATIC_BLOCKS: u64 = 256;
/// Bounds of the automatic block size, in bytes.
const AUTOMATIC_BYTES: (u64, u64) = (2 << 20, 64 << 20);

/// The automatic boundary of small requests in bytes, and the part of the limit it is at most.
const AUTOMATIC_SMALL: u64 = 1 << 20;
const AUTOMATIC_SMALL_SHARE: u64 = 64;

/// Most bytes that a lane keeps at hand, and the part of the limit that is at most.
const AUTOMATIC_FRONT: u64 = 4 << 20;
const AUTOMATIC_FRONT_SHARE: u64 = 64;

/// A device with fewer pages of the recommended size than this gets the smallest pages it can have.
const SMALL_DEVICE_PAGES: u64 = 128;

/// How a pool behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPoolConfig {
    /// Alignment and granularity of every allocation in bytes: a power of two from 32 up to the source's alignment.
    pub alignment: u64,
    /// Bytes of the smallest Block that requests share, a multiple of the source's granularity. `None` chooses by the
    /// limit.
    pub block_bytes: Option<u64>,
    /// A Block has at least this share of what the pool holds already, in per cent from 0 to 100, so that the number
    /// of Blocks grows with the logarithm of the memory.
    pub growth_percent: u32,
    /// Which requests get a Block of just their size.
    pub exact_blocks: ExactBlocks,
    /// Most bytes the pool may hold.
    pub limit: PoolLimit,
    /// Wholly free Blocks are given back before the pool would grow past the most it ever held; below this many bytes
    /// it grows without giving back. At most the limit.
    pub release_threshold: u64,
    /// Whether pages are mapped into one range of addresses, or Blocks are taken as they come.
    pub virtual_addressing: VirtualAddressing,
    /// With virtual addressing, requests below so many bytes keep to pages of their own; 0 for none. `None` chooses by
    /// the limit.
    pub small_below: Option<u64>,
    /// How many of the last events the pool remembers for snapshots, and the front of each lane besides, at 32 bytes each
    /// and in room for the next power of two of them; 0 for none.
    pub events: u32,
    /// Most bytes that a lane keeps at hand of what it freed, to be had by it without the pool's lock; 0 for none. They are
    /// everyone's before the pool grows. `None` chooses by the limit.
    pub front_bytes: Option<u64>,
    /// Which of several pieces that fit a request gets.
    pub search: SearchRule,
    /// Whether memory freed on one lane may go to another before its last use is complete.
    pub cross_lane: CrossLane,
    /// How [`DevicePool::lookup`](crate::DevicePool::lookup) finds an allocation.
    pub address_lookup: AddressLookup,
}

/// Which of the free pieces that fit a request it gets. They are kept in bins, 32 for each doubling of the size; the bin
/// of the request's own size is looked at first, and the next one that has any.
///
/// No rule is best for every program. The default is within a thousandth of the best fit on recorded programs, and takes as long
/// however much is free; `piton replay --search` says what another would make of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchRule {
    /// The smallest of up to so many of a bin, the lowest among equals: from one, which takes the youngest that fits. The
    /// default is 8.
    BestOf(u32),
    /// The smallest of all. A search takes as long as there are free pieces of about the size.
    Best,
}

impl SearchRule {
    /// Pieces looked at in a bin.
    pub(crate) const fn tries(self) -> u32 {
        match self {
            Self::BestOf(tries) => tries,
            Self::Best => u32::MAX,
        }
    }
}

/// How an allocation is found by an address inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressLookup {
    /// By tables that are kept with each allocation and free, at about ten nanoseconds each: in a few steps, without a lock.
    Tables,
    /// By a walk over the Chunks of a Block, or of all addresses, under the pool's lock. The lane and the tag are not known
    /// then. The default: for messages and reports.
    Walk,
}

/// Whether a pool maps pages where they are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VirtualAddressing {
    /// Where the source has virtual memory; settings for Blocks apply where it has not.
    Auto,
    /// Always: a source without virtual memory is an error, and so are settings for Blocks.
    On,
    /// Never.
    Off,
}

/// Which requests, when nothing held fits, get a Block of just their size instead of one with room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExactBlocks {
    /// Those of at least the block size.
    Automatic,
    /// Those of at least so many bytes, once rounded up to what Block sizes are multiples of; more than that multiple, or
    /// every Block would be one.
    From(u64),
    /// Only those that need more than any other Block would have.
    Never,
}

/// Most bytes a pool may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolLimit {
    /// All the device has.
    Device,
    /// So many bytes, at most what the device has.
    Bytes(u64),
    /// A share of the device's memory, in per cent from 1 to 100.
    Percent(u32),
}

/// What happens when only memory that another lane's work still uses would fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrossLane {
    /// Hand it out with a wait, before asking the source for more memory; and where pages are mapped and the pool holds a sixteenth
    /// to an eighth more than was ever live, wherever it fits best. Holds least; lanes may run less in parallel.
    Wait,
    /// Hand it out with a wait only when the pool cannot grow.
    WaitWhenFull,
    /// Never, unless the taker's lane is ordered behind the use already.
    Never,
}

impl Default for MemoryPoolConfig {
    fn default() -> Self {
        Self {
            alignment: 512,
            block_bytes: None,
            growth_percent: 2,
            exact_blocks: ExactBlocks::Automatic,
            limit: PoolLimit::Device,
            release_threshold: 0,
            virtual_addressing: VirtualAddressing::Auto,
            small_below: None,
            events: 4096,
            front_bytes: None,
            search: SearchRule::BestOf(8),
            cross_lane: CrossLane::Wait,
            address_lookup: AddressLookup::Walk,
        }
    }
}

/// A configuration that holds on a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) unit: u64,
    pub(crate) max_align: u64,
    /// Block sizes are multiples of this, so that offsets are aligned wherever a Block's range starts.
    pub(crate) block_multiple: u64,
    pub(crate) block_bytes: u64,
    pub(crate) growth_percent: u32,
    pub(crate) exact_from: u64,
    pub(crate) limit: u64,
    /// Bytes of the largest request: its Block is within the limit.
    pub(crate) most_each: u64,
    pub(crate) release_threshold: u64,
    /// Requests below so many bytes are small ones; 0 where there is one region.
    pub(crate) small_below: u64,
    pub(crate) events: u32,
    pub(crate) front_bytes: u64,
    /// Free pieces of a bin that a search looks at.
    pub(crate) tries: u32,
    pub(crate) cross_lane: CrossLane,
    pub(crate) has_directory: bool,
    /// Whether pages are mapped, if the source can.
    pub(crate) is_virtual: bool,
}

impl Settings {
    pub(crate) fn new(
        config: &MemoryPoolConfig,
        source: &dyn BlockSource,
    ) -> Result<Self, ConfigError> {
        let page = page_bytes(config, source)?;
        let max_align = source.alignment();
        if !max_align.is_power_of_two() || max_align < MIN_ALIGNMENT {
            return Err(ConfigError::SourceAlignment {
                given: max_align,
                minimum: MIN_ALIGNMENT,
            });
        }
        let unit = config.alignment;
        // Rounding adds less than a unit.
        let maximum = max_align.min(About::MOST_PADDING + 1);
        if !unit.is_power_of_two() || !(MIN_ALIGNMENT..=maximum).contains(&unit) {
            return Err(ConfigError::Alignment {
                given: unit,
                minimum: MIN_ALIGNMENT,
                maximum,
            });
        }
        let block_multiple = page.unwrap_or_else(|| source.granularity()).max(max_align);
        let limit = limit_bytes(config.limit, source.capacity(), block_multiple)?;
        if limit / unit > u64::from(Tlsf::MAX_UNITS) {
            return Err(ConfigError::LimitTooLarge {
                limit,
                alignment: unit,
                maximum: u64::from(Tlsf::MAX_UNITS).saturating_mul(unit),
            });
        }
        // Where pages are mapped there are no Blocks to be too large or too small.
        let given = config.block_bytes.filter(|_| page.is_none());
        let block_bytes = block_bytes(given, limit, block_multiple)?;
        let settings = Self {
            unit,
            max_align,
            block_multiple,
            block_bytes,
            growth_percent: config.growth_percent,
            exact_from: match config.exact_blocks {
                ExactBlocks::Automatic => block_bytes,
                ExactBlocks::From(bytes) => bytes,
                ExactBlocks::Never => u64::MAX,
            },
            limit,
            most_each: limit - limit % block_multiple,
            release_threshold: config.release_threshold,
            small_below: match page {
                Some(_) => config
                    .small_below
                    .unwrap_or_else(|| AUTOMATIC_SMALL.min(limit / AUTOMATIC_SMALL_SHARE)),
                None => 0,
            },
            events: config.events,
            front_bytes: config
                .front_bytes
                .unwrap_or_else(|| AUTOMATIC_FRONT.min(limit / AUTOMATIC_FRONT_SHARE)),
            tries: config.search.tries(),
            cross_lane: config.cross_lane,
            has_directory: config.address_lookup == AddressLookup::Tables,
            is_virtual: page.is_some(),
        };
        settings.refuse_what_has_no_effect(config)?;
        Ok(settings)
    }

    /// The region a request belongs to.
    #[inline]
    pub(crate) const fn region_of(&self, bytes: u64) -> Region {
        if bytes < self.small_below {
            Region::Small
        } else {
            Region::Large
        }
    }

    fn refuse_what_has_no_effect(&self, config: &MemoryPoolConfig) -> Result<(), ConfigError> {
        let limit = self.limit;
        if config.events > MAX_EVENTS {
            return Err(ConfigError::Events {
                given: config.events,
                maximum: MAX_EVENTS,
            });
        }
        if self.tries == 0 {
            return Err(ConfigError::SearchRule);
        }
        if config.growth_percent > 100 {
            return Err(ConfigError::GrowthPercent {
                given: config.growth_percent,
            });
        }
        if config.release_threshold > limit {
            return Err(ConfigError::ReleaseThreshold {
                given: config.release_threshold,
                limit,
            });
        }
        let maximum = limit.min(MOST_SHELVED);
        if let Some(given) = config.front_bytes.filter(|bytes| *bytes > 0)
            && !(self.unit..=maximum).contains(&given)
        {
            return Err(ConfigError::FrontBytes {
                given,
                minimum: self.unit,
                maximum,
            });
        }
        match config.small_below {
            // No request has less than one byte, or more than the largest has.
            Some(given) if given == 1 || given > self.most_each => {
                return Err(ConfigError::SmallBelow { given, limit });
            }
            Some(_) if config.virtual_addressing == VirtualAddressing::Off => {
                return Err(ConfigError::SmallWithoutPages);
            }
            _ => {}
        }
        let multiple = self.block_multiple;
        match config.exact_blocks {
            ExactBlocks::From(given) if given <= multiple => {
                Err(ConfigError::ExactFromAll { given, multiple })
            }
            ExactBlocks::From(given) if given > self.most_each => {
                Err(ConfigError::ExactFrom { given, limit })
            }
            _ => Ok(()),
        }
    }
}

/// Bytes of a page where pages are mapped; `None` for Blocks.
fn page_bytes(
    config: &MemoryPoolConfig,
    source: &dyn BlockSource,
) -> Result<Option<u64>, ConfigError> {
    let page = || {
        let granularity = source.virtual_memory()?.granularity();
        // On a small device a page of the recommended size would be too much of it.
        let is_small = source.capacity() / SMALL_DEVICE_PAGES < granularity.recommended;
        Some(if is_small {
            granularity.minimum
        } else {
            granularity.recommended
        })
    };
    match config.virtual_addressing {
        VirtualAddressing::Off => Ok(None),
        VirtualAddressing::Auto => Ok(page()),
        VirtualAddressing::On => {
            let defaults = MemoryPoolConfig::default();
            let blocks = (
                config.block_bytes,
                config.growth_percent,
                config.exact_blocks,
            );
            if blocks
                != (
                    defaults.block_bytes,
                    defaults.growth_percent,
                    defaults.exact_blocks,
                )
            {
                return Err(ConfigError::BlockSettingsWithoutBlocks);
            }
            page().map(Some).ok_or(ConfigError::NoVirtualMemory)
        }
    }
}

fn limit_bytes(limit: PoolLimit, capacity: u64, multiple: u64) -> Result<u64, ConfigError> {
    let bytes = match limit {
        PoolLimit::Device => capacity,
        PoolLimit::Bytes(bytes) => bytes,
        PoolLimit::Percent(percent @ 1..=100) => share_of(capacity, percent),
        PoolLimit::Percent(given) => return Err(ConfigError::LimitPercent { given }),
    };
    if bytes > capacity || bytes < multiple {
        return Err(ConfigError::Limit {
            given: bytes,
            minimum: multiple,
            capacity,
        });
    }
    Ok(bytes)
}

/// Exact, so that 100 per cent is all of it.
fn share_of(bytes: u64, percent: u32) -> u64 {
    let (whole, rest) = (bytes / 100, bytes % 100);
    let percent = u64::from(percent);
    whole * percent + rest * percent / 100
}

fn block_bytes(given: Option<u64>, limit: u64, multiple: u64) -> Result<u64, ConfigError> {
    let Some(given) = given else {
        let (low, high) = AUTOMATIC_BYTES;
        let bytes = (limit / AUTOMATIC_BLOCKS)
            .clamp(low, high)
            .next_multiple_of(multiple);
        return Ok(if bytes <= limit { bytes } else { multiple });
    };
    if given == 0 || !given.is_multiple_of(multiple) {
        return Err(ConfigError::BlockBytes { given, multiple });
    }
    if given > limit {
        return Err(ConfigError::BlockBeyondLimit { given, limit });
    }
    Ok(given)
}
