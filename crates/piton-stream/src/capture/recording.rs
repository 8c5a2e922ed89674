//! What a capture has written down.
//!
//! # Invariants
//! 1. `nodes[n].after` names nodes below n.
//! 2. Each lane of `lanes` has this recording in its slot while `is_open`; the first is where the capture began.
//! 3. `tips` of a lane are nodes that the lane's next node comes after; what they come after need not be in it.

use super::{CaptureError, Offence};
use crate::lane_state::LaneState;
use piton_driver::{DeviceId, GraphNode, NodeWork, Origin};
use piton_sync::Mutex;
use piton_timeline::LaneId;
use std::{
    fmt, mem,
    sync::{Arc, Weak},
};

struct Member {
    lane: LaneId,
    state: Weak<LaneState>,
    tips: Vec<u32>,
    entered: Origin,
}

struct State {
    nodes: Vec<GraphNode>,
    lanes: Vec<Member>,
    /// The first offence.
    spoilt: Option<CaptureError>,
    is_open: bool,
}

/// See the module.
pub(crate) struct Recording {
    device: DeviceId,
    state: Mutex<State>,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Recording")
            .field("nodes", &state.nodes.len())
            .field("lanes", &state.lanes.len())
            .field("spoilt", &state.spoilt)
            .finish_non_exhaustive()
    }
}

impl Recording {
    /// A recording of the lane's work from now on.
    pub(crate) fn begin(first: &Arc<LaneState>, entered: Origin) -> Arc<Self> {
        let member = Member {
            lane: first.id(),
            state: Arc::downgrade(first),
            tips: Vec::new(),
            entered,
        };
        Arc::new(Self {
            device: first.device(),
            state: Mutex::new(State {
                nodes: Vec::new(),
                lanes: vec![member],
                spoilt: None,
                is_open: true,
            }),
        })
    }

    /// Writes a node down behind the lane's last ones; returns its number.
    pub(crate) fn add(
        &self,
        lane: LaneId,
        work: NodeWork,
        origin: Origin,
    ) -> Result<u32, CaptureError> {
        let mut state = self.state.lock();
        state.still_good(origin)?;
        let Ok(number) = u32::try_from(state.nodes.len()) else {
            return Err(state.spoil(Offence::TooManyNodes, origin));
        };
        let Some(member) = state.lanes.iter_mut().find(|member| member.lane == lane) else {
            return Err(state.spoil(Offence::OtherCapture, origin));
        };
        let after = mem::replace(&mut member.tips, vec![number]);
        state.nodes.push(GraphNode {
            work,
            after,
            origin,
        });
        Ok(number)
    }

    /// Notes an offence; the first one stays, and is what comes back.
    pub(crate) fn refuse(&self, offence: Offence, place: Origin) -> CaptureError {
        self.state.lock().spoil(offence, place)
    }

    /// Lets the lane take part, in whose slot the recording is now, and orders it behind `tips`.
    pub(crate) fn join(
        &self,
        lane: &Arc<LaneState>,
        tips: &[u32],
        origin: Origin,
    ) -> Result<(), CaptureError> {
        let mut state = self.state.lock();
        state.still_good(origin)?;
        if lane.device() != self.device {
            let device = lane.device();
            return Err(state.spoil(Offence::OtherDevice { device }, origin));
        }
        let id = lane.id();
        if !state.lanes.iter().any(|member| member.lane == id) {
            state.lanes.push(Member {
                lane: id,
                state: Arc::downgrade(lane),
                tips: Vec::new(),
                entered: origin,
            });
        }
        let member = state.lanes.iter_mut().find(|member| member.lane == id);
        if let Some(Member { tips: own, .. }) = member {
            own.extend(tips);
            own.sort_unstable();
            own.dedup();
        }
        Ok(())
    }

    /// The nodes that everything the lane has recorded ends with.
    pub(crate) fn tips(&self, lane: LaneId) -> Vec<u32> {
        let state = self.state.lock();
        let member = state.lanes.iter().find(|member| member.lane == lane);
        member.map_or_else(Vec::new, |member| member.tips.clone())
    }

    /// The lane's stream is gone.
    pub(crate) fn dropped(&self, lane: LaneId) {
        let mut state = self.state.lock();
        let member = state.lanes.iter().find(|member| member.lane == lane);
        if let Some(place) = member.map(|member| member.entered) {
            let _first = state.spoil(Offence::StreamDropped { lane }, place);
        }
    }

    /// How many nodes there are.
    pub(crate) fn node_count(&self) -> usize {
        self.state.lock().nodes.len()
    }

    /// Ends the capture: its lanes take part no more, and its nodes come out unless it is spoilt.
    pub(crate) fn end(&self) -> Result<Vec<GraphNode>, CaptureError> {
        let mut state = self.state.lock();
        state.is_open = false;
        if state.spoilt.is_none()
            && let Some((lane, place)) = state.not_joined()
        {
            let _first = state.spoil(Offence::NotJoined { lane }, place);
        }
        let lanes = mem::take(&mut state.lanes);
        let nodes = mem::take(&mut state.nodes);
        let spoilt = state.spoilt;
        drop(state);
        for member in lanes {
            if let Some(state) = member.state.upgrade() {
                state.capture.clear();
            }
        }
        spoilt.map_or(Ok(nodes), Err)
    }
}

impl State {
    fn spoil(&mut self, offence: Offence, place: Origin) -> CaptureError {
        *self.spoilt.get_or_insert(CaptureError { offence, place })
    }

    /// Refuses what comes after an offence with that offence, and what comes after the end.
    fn still_good(&mut self, origin: Origin) -> Result<(), CaptureError> {
        if let Some(first) = self.spoilt {
            return Err(first);
        }
        if !self.is_open {
            let (offence, place) = (Offence::OtherCapture, origin);
            return Err(CaptureError { offence, place });
        }
        Ok(())
    }

    /// A lane whose last nodes the first lane does not come after, with where its last node was recorded.
    fn not_joined(&self) -> Option<(LaneId, Origin)> {
        let mut is_before_end = vec![false; self.nodes.len()];
        let mut open: Vec<u32> = self.lanes.first()?.tips.clone();
        while let Some(number) = open.pop() {
            let at = number as usize;
            if !mem::replace(&mut is_before_end[at], true) {
                open.extend(&self.nodes[at].after);
            }
        }
        let lost = |member: &&Member| {
            let mut tips = member.tips.iter();
            tips.any(|tip| !is_before_end[*tip as usize])
        };
        let member = self.lanes.iter().find(lost)?;
        let last = member.tips.iter().max();
        let place = last.map(|tip| self.nodes[*tip as usize].origin);
        Some((member.lane, place.unwrap_or(member.entered)))
    }
}
