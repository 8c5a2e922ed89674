//! The two fast paths: serving a request from the front of its lane, and shelving a freed chunk there.

use super::shelf::{Front, shelf_of};
use super::{Cell, Item, MOST_EACH};
use crate::allocation::{Allocation, Taken};
use crate::pool::DevicePool;
use crate::request::Request;
use crate::reuse::LastUse;
use piton_timeline::LaneId;

impl DevicePool {
    /// Memory that the request's lane freed, of just the size asked for.
    #[inline]
    pub(crate) fn take_from_front(&self, request: &Request) -> Option<Taken> {
        let lane = request.lane?;
        let cell = self.fronts.of(lane)?;
        let hint = cell.hint(request.bytes);
        if !hint.has(request.bytes) {
            hint.want(request.bytes);
            return None;
        }
        if request.align > self.settings.unit {
            return None;
        }
        let mut inside = cell.gate.try_enter()?;
        let item = inside.with(|front| front.take(lane, request.bytes, cell, &self.fronts))?;
        drop(inside);
        self.directory.renew(item.id, lane, request.tag);
        Some(Taken {
            own: item.seq,
            padding: item.rounded - request.bytes,
            ptr: item.ptr,
            id: item.id,
            region: item.region,
        })
    }

    /// Shelves an allocation whose last use is known to be on its own lane, if it is likely to be asked for again.
    #[inline]
    pub(crate) fn give_to_front(&self, allocation: &Allocation, last: LastUse) -> bool {
        if allocation.rounded_bytes() > MOST_EACH {
            return false;
        }
        let Some(lane) = allocation.lane() else {
            return false;
        };
        let seq = match last {
            LastUse::None => 0,
            LastUse::At(point) if point.lane == lane => point.seq,
            LastUse::At(_) | LastUse::Several => return false,
        };
        let Some(cell) = self.fronts.of(lane) else {
            return false;
        };
        let hint = cell.hint(allocation.bytes);
        if !hint.welcomes(allocation.bytes) {
            return false;
        }
        let item = Item {
            id: allocation.id,
            ptr: allocation.ptr,
            rounded: allocation.rounded_bytes(),
            seq,
            region: allocation.region(),
        };
        let inside = cell.gate.try_enter();
        inside.is_some_and(|mut inside| {
            inside.with(|front| self.shelve(cell, front, lane, allocation.bytes, item))
        })
    }

    #[inline]
    fn shelve(&self, cell: &Cell, front: &mut Front, lane: LaneId, bytes: u64, item: Item) -> bool {
        let is_full = front.stock.rounded + item.rounded > self.fronts.most_bytes;
        if is_full || self.fronts.is_closed() || !front.serves(lane) {
            return false;
        }
        let crowd = front.crowd(bytes);
        if crowd > 0 {
            self.unshelve(cell, front, shelf_of(bytes), crowd);
        }
        self.directory.retire(item.id);
        front.put(lane, bytes, item, cell, &self.fronts.pulse);
        true
    }
}
