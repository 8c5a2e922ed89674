//! Requests that fail on purpose, to see what a program does then.

use piton_sync::atomic::{AtomicU64, Ordering};
use piton_timeline::Frontier;

use super::{MemoryPool, pass_on};
use crate::allocation::Allocation;
use crate::error::{AllocError, FreeError};
use crate::request::Request;

/// Which requests fail. Requests are counted from 1, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailWhen {
    /// Only the request with this number. 0: none.
    Nth(u64),
    /// Each request whose number is a multiple of this. 0: none.
    Every(u64),
    /// Each request of at least this many bytes.
    AtLeast(u64),
    /// About this many in a thousand; the same ones for the same seed.
    PerThousand {
        /// Of a thousand.
        share: u32,
        /// Another seed chooses other requests.
        seed: u64,
    },
}

impl FailWhen {
    fn hits(self, call: u64, bytes: u64) -> bool {
        match self {
            Self::Nth(number) => call == number,
            Self::Every(number) => number > 0 && call.is_multiple_of(number),
            Self::AtLeast(least) => bytes >= least,
            Self::PerThousand { share, seed } => {
                mixed(call.wrapping_add(seed)) % 1000 < u64::from(share)
            }
        }
    }
}

/// SplitMix64's output function (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014), of the
/// `number`-th state.
fn mixed(number: u64) -> u64 {
    let state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// A pool some of whose requests fail on purpose with [`AllocError::Injected`], without reaching the pool inside.
#[derive(Debug)]
pub struct Failing<P> {
    pool: P,
    when: FailWhen,
    calls: AtomicU64,
}

impl<P: MemoryPool> Failing<P> {
    /// Wraps `pool`; requests fail as `when` says.
    pub fn new(pool: P, when: FailWhen) -> Self {
        Self {
            pool,
            when,
            calls: AtomicU64::new(0),
        }
    }

    /// How many requests have come.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The pool inside.
    pub fn inner(&self) -> &P {
        &self.pool
    }
}

impl<P: MemoryPool> MemoryPool for Failing<P> {
    fn allocate(&self, request: Request) -> Result<Allocation, AllocError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if self.when.hits(call, request.bytes) {
            return Err(AllocError::Injected { call });
        }
        self.pool.allocate(request)
    }

    fn free(&self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError> {
        self.pool.free(allocation, last_uses)
    }

    pass_on!();
}
