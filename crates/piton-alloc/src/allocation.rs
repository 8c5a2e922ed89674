//! The handle of an allocation, and what a look-up by address tells.

#![expect(unsafe_code, reason = "that a lane has waited is an unsafe promise")]

use std::sync::OnceLock;

use piton_driver::{DevicePtr, DeviceRange};
use piton_suballoc::ExtentId;
use piton_timeline::{Frontier, LaneId, Timepoint};

use crate::adaptor::Tag;
use crate::lane_word::LaneWord;
use crate::region::Region;
use crate::request::Request;

/// The identity of a pool: a random number, so that an allocation of a pool that is gone is not mistaken for another
/// pool's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(pub(crate) u64);

/// A Chunk of device memory, owned by whoever holds this handle until it is given back with
/// [`DevicePool::free`](crate::DevicePool::free).
///
/// Dropping the handle does not free the memory: only its user knows when that is allowed, and says so with the
/// frontier of last uses. The memory of a dropped handle stays allocated for as long as the source lives.
#[derive(Debug)]
#[must_use = "an allocation that is not given back stays allocated"]
pub struct Allocation {
    pub(crate) pool: PoolId,
    pub(crate) id: ExtentId,
    pub(crate) ptr: DevicePtr,
    pub(crate) bytes: u64,
    pub(crate) about: About,
    /// The seq of its own lane's last use of the memory before; 0 if there is none.
    pub(crate) own: u64,
    /// What other lanes did with it, which is rare: so that a handle is small.
    pub(crate) others: Option<Box<OtherUses>>,
}

// A program keeps thousands of them and touches one at each allocation and free: one line of the cache, and no more.
const _: () = assert!(size_of::<Allocation>() == 64);

/// What else is known of an allocation, in two words.
#[derive(Clone, Copy)]
pub(crate) struct About {
    lane: LaneWord,
    /// The tag, above it the padding, above that the region and whether there is a tag.
    rest: u64,
}

const PADDING_BITS: u32 = 30;
const REGION_BIT: u32 = u32::BITS + PADDING_BITS;
const TAG_BIT: u32 = REGION_BIT + 1;

impl About {
    /// Most bytes that rounding may add.
    pub(crate) const MOST_PADDING: u64 = (1 << PADDING_BITS) - 1;

    /// `padding` is at most [`MOST_PADDING`](Self::MOST_PADDING).
    #[inline(always)]
    pub(crate) fn new(
        region: Region,
        padding: u64,
        lane: Option<LaneId>,
        tag: Option<Tag>,
    ) -> Self {
        debug_assert!(padding <= Self::MOST_PADDING);
        let padding = padding.min(Self::MOST_PADDING);
        let (number, has_tag) = tag.map_or((0, 0), |tag| (tag.0, 1));
        Self {
            lane: LaneWord::new(lane),
            rest: u64::from(number)
                | padding << u32::BITS
                | (region as u64) << REGION_BIT
                | has_tag << TAG_BIT,
        }
    }

    #[inline]
    const fn tag(self) -> Option<Tag> {
        #[expect(clippy::cast_possible_truncation, reason = "the tag is the lower half")]
        let number = self.rest as u32;
        if self.rest >> TAG_BIT & 1 == 1 {
            Some(Tag(number))
        } else {
            None
        }
    }

    #[inline]
    const fn padding(self) -> u64 {
        self.rest >> u32::BITS & Self::MOST_PADDING
    }

    #[inline]
    const fn region(self) -> Region {
        if self.rest >> REGION_BIT & 1 == Region::Small as u64 {
            Region::Small
        } else {
            Region::Large
        }
    }
}

impl std::fmt::Debug for About {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("About")
            .field("lane", &self.lane)
            .field("tag", &self.tag())
            .field("padding", &self.padding())
            .field("region", &self.region())
            .finish()
    }
}

/// What the pool adds to a request to make an allocation of it, where no other lane used the memory.
///
/// Calls that hand memory out return this, and the handle is made where the program's own code calls the pool: a handle that
/// is written in words and then moved as a whole waits for its stores. What lies side by side in the handle does not
/// here, so that this is read in words too.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Taken {
    pub(crate) ptr: DevicePtr,
    /// The seq of the lane's last use of the memory before; 0 if there is none.
    pub(crate) own: u64,
    pub(crate) id: ExtentId,
    pub(crate) padding: u64,
    pub(crate) region: Region,
}

impl Taken {
    #[inline(always)]
    pub(crate) fn handle(self, pool: PoolId, request: &Request) -> Allocation {
        Allocation {
            pool,
            id: self.id,
            ptr: self.ptr,
            bytes: request.bytes,
            about: About::new(self.region, self.padding, request.lane, request.tag),
            own: self.own,
            others: None,
        }
    }
}

/// Uses by other lanes than its own, not known complete when an allocation was handed out.
#[derive(Debug)]
pub(crate) struct OtherUses {
    /// Those its lane waits for.
    pub(crate) wait: Frontier,
    /// All of them: those waited for, those its lane is ordered behind, and its own.
    pub(crate) earlier: Frontier,
    /// The seq of its lane from which on it has come behind them, where somebody vouches for that.
    waited_at: Option<u64>,
}

