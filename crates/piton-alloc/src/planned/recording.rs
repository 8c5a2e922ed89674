//! Recording one step of a program in the pool that serves it.

use std::collections::HashMap;

use piton_driver::DevicePtr;
use piton_plan::Recorder;
use piton_timeline::LaneId;

use crate::allocation::Allocation;

/// A step that is recorded, and the one after, in which its last blocks are freed.
#[derive(Debug, Default)]
pub(super) struct Recording {
    recorder: Recorder,
    /// Numbers of the step's blocks that are live, by address.
    live: HashMap<DevicePtr, u32>,
    steps_ended: u32,
}

impl Recording {
    pub(super) fn begin_step(&mut self) {
        // Begun before the first request, it is the beginning of the step itself.
        if self.recorder.is_empty() {
            return;
        }
        self.recorder.end_step();
        self.steps_ended += 1;
    }

    /// Notes what was handed out. A step of more requests than a plan has is recorded as far as it goes.
    pub(super) fn allocated(&mut self, allocation: &Allocation) {
        if self.steps_ended > 1 {
            return;
        }
        let noted = self
            .recorder
            .request(allocation.bytes(), stream_of(allocation.lane()));
        if let Ok(Some(number)) = noted {
            self.live.insert(allocation.ptr(), number);
        }
    }

    pub(super) fn freed(&mut self, allocation: &Allocation) {
        if self.steps_ended > 1 {
            return;
        }
        if let Some(number) = self.live.remove(&allocation.ptr()) {
            let freed = self.recorder.free(number);
            debug_assert!(freed.is_ok(), "it is live: {freed:?}");
        }
    }

    pub(super) fn into_recorder(self) -> Recorder {
        self.recorder
    }
}

/// The number of a lane in a plan: its slot, which the next lane in its place has as well.
pub(super) fn stream_of(lane: Option<LaneId>) -> u32 {
    lane.map_or(u32::MAX, |lane| lane.index)
}
