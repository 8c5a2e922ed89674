//! Shadow memory: for each byte, who used it and whether it is allocated.
//!
//! # The rule
//! A byte's uses are kept until another use *stands for* them: it comes after, and whatever conflicts with the
//! earlier one conflicts with it. So a write stands for all that it comes after, and a read for the reads that it
//! comes after. What is left is mostly one writer and the readers since; uses that already raced stay beside each
//! other.
//!
//! It follows that for every two uses of a byte that conflict and are not ordered, the later looked at is reported
//! against the earlier or against one that comes after it; and that whatever is reported is so.
//!
//! # Invariants
//! Of the uses of one byte none stands for another.

use crate::{
    Action, Hazard, Report, Site, Space, clock::Clock, interval_map::IntervalMap, lane::Lane,
    node_set::NodeSet,
};
use piton_driver::{Access, DevicePtr, DeviceRange, Operation, Origin};
use piton_timeline::{LaneId, Timepoint};
use smallvec::SmallVec;
use std::{collections::BTreeMap, sync::Arc};

/// One command's use of a run of bytes.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) point: Timepoint,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) operation: Operation,
    pub(crate) origin: Origin,
    pub(crate) access: Access,
    pub(crate) space: Space,
    pub(crate) range: DeviceRange,
}

/// Memory that somebody has: from when it was handed out until it is given back.
#[derive(Debug)]
pub(crate) struct Tenancy {
    pub(crate) space: Space,
    pub(crate) range: DeviceRange,
    /// The place that uses come after, if a stream has a part in it.
    pub(crate) point: Option<Timepoint>,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) origin: Option<Origin>,
}

/// Memory that was given back.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) space: Space,
    pub(crate) range: DeviceRange,
    /// The last uses as they were told; `None` if nobody said.
    pub(crate) last_uses: Option<Vec<Timepoint>>,
    /// Where it had been handed out, or the free itself where that is not known.
    pub(crate) origin: Option<Origin>,
}

/// What is known of a byte's owner.
#[derive(Clone, Debug, Default)]
enum Life {
    /// Nobody said.
    #[default]
    Unknown,
    /// Somebody has it; before, somebody else may have had it.
    Live(Arc<Tenancy>, Option<Arc<Ended>>),
    /// Nobody has it.
    Freed(Arc<Ended>),
}

