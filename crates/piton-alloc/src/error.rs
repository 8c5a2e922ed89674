//! Why the pool refused. All sizes are bytes.

use std::fmt;

use piton_driver::DriverError;
use piton_timeline::{Frontier, Timepoint};
use thiserror::Error;

use crate::adaptor::Tag;
use crate::allocation::{Allocation, PoolId};
use crate::fragmentation::{ByLane, Pending};
use crate::placement::Suspended;
use crate::recovery::Recovery;

/// A configuration that contradicts itself or could have no effect on the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The alignment is not a power of two, or out of bounds.
    #[error("alignment {given} is not a power of two from {minimum} to {maximum}")]
    Alignment {
        /// Alignment given.
        given: u64,
        /// Smallest allowed.
        minimum: u64,
        /// The source's alignment.
        maximum: u64,
    },
    /// The source guarantees an alignment that no pool can work with: the source is wrong, not the configuration.
    #[error(
        "the source aligns its Blocks to {given}, which is not a power of two of at least {minimum}"
    )]
    SourceAlignment {
        /// The source's alignment.
        given: u64,
        /// Smallest that a pool works with.
        minimum: u64,
    },
    /// The limit is more than the device has or less than one Block.
    #[error(
        "a limit of {given} bytes is not between one Block, {minimum}, and the device's {capacity}"
    )]
    Limit {
        /// Limit given.
        given: u64,
        /// Bytes of the smallest Block possible.
        minimum: u64,
        /// Bytes the device has.
        capacity: u64,
    },
    /// The search rule looks at no piece of memory, and so would find none.
    #[error("a search for the best of 0 pieces finds none: at least 1")]
    SearchRule,
    /// The limit as a share is not from 1 to 100 per cent.
    #[error("a limit of {given} per cent is not from 1 to 100")]
    LimitPercent {
        /// Per cent given.
        given: u32,
    },
    /// The limit has more units of the alignment than the index can count.
    #[error("at an alignment of {alignment} bytes a pool may hold {maximum} bytes, not {limit}")]
    LimitTooLarge {
        /// Limit in force.
        limit: u64,
        /// Alignment given.
        alignment: u64,
        /// Largest limit at that alignment.
        maximum: u64,
    },
    /// The block size is not a positive multiple of what the source serves.
    #[error("a block size of {given} bytes is not a positive multiple of {multiple}")]
    BlockBytes {
        /// Block size given.
        given: u64,
        /// What it must be a multiple of.
        multiple: u64,
    },
    /// Not a single Block fits under the limit.
    #[error("a block size of {given} bytes exceeds the limit of {limit}")]
    BlockBeyondLimit {
        /// Block size given.
        given: u64,
        /// Limit in force.
        limit: u64,
    },
    /// More events than a pool can remember.
    #[error("{given} events are more than {maximum}")]
    Events {
        /// Events to remember.
        given: u32,
        /// Most of them.
        maximum: u32,
    },
    /// The growth is more than 100 per cent.
    #[error("a growth of {given} per cent is not from 0 to 100")]
    GrowthPercent {
        /// Per cent given.
        given: u32,
    },
    /// The release threshold is above the limit, so the pool would never release anything.
    #[error("a release threshold of {given} bytes exceeds the limit of {limit}")]
    ReleaseThreshold {
        /// Threshold given.
        given: u64,
        /// Limit in force.
        limit: u64,
    },
    /// A front could not hold so much, or no allocation fits into so little.
    #[error("{given} bytes at hand for a lane are not 0, and not from {minimum} to {maximum}")]
    FrontBytes {
        /// Bytes given.
        given: u64,
        /// Bytes of the smallest allocation.
        minimum: u64,
        /// What a lane's shelves hold at most, or the limit in force.
        maximum: u64,
    },
    /// All Blocks would be of exact size, because Block sizes are multiples of this many bytes.
    #[error("Blocks of exact size from {given} bytes on would be all, in multiples of {multiple}")]
    ExactFromAll {
        /// Boundary given.
        given: u64,
        /// What Block sizes are multiples of.
        multiple: u64,
    },
    /// Virtual addressing was asked for and the source has no virtual memory.
    #[error("virtual addressing needs virtual memory, which the source does not have")]
    NoVirtualMemory,
    /// Virtual addressing was asked for together with settings that only Blocks have.
    #[error("with virtual addressing there are no Blocks for the block settings to apply to")]
    BlockSettingsWithoutBlocks,
    /// A boundary of small requests was set without virtual addressing; it has an effect only where there are pages.
    #[error("a boundary for small requests has no effect without virtual addressing")]
    SmallWithoutPages,
    /// Every request would be a small one, or none.
    #[error("requests below {given} bytes cannot be the small ones under a limit of {limit}")]
    SmallBelow {
        /// Boundary given.
        given: u64,
        /// Limit in force.
        limit: u64,
    },
    /// The source refused to reserve addresses for the pool.
    #[error("the source would not reserve addresses")]
    Addresses(#[source] DriverError),
    /// The boundary of exact Blocks is beyond the limit.
    #[error("Blocks of exact size from {given} bytes on are beyond the limit of {limit}")]
    ExactFrom {
        /// Boundary given.
        given: u64,
        /// Limit in force.
        limit: u64,
    },
}

