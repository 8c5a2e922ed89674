//! Giving a region back to the pool: what is free of it at once, and what is live as allocations of the pool.

use super::serving::PartState;
use super::{Detached, Planned, State};
use crate::request::Request;
use crate::reuse::Disposal;
use crate::split::CutOff;

impl Planned {
    /// Gives the region back. The plan stays.
    pub(super) fn let_go(&self, state: &mut State) {
        let Some(serving) = state.serving.take() else {
            return;
        };
        let timeline = self.pool.timeline();
        let parts = serving.parts(timeline);
        let region = serving.into_region();
        let (range, place) = (region.range(), region.region());
        let mut rest = Some(region);
        for part in parts {
            let Some(whole) = rest.take() else { break };
            let fate = match &part.state {
                PartState::Free(uses) => CutOff::Free(Disposal::of(uses, place, timeline)),
                PartState::Live(asked) => CutOff::Live(Request {
                    bytes: asked.bytes,
                    align: 1,
                    lane: asked.lane,
                    tag: asked.tag,
                }),
            };
            let Ok((cut, behind)) = self.pool.cut_off(whole, part.bytes, fate) else {
                // Cannot be: the region is live and the parts lie in it. What is left of it stays allocated.
                debug_assert!(false, "a region is cut along its plan");
                break;
            };
            rest = behind;
            if let (Some(inside), PartState::Live(asked)) = (cut, part.state) {
                let block = Detached { inside, asked };
                state.detached.insert(block.inside.ptr(), block);
            }
        }
        if let Some(rest) = rest {
            let bytes = rest.bytes();
            let fate = CutOff::Free(Disposal::Anyone);
            let cut = self.pool.cut_off(rest, bytes, fate);
            debug_assert!(cut.is_ok(), "nobody has what is behind the plan");
        }
        self.pool.note_plan_ended(range);
    }
}
