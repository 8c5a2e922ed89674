//! Splits a copy over routes so that all parts end together.

use super::{Stripe, StripeOptions, StripePlan};
use crate::quantity::{BytesPerSec, Nanos};

const GIGA: u128 = 1_000_000_000;

/// Of the whole rate, how many thousandths may be left out to save routes.
pub(super) const LEFT_OUT: u128 = 20;

/// The plan over the best of `roads`, which are sorted by rate; `None` if there are none. Of the whole rate,
/// `left_out` thousandths may go.
pub(super) fn split(
    mut roads: Vec<Stripe>,
    bytes: u64,
    options: &StripeOptions,
    left_out: u128,
) -> Option<StripePlan> {
    let alone = quickest(&roads, bytes)?;
    if bytes < options.floor || roads.len() == 1 {
        return Some(one(roads.swap_remove(alone), bytes));
    }
    drop_narrow(&mut roads, left_out);
    drop_late(&mut roads, bytes);
    let time = common_time(&roads, bytes);
    let road = &roads[quickest(&roads, bytes)?];
    if roads.len() == 1 || time_on(road, bytes) <= time {
        let quickest = quickest(&roads, bytes)?;
        return Some(one(roads.swap_remove(quickest), bytes));
    }
    give_shares(&mut roads, bytes, time, options.align.max(1));
    roads.retain(|road| road.bytes > 0);
    let last = roads.iter().map(|road| time_on(road, road.bytes)).max();
    Some(StripePlan {
        stripes: roads,
        time: last.unwrap_or(time),
    })
}

fn time_on(road: &Stripe, bytes: u64) -> Nanos {
    road.delay.saturating_add(road.rate.duration_of(bytes))
}

fn quickest(roads: &[Stripe], bytes: u64) -> Option<usize> {
    (0..roads.len()).min_by_key(|road| time_on(&roads[*road], bytes))
}

fn one(mut road: Stripe, bytes: u64) -> StripePlan {
    road.bytes = bytes;
    StripePlan {
        time: time_on(&road, bytes),
        stripes: vec![road],
    }
}

fn total(roads: &[Stripe]) -> u128 {
    roads.iter().map(|road| u128::from(road.rate.get())).sum()
}

/// Drops the narrowest roads while all that are dropped stay below `left_out` thousandths.
fn drop_narrow(roads: &mut Vec<Stripe>, left_out: u128) {
    let may_go = total(roads) * left_out / 1_000;
    let mut gone = 0;
    while let Some(last) = roads.last() {
        gone += u128::from(last.rate.get());
        if gone > may_go {
            break;
        }
        roads.pop();
    }
}

/// Drops roads on which nothing would have arrived when the others are done.
fn drop_late(roads: &mut Vec<Stripe>, bytes: u64) {
    loop {
        let time = common_time(roads, bytes);
        let before = roads.len();
        if before == 1 {
            return;
        }
        roads.retain(|road| road.delay < time);
        if roads.len() == before {
            return;
        }
    }
}

/// The time at which all parts end: what flows by then is the copy.
fn common_time(roads: &[Stripe], bytes: u64) -> Nanos {
    let waited: u128 = roads
        .iter()
        .map(|road| u128::from(road.rate.get()) * u128::from(road.delay.get()))
        .sum();
    let needed = u128::from(bytes)
        .saturating_mul(GIGA)
        .saturating_add(waited);
    let time = needed / total(roads).max(1);
    Nanos::new(u64::try_from(time).unwrap_or(u64::MAX))
}

/// Gives each road but the widest a multiple of `align`, and the widest what is left.
fn give_shares(roads: &mut [Stripe], bytes: u64, time: Nanos, align: u64) {
    let mut left = bytes;
    for road in roads.iter_mut().skip(1) {
        let share = carried(road.rate, time.saturating_sub(road.delay)) / align * align;
        road.bytes = share.min(left);
        left -= road.bytes;
    }
    roads[0].bytes = left;
    let mut offset = 0;
    for road in roads {
        road.offset = offset;
        offset += road.bytes;
    }
}

fn carried(rate: BytesPerSec, time: Nanos) -> u64 {
    let bytes = u128::from(rate.get()) * u128::from(time.get()) / GIGA;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