/// Why a request was not served. Nothing has changed except what the recovery did.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AllocError {
    /// Zero bytes were asked for.
    #[error("zero bytes were requested")]
    ZeroBytes,
    /// The alignment asked for is not a power of two, or more than the source guarantees.
    #[error("alignment {given} is not a power of two up to {maximum}")]
    Alignment {
        /// Alignment asked for.
        given: u64,
        /// The source's alignment.
        maximum: u64,
    },
    /// The request exceeds the pool's limit. Freeing memory cannot help.
    #[error("{requested} bytes can never fit: {rounded} with rounding, the limit is {limit}")]
    NeverFits {
        /// Bytes asked for.
        requested: u64,
        /// Bytes of the Block it would take; `u64::MAX` where rounding overflows.
        rounded: u64,
        /// The pool's limit.
        limit: u64,
    },
    /// The request does not fit now. Freeing memory may help.
    #[error(transparent)]
    FullNow(Box<FullNow>),
    /// An adaptor's limit is reached; freeing through the same adaptor helps.
    #[error("{requested} bytes requested with {in_use} in use of a limit of {limit}")]
    LimitReached {
        /// Bytes asked for.
        requested: u64,
        /// Bytes in use through the adaptor.
        in_use: u64,
        /// Most bytes that may be.
        limit: u64,
    },
    /// The limit of one tag is reached; freeing what has the tag helps.
    #[error("{requested} bytes requested for tag {} with {in_use} in use of a limit of {limit}", tag.0)]
    TagLimitReached {
        /// The tag.
        tag: Tag,
        /// Bytes asked for.
        requested: u64,
        /// Bytes in use for the tag.
        in_use: u64,
        /// Most bytes that may be.
        limit: u64,
    },
    /// The request failed on purpose ([`Failing`](crate::Failing)).
    #[error("request {call} failed on purpose")]
    Injected {
        /// The request's number, from 1.
        call: u64,
    },
    /// The source failed with an error other than out of memory.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// The state of a pool that could not serve a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "out of device memory: {requested} bytes requested ({rounded} with rounding); {held} held of a limit of {limit}: \
     {live} live + {padding} padding + {cached} cached (largest hole {largest_hole}, stealable {stealable}) + {pending} pending{}{}; {recovery}",
    ByLane(.pending_on),
    Elsewhere { in_transit: *.in_transit, suspended: *.suspended }
)]
pub struct FullNow {
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes it takes with rounding.
    pub rounded: u64,
    /// Bytes of all Blocks.
    pub held: u64,
    /// Bytes asked for and in use.
    pub live: u64,
    /// Bytes lost to rounding.
    pub padding: u64,
    /// Free bytes that anyone may have.
    pub cached: u64,
    /// The longest contiguous range of those.
    pub largest_hole: u64,
    /// Bytes of pages that lie wholly in holes, to be mapped elsewhere; 0 without virtual addressing.
    pub stealable: u64,
    /// Free bytes whose last use is not known complete.
    pub pending: u64,
    /// The same, by the lane that used them last.
    pub pending_on: Vec<Pending>,
    /// Places of lanes behind which as many of those bytes are complete as the request takes, or all of them if that is less;
    /// empty if nothing is pending. Whoever has waited for them may ask again. One wait need not be enough, since what is
    /// free need not be in one piece.
    pub frees_at: Frontier,
    /// Bytes of pages and Blocks in transit: on their way to or from the source, or kept to be mapped.
    pub in_transit: u64,
    /// Bytes of suspended allocations: live, but without pages, and so not held.
    pub suspended: u64,
    /// Most bytes the pool may hold.
    pub limit: u64,
    /// What was tried and what each step yielded.
    pub recovery: Recovery,
    /// What the source said last, if it was asked.
    pub source_error: Option<DriverError>,
}

