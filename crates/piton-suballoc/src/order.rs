//! The order of stamps: a doubly linked list through the free extents of a lane's domain, oldest first.
//!
//! Stamps never decrease along the list, so everything up to a stamp is a prefix and can be given up without looking
//! at the rest. An extent that arrives with a stamp below the newest takes the newest's: that keeps insertion O(1)
//! and errs on the safe side (given up later, never earlier). Stamp 0 says that an extent waits for nothing: it comes
//! first and keeps its stamp. The domain's own users do not look at stamps at all.

use std::hint::select_unpredictable;

use crate::bins::Bins;
use crate::records::{NIL, Order, Records};

/// Puts `index` behind the newest extent, or before the oldest if it waits for nothing.
#[inline]
pub(crate) fn insert(bins: &mut Bins, records: &mut Records, index: u32, stamp: u64) {
    let newest = bins.newest;
    let last = records.order_mut(newest);
    if stamp == 0 && last.stamp != 0 {
        return prepend(bins, records, index);
    }
    last.next = index;
    let stamp = last.stamp.max(stamp);
    *records.order_mut(index) = Order {
        prev: newest,
        next: NIL,
        stamp,
    };
    bins.newest = index;
    bins.oldest = select_unpredictable(newest == NIL, index, bins.oldest);
}

/// Makes `index` the oldest extent, with stamp 0.
#[cold]
fn prepend(bins: &mut Bins, records: &mut Records, index: u32) {
    let oldest = bins.oldest;
    records.order_mut(oldest).prev = index;
    *records.order_mut(index) = Order {
        prev: NIL,
        next: oldest,
        stamp: 0,
    };
    bins.oldest = index;
}

/// Puts `index`, cut off `whole`, just before it and with its stamp.
#[inline]
pub(crate) fn insert_part(bins: &mut Bins, records: &mut Records, index: u32, whole: u32) {
    let mut order = *records.order(whole);
    let prev = order.prev;
    order.next = whole;
    *records.order_mut(index) = order;
    records.order_mut(whole).prev = index;
    records.order_mut(prev).next = index;
    bins.oldest = select_unpredictable(prev == NIL, index, bins.oldest);
}

/// Puts `index` where `whole` is, and with its stamp.
#[inline]
pub(crate) fn replace(bins: &mut Bins, records: &mut Records, index: u32, whole: u32) {
    let order = *records.order(whole);
    *records.order_mut(index) = order;
    link(bins, records, order.prev, index, index, order.next);
}

/// Takes `index` out.
#[inline(always)]
pub(crate) fn remove(bins: &mut Bins, records: &mut Records, index: u32) {
    let Order { prev, next, .. } = *records.order(index);
    link(bins, records, prev, next, prev, next);
}

/// After `prev` comes `after`, and before `next` comes `before`.
#[inline(always)]
fn link(bins: &mut Bins, records: &mut Records, prev: u32, after: u32, before: u32, next: u32) {
    records.order_mut(prev).next = after;
    records.order_mut(next).prev = before;
    bins.oldest = select_unpredictable(prev == NIL, after, bins.oldest);
    bins.newest = select_unpredictable(next == NIL, before, bins.newest);
}