impl OtherUses {
    /// Of the pending uses of memory, those of the taker's own lane as a seq, and the others.
    pub(crate) fn split(
        lane: Option<LaneId>,
        wait: Frontier,
        earlier: Frontier,
    ) -> (u64, Option<Box<Self>>) {
        match (earlier.points(), lane) {
            ([], _) => (0, None),
            ([point], Some(lane)) if point.lane == lane && wait.is_empty() => (point.seq, None),
            _ => (0, Some(Box::new(Self::new(wait, earlier)))),
        }
    }

    fn new(wait: Frontier, earlier: Frontier) -> Self {
        Self {
            wait,
            earlier,
            waited_at: None,
        }
    }

    /// Whether somebody vouches that a point of its lane lies behind all of them.
    pub(crate) fn is_waited_at(&self, point: Timepoint) -> bool {
        self.waited_at.is_some_and(|seq| point.seq >= seq)
    }
}

// GLOBAL: the wait of an allocation that has none: empty, and never changed.
static NOTHING: OnceLock<Frontier> = OnceLock::new();

impl Allocation {
    /// The address of the first byte.
    #[must_use]
    pub const fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    /// The bytes that were asked for.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes that belong to it: those asked for, rounded up.
    #[must_use]
    pub const fn rounded_bytes(&self) -> u64 {
        self.bytes + self.about.padding()
    }

    /// The bytes asked for, as a range.
    #[must_use]
    pub const fn range(&self) -> DeviceRange {
        DeviceRange {
            start: self.ptr,
            bytes: self.bytes,
        }
    }

    /// Its identity among the live allocations of its pool. Look-ups by address return it.
    #[must_use]
    pub fn id(&self) -> AllocationId {
        AllocationId::new(self.pool, self.id)
    }

    /// The pool it came from.
    #[must_use]
    pub const fn pool(&self) -> PoolId {
        self.pool
    }

    /// The lane it was allocated for.
    #[inline]
    #[must_use]
    pub const fn lane(&self) -> Option<LaneId> {
        self.about.lane.get()
    }

    /// Whether it was allocated for this lane.
    #[inline]
    pub(crate) fn is_on(&self, lane: LaneId) -> bool {
        self.about.lane == LaneWord::new(Some(lane))
    }

    /// The tag of the request, if it had one.
    #[must_use]
    pub const fn tag(&self) -> Option<Tag> {
        self.about.tag()
    }

    /// Where its memory belongs.
    #[inline]
    pub(crate) const fn region(&self) -> Region {
        self.about.region()
    }

    /// The points that the lane must wait for before it touches the memory. Enqueue these waits at once, before
    /// anything else on the lane. Usually empty.
    #[must_use]
    pub fn wait(&self) -> &Frontier {
        match &self.others {
            Some(others) => &others.wait,
            None => NOTHING.get_or_init(Frontier::new),
        }
    }

    /// Says that its lane has come behind the [wait](Self::wait): from then on last uses on the lane, at `place` or later, stand
    /// for what the memory was used for before. Without this the pool believes what its timeline's clock knows
    /// ([`Lane::note_wait`](piton_timeline::Lane::note_wait)), and keeps the earlier uses where that knows of no order.
    ///
    /// # Safety
    /// When `place`, which is the lane's, has ended, all points of the wait have, and all that the lane was known to be ordered
    /// behind when the memory was handed out.
    pub unsafe fn assume_waited(&mut self, place: Timepoint) {
        if let Some(others) = &mut self.others
            && self.about.lane == LaneWord::new(Some(place.lane))
        {
            others.waited_at = Some(place.seq);
        }
    }

    /// Its lane's last use of the memory before it was handed out.
    #[inline]
    pub(crate) fn own_use(&self) -> Option<Timepoint> {
        let lane = self.lane().filter(|_| self.own > 0)?;
        Some(Timepoint {
            lane,
            seq: self.own,
        })
    }
}

/// The identity of an allocation among the live ones of a pool. Memory that a lane gets again may have the identity
/// it had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllocationId {
    pub(crate) pool: PoolId,
    pub(crate) number: u32,
    pub(crate) state: u32,
}

impl AllocationId {
    pub(crate) fn new(pool: PoolId, id: ExtentId) -> Self {
        let (number, state) = id.parts();
        Self {
            pool,
            number,
            state,
        }
    }
}

/// The allocation that contains an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationInfo {
    /// Which allocation: that of [`Allocation::id`].
    pub id: AllocationId,
    /// First byte of the allocation.
    pub ptr: DevicePtr,
    /// Bytes from there to the address.
    pub offset: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that belong to it.
    pub rounded_bytes: u64,
    /// The lane it was allocated for.
    pub lane: Option<LaneId>,
    /// What it was said to be for.
    pub tag: Option<Tag>,
    /// The Block, or range of addresses, it lies in.
    pub block: DeviceRange,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back_whole() {
        let lane = Some(LaneId {
            index: 9,
            generation: 4,
        });
        for padding in [0, 511, About::MOST_PADDING] {
            for region in Region::ALL {
                for (lane, tag) in [
                    (None, None),
                    (lane, Some(Tag(u32::MAX))),
                    (lane, Some(Tag(0))),
                ] {
                    let about = About::new(region, padding, lane, tag);
                    assert_eq!(about.padding(), padding);
                    assert_eq!(about.region(), region);
                    assert_eq!((about.lane.get(), about.tag()), (lane, tag));
                }
            }
        }
    }
}
