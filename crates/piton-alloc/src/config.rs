//! The configuration of a pool, and the settings that it resolves to on a given source.
//!
//! A setting that contradicts another, or that could have no effect, is an error when the pool is made. Nothing is
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

/// How a pool behaves. Sizes are in bytes.
///
/// [`Default`] suits most programs. Each setting that could have no effect on a given source is a [`ConfigError`]
/// when the pool is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPoolConfig {
    /// Alignment and granularity of every allocation, in bytes: a power of two from 32 up to the source's alignment.
    /// 512 by default.
    pub alignment: u64,
    /// Bytes of the smallest Block that requests share, a multiple of the source's granularity. `None` takes 1/256 of
    /// the limit, but at least 2 MiB and at most 64 MiB. Blocks only.
    pub block_bytes: Option<u64>,
    /// A shared Block has at least this share of what the pool already holds, in per cent from 0 to 100. So the
    /// number of Blocks grows with the logarithm of the memory. 2 by default. Blocks only.
    pub growth_percent: u32,
    /// Which requests get a Block of exactly their size. Blocks only.
    pub exact_blocks: ExactBlocks,
    /// The most bytes that the pool may hold.
    pub limit: PoolLimit,
    /// The pool gives wholly free Blocks back, and takes pages from holes, before it grows past the most it ever
    /// needed. Below this many bytes it grows without doing so. At most the limit; 0 by default.
    pub release_threshold: u64,
    /// Whether the pool maps pages into one range of addresses, or takes Blocks as the source gives them.
    pub virtual_addressing: VirtualAddressing,
    /// With virtual addressing, requests below this many bytes keep to pages of their own, so that a small survivor
    /// does not pin pages of large ones. 0 switches that off. `None` takes 1 MiB, or 1/64 of the limit if that is
    /// less.
    pub small_below: Option<u64>,
    /// How many of its last events the pool remembers for snapshots; the front of each lane remembers as many of its
    /// own. An event takes 32 bytes, and room is kept for the next power of two of them. 0 switches events off; 4096
    /// by default.
    pub events: u32,
    /// The most bytes of freed Chunks that a lane keeps on its front, where it gets them back without the pool's
    /// lock. They are everyone's before the pool grows. 0 switches fronts off. `None` takes 4 MiB, or 1/64 of the
    /// limit if that is less.
    pub front_bytes: Option<u64>,
    /// Which of several free pieces that fit a request gets.
    pub search: SearchRule,
    /// Whether memory that one lane freed may go to another lane before its last use is complete.
    pub cross_lane: CrossLane,
    /// How [`DevicePool::lookup`](crate::DevicePool::lookup) finds an allocation.
    pub address_lookup: AddressLookup,
}

/// Which of the free pieces that fit a request it gets.
///
/// Free pieces are kept in bins, 32 for each doubling of the size. The search looks at the bin of the request's own
/// size first, then at the next bin that has any.
///
/// No rule is best for every program. The default is within a thousandth of best fit on recorded programs, and its
/// cost does not grow with the number of free pieces. `piton replay --search` shows what another rule does for a
/// recorded program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchRule {
    /// The smallest of up to this many pieces of a bin, the lowest address among equals. 1 takes the youngest that
    /// fits; 0 is an error. The default is 8.
    BestOf(u32),
    /// The smallest of all. A search costs a step for each free piece of about the size.
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

/// How [`DevicePool::lookup`](crate::DevicePool::lookup) finds the allocation of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressLookup {
    /// By tables that each allocation and free updates, at about ten nanoseconds each. A look-up takes a few steps
    /// and no lock.
    Tables,
    /// By a walk over the Chunks of a Block, or of the whole range of addresses, under the pool's lock. The lane and
    /// the tag are not known then. This is the default, for messages and reports.
    Walk,
}

/// Whether a pool maps pages where they are needed, or takes Blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VirtualAddressing {
    /// Pages, if the source has virtual memory; otherwise Blocks, to which the settings for Blocks apply.
    Auto,
    /// Always pages. A source without virtual memory is an error, and so are settings for Blocks.
    On,
    /// Never.
    Off,
}

/// Which requests, when nothing held fits, get a Block of exactly their size instead of one with room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExactBlocks {
    /// Those of at least the block size, unless the program's sizes change so that each would have its own Block come and
    /// go: pending Blocks that cannot go back yet and are too small pile up, or more than one request in 40 has a Block go back
    /// while the limit is far. Such requests share Blocks.
    Automatic,
    /// Those of at least this many bytes, once rounded up to the multiple that Block sizes have. It must be more than
    /// that multiple, or every Block would be exact.
    From(u64),
    /// Only those that need more than a shared Block would have.
    Never,
}

/// Most bytes a pool may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolLimit {
    /// All memory of the device.
    Device,
    /// This many bytes, at most what the device has.
    Bytes(u64),
    /// A share of the device's memory, in per cent from 1 to 100.
    Percent(u32),
}

/// What happens when a request would fit only into memory that another lane's work still uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrossLane {
    /// Hand it out with a wait, before asking the source for more memory. Where the pool maps pages and holds 1/16 to
    /// 1/8 more than was ever live, large requests take the place that fits best, even if another needs no wait. This
    /// holds the least memory; lanes may run less in parallel. The default.
    Wait,
    /// Hand it out with a wait only when the pool cannot grow any more.
    WaitWhenFull,
    /// Never hand it out, unless the taker's lane is already ordered behind the use.
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
    /// Whether such requests share Blocks too where those of their own size would be too many.
    pub(crate) large_may_share: bool,
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
            large_may_share: config.exact_blocks == ExactBlocks::Automatic,
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