impl PartialEq for Life {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unknown, Self::Unknown) => true,
            (Self::Live(one, before), Self::Live(other, other_before)) => {
                Arc::ptr_eq(one, other)
                    && before.as_ref().map(Arc::as_ptr) == other_before.as_ref().map(Arc::as_ptr)
            }
            (Self::Freed(one), Self::Freed(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Byte {
    uses: SmallVec<[Arc<Use>; 2]>,
    life: Life,
}

impl PartialEq for Byte {
    fn eq(&self, other: &Self) -> bool {
        let same_uses = self.uses.len() == other.uses.len()
            && self
                .uses
                .iter()
                .zip(&other.uses)
                .all(|(a, b)| Arc::ptr_eq(a, b));
        same_uses && self.life == other.life
    }
}

/// What a command that is being looked at comes after.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Past<'a> {
    /// On a lane of the program.
    Program {
        lane: LaneId,
        clock: &'a Clock,
        /// Lanes that are about: everything comes after the others.
        lanes: &'a BTreeMap<LaneId, Lane>,
    },
    /// A node of a graph, each node being a lane.
    Graph { number: u32, before: &'a NodeSet },
}

impl Past<'_> {
    fn includes(&self, point: Timepoint) -> bool {
        match self {
            Self::Program { lane, clock, lanes } => {
                point.lane == *lane || clock.covers(point) || !lanes.contains_key(&point.lane)
            }
            Self::Graph { number, before } => {
                point.lane.index == *number || before.contains(point.lane.index)
            }
        }
    }

    /// How far along another lane.
    fn along(&self, lane: LaneId) -> Option<u64> {
        match self {
            Self::Program { clock, .. } => clock.get(lane),
            Self::Graph { .. } => None,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    spaces: BTreeMap<Space, IntervalMap<Byte>>,
}

impl Shadow {
    /// What would be reported of a use, which is not noted.
    pub(crate) fn probe(&self, used: &Use, past: Past<'_>, met: &mut Vec<Report>) {
        let Some((start, end)) = bounds(used.range) else {
            return;
        };
        if let Some(bytes) = self.spaces.get(&used.space) {
            for byte in bytes.overlapping(start, end) {
                byte.compare(used, past, met);
            }
        }
    }

    /// Notes a use and tells what is wrong with it.
    pub(crate) fn note(&mut self, used: Use, past: Past<'_>, met: &mut Vec<Report>) {
        self.probe(&used, past, met);
        let Some((start, end)) = bounds(used.range) else {
            return;
        };
        let used = Arc::new(used);
        let bytes = self.spaces.entry(used.space).or_default();
        bytes.update(start, end, |byte| byte.add(&used, past));
    }

    /// Memory is handed out: nobody has used it yet.
    pub(crate) fn hand_out(&mut self, tenancy: Tenancy) {
        let Some((start, end)) = bounds(tenancy.range) else {
            return;
        };
        let bytes = self.spaces.entry(tenancy.space).or_default();
        let tenancy = Arc::new(tenancy);
        bytes.update(start, end, |byte| {
            let before = match std::mem::take(byte).life {
                Life::Freed(ended) => Some(ended),
                Life::Live(_, before) => before,
                Life::Unknown => None,
            };
            byte.life = Life::Live(Arc::clone(&tenancy), before);
        });
    }

    /// Memory is given back; tells which of its uses `after` does not include.
    pub(crate) fn take_back(&mut self, mut ended: Ended, after: &Clock, met: &mut Vec<Report>) {
        let Some((start, end)) = bounds(ended.range) else {
            return;
        };
        let bytes = self.spaces.entry(ended.space).or_default();
        for byte in bytes.overlapping(start, end) {
            if let (Life::Live(tenancy, _), None) = (&byte.life, ended.origin) {
                ended.origin = tenancy.origin;
            }
            if ended.last_uses.is_some() {
                let uncovered = byte.uses.iter().filter(|used| !after.covers(used.point));
                uncovered.for_each(|used| push(met, ended.uncovered(used, after)));
            }
        }
        let ended = Arc::new(ended);
        bytes.update(start, end, |byte| {
            *byte = Byte {
                uses: SmallVec::new(),
                life: Life::Freed(Arc::clone(&ended)),
            };
        });
    }

    /// Nobody knows any more what lies there: the memory went back to the device.
    pub(crate) fn forget(&mut self, space: Space, range: DeviceRange) {
        if let (Some((start, end)), Some(bytes)) = (bounds(range), self.spaces.get_mut(&space)) {
            bytes.update(start, end, |byte| *byte = Byte::default());
        }
    }

    /// From `start` to the end of the allocation it lies in.
    pub(crate) fn reach(&self, space: Space, start: DevicePtr) -> Option<u64> {
        let byte = self.spaces.get(&space)?.get(start.address())?;
        let range = match &byte.life {
            Life::Live(tenancy, _) => tenancy.range,
            Life::Freed(ended) => ended.range,
            Life::Unknown => return None,
        };
        range.end()?.checked_offset_from(start)
    }

    /// Drops uses that everything to come is ordered after.
    pub(crate) fn drop_uses(&mut self, known_to_all: &Clock) {
        for bytes in self.spaces.values_mut() {
            bytes.update_all(|byte| byte.uses.retain(|used| !known_to_all.covers(used.point)));
        }
    }

    /// How many runs of bytes are told apart.
    pub(crate) fn runs(&self) -> usize {
        self.spaces.values().map(IntervalMap::len).sum()
    }

    /// Asserts the invariants of the maps.
    pub(crate) fn check(&self) {
        self.spaces.values().for_each(IntervalMap::check);
    }
}

impl Byte {
    /// Compares a use with what is known of the byte.
    fn compare(&self, used: &Use, past: Past<'_>, met: &mut Vec<Report>) {
        match &self.life {
            Life::Unknown => {}
            Life::Freed(ended) => push(met, ended.used_again(used)),
            Life::Live(tenancy, before) => {
                if let Some(point) = tenancy.point
                    && !past.includes(point)
                {
                    push(met, tenancy.used_early(used, before.as_deref(), past));
                }
            }
        }
        for earlier in &self.uses {
            if let Some(hazard) = conflict(earlier.access, used.access)
                && !past.includes(earlier.point)
            {
                push(met, earlier.raced_by(hazard, used, past));
            }
        }
    }

    /// Keeps a use, which stands for those that it comes after.
    fn add(&mut self, used: &Arc<Use>, past: Past<'_>) {
        self.uses.retain(|earlier| {
            let conflicts_as_much = used.access == Access::Write || earlier.access == Access::Read;
            !(conflicts_as_much && past.includes(earlier.point))
        });
        self.uses.push(Arc::clone(used));
    }
}

fn conflict(first: Access, second: Access) -> Option<Hazard> {
    match (first, second) {
        (Access::Read, Access::Read) => None,
        (Access::Read, Access::Write) => Some(Hazard::ReadWrite),
        (Access::Write, Access::Read) => Some(Hazard::WriteRead),
        (Access::Write, Access::Write) => Some(Hazard::WriteWrite),
    }
}

impl Use {
    fn site(&self) -> Site {
        let action = match self.access {
            Access::Read => Action::Read(self.operation),
            Access::Write => Action::Write(self.operation),
        };
        Site {
            action,
            point: Some(self.point),
            label: self.label.clone(),
            origin: Some(self.origin),
            range: self.range,
        }
    }

    fn raced_by(&self, kind: Hazard, second: &Self, past: Past<'_>) -> Report {
        Report {
            kind,
            space: self.space,
            overlap: overlap(self.range, second.range),
            first: self.site(),
            second: second.site(),
            ordered_up_to: past.along(self.point.lane),
            times: 1,
        }
    }
}

impl Tenancy {
    fn used_early(&self, used: &Use, before: Option<&Ended>, past: Past<'_>) -> Report {
        let allocation = Site {
            action: Action::Allocate,
            point: self.point,
            label: self.label.clone(),
            origin: self.origin,
            range: self.range,
        };
        // Memory that somebody had before: the use may be that one's, late.
        let kind = match before {
            Some(_) => Hazard::UseAfterFree,
            None => Hazard::UseBeforeAllocation,
        };
        Report {
            kind,
            space: self.space,
            overlap: overlap(self.range, used.range),
            first: allocation,
            second: used.site(),
            ordered_up_to: self.point.and_then(|point| past.along(point.lane)),
            times: 1,
        }
    }
}

impl Ended {
    fn site(&self) -> Site {
        Site {
            action: Action::Free,
            point: None,
            label: None,
            origin: self.origin,
            range: self.range,
        }
    }

    fn used_again(&self, used: &Use) -> Report {
        Report {
            kind: Hazard::UseAfterFree,
            space: self.space,
            overlap: overlap(self.range, used.range),
            first: self.site(),
            second: used.site(),
            ordered_up_to: None,
            times: 1,
        }
    }

    fn uncovered(&self, used: &Use, after: &Clock) -> Report {
        Report {
            kind: Hazard::FreeWhileUsed,
            space: self.space,
            overlap: overlap(self.range, used.range),
            first: used.site(),
            second: self.site(),
            ordered_up_to: after.get(used.point.lane),
            times: 1,
        }
    }
}

/// Adds a report unless the same two uses are reported of a neighbouring byte.
fn push(met: &mut Vec<Report>, report: Report) {
    if !met.contains(&report) {
        met.push(report);
    }
}

/// First byte and the one after the last; `None` for nothing, and for what no address space holds.
fn bounds(range: DeviceRange) -> Option<(u64, u64)> {
    let (start, end) = (range.start.address(), range.end()?.address());
    (start < end).then_some((start, end))
}

/// The bytes two ranges share.
fn overlap(one: DeviceRange, other: DeviceRange) -> DeviceRange {
    let start = one.start.max(other.start);
    let end = one.end().min(other.end());
    let bytes = end.and_then(|end| end.checked_offset_from(start));
    DeviceRange {
        start,
        bytes: bytes.unwrap_or_default(),
    }
}
