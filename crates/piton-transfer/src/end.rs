//! A device as copies see it: its lanes, gates and memory for relays.

use crate::{
    TransferError,
    gate::Gates,
    lane::{LANE_COMMANDS, LEAST_COMMANDS, Lanes, lane_commands},
    relay_memory::{RelayMemory, Slab},
    way::Leg,
};
use piton_driver::{Device, DeviceId, DeviceRange};
use piton_pinned::PinnedPool;
use piton_sanitizer::Space;
use piton_stream::Streams;
use std::sync::Arc;

/// One device that copies go from and to.
#[derive(Clone, Debug)]
pub struct TransferDevice {
    /// The open device. Its id is its place in the list given to [`Transfers::new`](crate::Transfers::new), and in the
    /// topology.
    pub device: Arc<dyn Device>,
    /// Page-locked memory near it.
    pub pinned: Arc<PinnedPool>,
}

/// A device with what the engine keeps for it.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) pinned: Arc<PinnedPool>,
    pub(crate) streams: Streams,
    pub(crate) lanes: Lanes,
    pub(crate) gates: Gates,
    pub(crate) relay: RelayMemory,
}

impl End {
    fn new(streams: &Streams, end: &TransferDevice, relay_bytes: u64) -> Self {
        Self {
            device: Arc::clone(&end.device),
            pinned: Arc::clone(&end.pinned),
            streams: streams.clone(),
            lanes: Lanes::new(&end.device, streams),
            gates: Gates::default(),
            relay: RelayMemory::new(&end.device, relay_bytes),
        }
    }

    /// Memory for bytes that stop here.
    pub(crate) fn take_slab(&self, bytes: u64) -> Result<Slab, TransferError> {
        let slab = self.relay.take(bytes)?;
        if let Some(sanitizer) = self.streams.sanitizer() {
            // What used it before is over: only settled copies give memory back.
            let range = DeviceRange {
                start: slab.ptr,
                bytes: slab.bytes,
            };
            sanitizer.forget(Space::Device(self.device.info().id), range);
        }
        Ok(slab)
    }

    /// Whether copies here can be watched: the end of a lane be noticed, and a gate opened; and whether a lane holds what a round
    /// gives it.
    fn can_watch(&self) -> bool {
        let holds_a_round = lane_commands(&*self.device) >= LEAST_COMMANDS;
        holds_a_round
            && self.device.host_functions().is_some()
            && self.device.semaphores().is_some()
    }
}

/// The devices of a runtime, by their ids.
#[derive(Debug)]
pub(crate) struct Ends(Vec<End>);

impl Ends {
    /// With so many bytes of each for copies of others.
    pub(crate) fn new(streams: &Streams, devices: &[TransferDevice], relay_bytes: u64) -> Self {
        let ends = devices.iter();
        Self(
            ends.map(|end| End::new(streams, end, relay_bytes))
                .collect(),
        )
    }

    pub(crate) fn get(&self, device: DeviceId) -> Result<&End, TransferError> {
        let unknown = TransferError::UnknownDevice {
            device,
            devices: self.count(),
        };
        self.0.get(device.0 as usize).ok_or(unknown)
    }

    /// Whose queue carries a leg.
    pub(crate) fn of_leg(&self, leg: Leg) -> Result<&End, TransferError> {
        // No leg leads from host to host; there would be no such device.
        let device = leg.carrier().unwrap_or(DeviceId(u32::MAX));
        self.get(device)
    }

    /// Commands that a lane of any of these legs holds.
    pub(crate) fn lane_commands(&self, legs: &[Leg]) -> u32 {
        let ends = legs.iter().filter_map(|leg| self.of_leg(*leg).ok());
        let commands = ends.map(|end| lane_commands(&*end.device));
        commands.min().unwrap_or(LANE_COMMANDS)
    }

    /// Commands that any lane holds.
    pub(crate) fn least_commands(&self) -> u32 {
        let commands = self.iter().map(|end| lane_commands(&*end.device));
        commands.min().unwrap_or(LANE_COMMANDS)
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &End> {
        self.0.iter()
    }

    pub(crate) fn can_watch(&self) -> bool {
        self.0.iter().all(End::can_watch)
    }
}
