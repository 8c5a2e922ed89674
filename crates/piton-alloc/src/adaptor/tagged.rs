//! Bytes in use by tag, with a limit for each.

use std::collections::BTreeMap;

use piton_timeline::Frontier;

use super::quota::{Quota, Usage};
use super::{MemoryPool, pass_on};
use crate::allocation::Allocation;
use crate::error::{AllocError, FreeError};
use crate::request::Request;

/// What memory is for: a number of the program's own ([`Request::tagged`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u32);

/// A pool that counts what each tag uses of it, and keeps each tag within its limit.
///
/// Requests without a tag, or with a tag that was not named when the adaptor was made, are counted together and not
/// limited: a library may tag its requests without its user knowing.
#[derive(Debug)]
pub struct Tagged<P> {
    pool: P,
    /// Never changed, so that nobody locks it.
    quotas: BTreeMap<Tag, Quota>,
    others: Quota,
}

impl<P: MemoryPool> Tagged<P> {
    /// Wraps `pool` and counts the named tags, each with the most bytes that may be in use for it (`u64::MAX`: count
    /// only). If a tag is named twice, the last limit holds.
    pub fn new(pool: P, limits: impl IntoIterator<Item = (Tag, u64)>) -> Self {
        let quotas = limits
            .into_iter()
            .map(|(tag, limit)| (tag, Quota::new(limit)));
        Self {
            pool,
            quotas: quotas.collect(),
            others: Quota::new(u64::MAX),
        }
    }

    /// What is in use for a tag that was named; `None` for any other.
    pub fn usage(&self, tag: Tag) -> Option<Usage> {
        self.quotas.get(&tag).map(Quota::usage)
    }

    /// What is in use for every tag that was named, in the order of their numbers.
    pub fn usages(&self) -> impl Iterator<Item = (Tag, Usage)> {
        self.quotas.iter().map(|(tag, quota)| (*tag, quota.usage()))
    }

    /// What is in use without a tag, or for tags that were not named.
    pub fn other_usage(&self) -> Usage {
        self.others.usage()
    }

    /// The pool inside.
    pub fn inner(&self) -> &P {
        &self.pool
    }

    fn quota(&self, tag: Option<Tag>) -> &Quota {
        let named = tag.and_then(|tag| self.quotas.get(&tag));
        named.unwrap_or(&self.others)
    }
}

impl<P: MemoryPool> MemoryPool for Tagged<P> {
    fn allocate(&self, request: Request) -> Result<Allocation, AllocError> {
        let quota = self.quota(request.tag);
        quota.allocate(&self.pool, request, |in_use| {
            let (requested, limit) = (request.bytes, quota.limit());
            match request.tag {
                Some(tag) => AllocError::TagLimitReached {
                    tag,
                    requested,
                    in_use,
                    limit,
                },
                None => AllocError::LimitReached {
                    requested,
                    in_use,
                    limit,
                },
            }
        })
    }

    fn free(&self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError> {
        let quota = self.quota(allocation.tag());
        quota.free(&self.pool, allocation, last_uses)
    }

    pass_on!();
}