/// What else there is in the sum of the bytes held, as text; nothing if there is nothing else.
struct Elsewhere {
    in_transit: u64,
    suspended: u64,
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.in_transit > 0 {
            write!(f, " + {} in transit", self.in_transit)?;
        }
        if self.suspended > 0 {
            write!(f, " - {} suspended", self.suspended)?;
        }
        Ok(())
    }
}

/// An allocation that was not freed; it is given back to the caller.
#[derive(Debug, Error)]
#[error("{kind}")]
pub struct FreeError {
    /// The allocation, as it was.
    pub allocation: Box<Allocation>,
    /// Why.
    #[source]
    pub kind: FreeErrorKind,
}

/// Why an allocation was not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FreeErrorKind {
    /// It belongs to another pool.
    #[error("the allocation belongs to {belongs:?}, not to {asked:?}")]
    ForeignPool {
        /// Where it belongs.
        belongs: PoolId,
        /// The pool asked to free it.
        asked: PoolId,
    },
    /// The pool does not know it: a defect of the pool.
    #[error("the pool has no such allocation")]
    Unknown,
}

/// Why a plan cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Its places are not aligned as the pool's allocations are.
    #[error(
        "places of the plan are aligned to {plan} bytes, which is no multiple of the pool's {pool}"
    )]
    Alignment {
        /// Alignment of the plan, in bytes.
        plan: u64,
        /// Alignment of the pool, in bytes.
        pool: u64,
    },
    /// With what is live beside the plan's region, the pool would hold more than it ever did: its holes and idle
    /// Blocks do not suffice.
    #[error(
        "for a region of {height} bytes beside {live} live the pool would hold more than the {peak_held} it held at most"
    )]
    NoRoom {
        /// Bytes of the region.
        height: u64,
        /// Bytes in use now.
        live: u64,
        /// Most bytes the pool ever held.
        peak_held: u64,
    },
    /// The pool does not have as much memory in one piece.
    #[error("the pool has no region for the plan")]
    Memory(#[source] AllocError),
}

/// Allocations that were not suspended; they are given back to the caller.
#[derive(Debug, Error)]
#[error("{kind}")]
pub struct SuspendError {
    /// All of them, as they were.
    pub allocations: Vec<Allocation>,
    /// Why.
    #[source]
    pub kind: SuspendErrorKind,
}

/// Why allocations were not suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SuspendErrorKind {
    /// The pool holds Blocks, and a Block's addresses go with its memory.
    #[error("without virtual addressing no memory can go and keep its address")]
    NoVirtualAddressing,
    /// One of them belongs to another pool.
    #[error("an allocation belongs to {belongs:?}, not to {asked:?}")]
    ForeignPool {
        /// Where it belongs.
        belongs: PoolId,
        /// The pool asked to suspend it.
        asked: PoolId,
    },
    /// A command that uses one of them is not complete. Wait for it and ask again.
    #[error("the use at {pending:?} is not complete")]
    InUse {
        /// The use.
        pending: Timepoint,
    },
}

/// Allocations that are still suspended; they are given back to the caller.
#[derive(Debug, Error)]
#[error("{kind}")]
pub struct ResumeError {
    /// What is still suspended; some of its pages may have come back.
    pub suspended: Box<Suspended>,
    /// Why.
    #[source]
    pub kind: ResumeErrorKind,
}

/// Why allocations were not resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResumeErrorKind {
    /// They belong to another pool.
    #[error("what is suspended belongs to {belongs:?}, not to {asked:?}")]
    ForeignPool {
        /// Where it belongs.
        belongs: PoolId,
        /// The pool asked to resume it.
        asked: PoolId,
    },
    /// The pool's limit leaves no room for the pages. Freeing memory helps.
    #[error("{missing} bytes of pages are missing, with {held} held of a limit of {limit}")]
    NoRoom {
        /// Bytes of the pages that are missing.
        missing: u64,
        /// Bytes held.
        held: u64,
        /// Most bytes the pool may hold.
        limit: u64,
    },
    /// The source failed.
    #[error("the source of pages failed")]
    Driver(#[from] DriverError),
}
