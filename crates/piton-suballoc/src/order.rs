//! The order of stamps: a doubly linked list through the free extents of a lane's domain, oldest first.
//!
//! Stamps never decrease along the list, so everything up to a stamp is a prefix and can be given up without looking
//! at the rest. An extent that arrives with a stamp below the newest takes the newest's: that keeps insertion O(1)
//! and errs on the safe side (given up later, never earlier). The domain's own users do not look at stamps at all.

use crate::bins::Bins;
use crate::records::{NIL, Records};

/// Appends `index` as the newest extent.
#[inline]
pub(crate) fn append(bins: &mut Bins, records: &mut Records, index: u32, stamp: u64) {
    let newest = bins.newest;
    let stamp = if newest == NIL {
        bins.oldest = index;
        stamp
    } else {
        let last = records.order_mut(newest);
        last.next = index;
        last.stamp.max(stamp)
    };
    let order = records.order_mut(index);
    order.prev = newest;
    order.next = NIL;
    order.stamp = stamp;
    bins.newest = index;
}

/// Puts `index`, cut off `whole`, just before it and with its stamp.
#[inline]
pub(crate) fn insert_part(bins: &mut Bins, records: &mut Records, index: u32, whole: u32) {
    let mut order = *records.order(whole);
    let prev = order.prev;
    order.next = whole;
    *records.order_mut(index) = order;
    records.order_mut(whole).prev = index;
    if prev == NIL {
        bins.oldest = index;
    } else {
        records.order_mut(prev).next = index;
    }
}

/// Takes `index` out.
#[inline]
pub(crate) fn remove(bins: &mut Bins, records: &mut Records, index: u32) {
    let order = *records.order(index);
    match order.prev {
        NIL => bins.oldest = order.next,
        prev => records.order_mut(prev).next = order.next,
    }
    match order.next {
        NIL => bins.newest = order.prev,
        next => records.order_mut(next).prev = order.prev,
    }
}
