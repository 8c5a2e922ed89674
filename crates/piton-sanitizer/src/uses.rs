//! From what a command touches to uses that shadow memory keeps: with the place, the operation and the origin of
//! whoever does it.

use crate::{Effect, Footprint, Space, lane::Step, shadow::Use};
use piton_driver::{DevicePtr, DeviceRange, Operation, Origin};
use piton_timeline::Timepoint;
use std::sync::Arc;

/// Who touches memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doer<'a> {
    pub(crate) point: Timepoint,
    pub(crate) label: Option<&'a Arc<str>>,
    pub(crate) operation: Operation,
    pub(crate) origin: Origin,
}

/// How far memory reaches from an address, where somebody knows.
pub(crate) type Reach<'a> = &'a dyn Fn(Space, DevicePtr) -> Option<u64>;

impl Doer<'_> {
    /// The uses that a footprint is; `None` for one of which nobody knows how far it reaches.
    pub(crate) fn uses(self, footprint: &Footprint, reach: Reach<'_>) -> Vec<Option<Use>> {
        let runs = footprint.touched().iter();
        let used = |touched: &crate::Touched| {
            let known = || reach(touched.space, touched.start);
            Some(Use {
                point: self.point,
                label: self.label.cloned(),
                operation: self.operation,
                origin: self.origin,
                access: touched.access,
                space: touched.space,
                range: DeviceRange {
                    start: touched.start,
                    bytes: touched.bytes.or_else(known)?,
                },
            })
        };
        runs.map(used).collect()
    }
}

impl Step {
    /// What the command uses at its place. A graph's nodes are named each by their own operation and origin.
    pub(crate) fn uses(
        &self,
        point: Timepoint,
        label: Option<&Arc<str>>,
        reach: Reach<'_>,
    ) -> Vec<Option<Use>> {
        let doer = |operation, origin| Doer {
            point,
            label,
            operation,
            origin,
        };
        match &self.effect {
            Effect::Touches(footprint) => doer(self.operation, self.origin).uses(footprint, reach),
            Effect::Runs(graph) => {
                let parts = graph.parts().iter();
                let uses = parts
                    .map(|part| doer(part.operation, part.origin).uses(&part.footprint, reach));
                uses.flatten().collect()
            }
            _ => Vec::new(),
        }
    }
}
