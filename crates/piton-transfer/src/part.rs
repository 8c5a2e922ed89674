//! A part of a copy: its lanes, the memory it passes through, and the commands that carry it.
//!
//! A part in one leg has a lane for it. Where there are several legs the bytes go in [chunks](crate::chunks): while a leg
//! carries one chunk, the next leg carries the one before. Chunks of a leg go over two lanes in turn, so that one starts
//! while the other is carried, or over more where a part is to be faster than others on the same links. The memory between two legs holds [`STAGING_CHUNKS`] chunks: two are under way on each side,
//! and as many are full or empty, so that neither side waits for the other. A leg fills a slot again when the next leg has
//! emptied it, which its lane waits for on the device.
//!
//! # Who owns what
//! The part owns its lanes and the memory in between until it is [given back](Part::give_back), which is only done
//! when every lane has ended. Page-locked blocks also know their last uses themselves.

#![expect(
    unsafe_code,
    reason = "passes the promises of whoever asks for a copy on to the streams"
)]

use crate::{
    TransferError,
    carrier::Carrier,
    chunks::{Chunks, Engines},
    config::Compared,
    end::{End, Ends},
    lane::{lane_chunks, most_lanes},
    relay_memory::Slab,
    sample::Sample,
    way::{Leg, Share, Stop},
};
use piton_driver::{Command, DeviceId, PeerAddress, Priority};
use piton_pinned::PinnedBlock;
use piton_stream::StreamError;
use piton_timeline::{Frontier, Timepoint};
use piton_topology::Nanos;
use std::ptr::NonNull;

/// Chunks of memory between two legs of two lanes each; legs with more lanes have more of them, and as much shorter ones.
pub const STAGING_CHUNKS: usize = 8;

/// Memory between two legs.
#[derive(Debug)]
enum Between {
    Device(DeviceId, Slab),
    Host(Vec<PinnedBlock>),
}

/// A part of a copy that is being, or was, submitted.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) share: Share,
    /// The lanes of the first leg, then the next one's; the same number each.
    pub(crate) carriers: Vec<Carrier>,
    legs: usize,
    between: Vec<Between>,
    chunks: Chunks,
    /// Places read back from both ends.
    sample: Option<Sample>,
    /// Which leg could not be submitted, and why.
    pub(crate) refused: Option<(Leg, TransferError)>,
}

/// One end of a chunk.
#[derive(Clone, Copy)]
enum Spot {
    Device(PeerAddress),
    Host(NonNull<u8>),
}

impl Part {
    /// A part with all it needs and nothing submitted; `between` is the time between two of its copies where a device has no more
    /// engines than parts, `urgency` that of its lanes. Where something could not be had, it says so.
    pub(crate) fn new(
        (ends, between, urgency): (&Ends, Option<Nanos>, Priority),
        share: Share,
        from: DeviceId,
        to: DeviceId,
    ) -> Self {
        let legs = share.way.legs(from, to);
        let commands = ends.lane_commands(&legs);
        let lanes = share.lanes.min(most_lanes(commands));
        let share = Share { lanes, ..share };
        let engines = match (between, share.way.stops_in_the_host()) {
            (Some(between), _) => Engines::Few {
                stops: u16::try_from(share.way.stops.len()).unwrap_or(u16::MAX),
                between,
            },
            (None, true) => Engines::Host,
            (None, false) => Engines::Many,
        };
        let chunks = if legs.len() > 1 {
            let lanes = (share.lanes, lane_chunks(commands));
            Chunks::of((share.bytes, share.predicted_ns), lanes, engines)
        } else {
            Chunks::side_by_side(share.bytes, share.lanes)
        };
        let mut part = Self {
            share,
            carriers: Vec::new(),
            legs: legs.len(),
            between: Vec::new(),
            chunks,
            sample: None,
            refused: None,
        };
        for (at, leg) in legs.into_iter().enumerate() {
            if let Err(error) = part.equip((ends, urgency), leg, at) {
                part.refused = Some((leg, error));
                break;
            }
        }
        part
    }

    /// Takes lanes for leg `at`, and memory behind it.
    fn equip(
        &mut self,
        (ends, urgency): (&Ends, Priority),
        leg: Leg,
        at: usize,
    ) -> Result<(), TransferError> {
        let on = ends.of_leg(leg)?;
        for _ in 0..self.lanes_a_leg() {
            self.carriers.push(Carrier::on(on, leg, urgency)?);
        }
        let (slots, bytes) = (self.slots(), self.chunks.longest);
        match self.share.way.stops.get(at) {
            None => {}
            Some(Stop::Device(stop)) => {
                let slab = ends.get(*stop)?.take_slab(bytes * slots)?;
                self.between.push(Between::Device(*stop, slab));
            }
            Some(Stop::Host(near)) => {
                // Where that device is lost its pool gives none: any memory will do.
                let near = ends.get(*near)?;
                let block = |_| near.take_block(bytes).or_else(|_| on.take_block(bytes));
                let blocks = (0..slots).map(block);
                self.between
                    .push(Between::Host(blocks.collect::<Result<_, _>>()?));
            }
        }
        Ok(())
    }

    fn slots(&self) -> u64 {
        let most = u64::from(self.share.lanes.max(2)) * STAGING_CHUNKS as u64 / 2;
        self.chunks.count().min(most)
    }

    fn lanes_a_leg(&self) -> usize {
        let slots = usize::try_from(self.slots()).unwrap_or(1);
        slots.clamp(1, usize::from(self.share.lanes.max(1)))
    }

    /// As [`submit`](Self::submit), and as much of it read back from both ends and compared.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn submit_compared(
        &mut self,
        (ends, compared): (&Ends, Compared),
        (start, after): (&piton_stream::Event, &Frontier),
        dst: PeerAddress,
        src: PeerAddress,
    ) {
        // SAFETY: as the caller promised.
        unsafe { self.submit((start, after), dst, src) };
        if compared == Compared::Nothing || self.refused.is_some() {
            return;
        }
        let (arrived, both) = (self.arriving(), [dst, src]);
        let order = (start, &arrived);
        // SAFETY: as the caller promised.
        let sample =
            unsafe { Sample::read(ends, &self.share, compared, both, order, &mut self.carriers) };
        match sample {
            Ok(sample) => self.sample = Some(sample),
            Err(refused) => self.refused = Some(refused),
        }
    }

    /// Submits all of it, behind `start` and, without asking how they ended, behind `after`.
    ///
    /// # Safety
    /// `dst` and `src` are where the whole copy begins, in live memory until every lane has ended.
    pub(crate) unsafe fn submit(
        &mut self,
        (start, after): (&piton_stream::Event, &Frontier),
        dst: PeerAddress,
        src: PeerAddress,
    ) {
        if self.refused.is_some() {
            return;
        }
        for carrier in &self.carriers {
            let waited = carrier.lane.wait(start).map(drop);
            let ordered = waited.and_then(|()| carrier.lane.order_after(after));
            if let Err(error) = ordered {
                self.refused = Some((carrier.leg, error.into()));
                return;
            }
        }
        // SAFETY: as the caller promised.
        if let Err(refused) = unsafe { self.submit_chunks(dst, src) } {
            self.refused = Some(refused);
        }
    }

    /// # Safety
    /// As [`submit`](Self::submit).
    unsafe fn submit_chunks(
        &mut self,
        dst: PeerAddress,
        src: PeerAddress,
    ) -> Result<(), (Leg, TransferError)> {
        let slots = usize::try_from(self.slots()).unwrap_or(1).max(1);
        // The last time each leg carried the chunk of a slot.
        let mut carried = vec![vec![None; slots]; self.legs];
        let lanes = self.lanes_a_leg();
        let mut done = 0;
        for (number, bytes) in self.chunks.sizes().enumerate() {
            let slot = number % slots;
            for at in 0..self.legs {
                let by = at * lanes + number % lanes;
                let waits = [
                    at.checked_sub(1).and_then(|before| carried[before][slot]),
                    carried.get(at + 1).and_then(|next| next[slot]),
                ];
                let spots = [at, at + 1].map(|place| self.spot(place, (slot, done), dst, src));
                let failed = |error: StreamError| (self.carriers[by].leg, error.into());
                let lane = &self.carriers[by].lane;
                for point in waits.into_iter().flatten() {
                    lane.wait_timepoint(point).map_err(failed)?;
                }
                let command = command(spots, bytes)
                    .ok_or((self.carriers[by].leg, TransferError::PastTheEnd { bytes }))?;
                // SAFETY: the ends are the caller's; what is between belongs to this part, and a slot is filled again
                // only when it was emptied.
                let point = unsafe { lane.submit(&command) }.map_err(failed)?;
                carried[at][slot] = Some(point);
                self.carriers[by].reaches(point);
                self.note(at, slot, point);
            }
            done += bytes;
        }
        Ok(())
    }

    /// Where the bytes are before leg `place`, at `done` of the part and in that slot of what is between.
    fn spot(
        &self,
        place: usize,
        (slot, done): (usize, u64),
        dst: PeerAddress,
        src: PeerAddress,
    ) -> Option<Spot> {
        let end = |whole| moved(whole, self.share.offset + done).map(Spot::Device);
        if place == 0 {
            return end(src);
        }
        if place == self.legs {
            return end(dst);
        }
        match self.between.get(place - 1)? {
            Between::Device(device, slab) => {
                let ptr = slab.ptr.checked_add(slot as u64 * self.chunks.longest)?;
                Some(Spot::Device(PeerAddress {
                    device: *device,
                    ptr,
                }))
            }
            Between::Host(blocks) => Some(Spot::Host(blocks.get(slot)?.as_ptr())),
        }
    }

    /// Leg `at` uses the blocks on its sides until `point`.
    fn note(&mut self, at: usize, slot: usize, point: Timepoint) {
        if let Some(Between::Host(blocks)) = self.between.get_mut(at) {
            blocks[slot].record_write(point);
        }
        if let Some(Between::Host(blocks)) = at.checked_sub(1).and_then(|at| self.between.get(at)) {
            blocks[slot].record_read(point);
        }
    }

    /// Where all that was submitted has ended.
    pub(crate) fn ended(&self) -> Frontier {
        self.carriers.iter().filter_map(Carrier::last).collect()
    }

    /// Where the last leg has ended, and so the others have.
    fn arriving(&self) -> Frontier {
        let before = (self.legs.saturating_sub(1)) * self.lanes_a_leg();
        let last = self.carriers.iter().skip(before);
        last.filter_map(Carrier::last).collect()
    }

    /// Whether every byte has arrived. Asked when every lane has ended.
    pub(crate) fn has_arrived(&self) -> bool {
        let has_ended = self.carriers.iter().all(Carrier::has_ended_well);
        self.refused.is_none() && has_ended && self.changed().is_none()
    }

    /// How many bytes came changed, of how many that were looked at; `None` where none did. Asked when every lane has ended.
    pub(crate) fn changed(&self) -> Option<(u64, u64)> {
        let sample = self.sample.as_ref()?;
        let wrong = sample.wrong();
        (wrong > 0).then(|| (wrong, sample.bytes()))
    }

    /// Gives back what it took. Every lane has ended.
    pub(crate) fn give_back(self, ends: &Ends) {
        for carrier in self.carriers {
            carrier.give_back(ends);
        }
        for between in self.between {
            if let Between::Device(device, slab) = between
                && let Ok(end) = ends.get(device)
            {
                end.relay.give_back(slab);
            }
        }
    }
}

/// The command that carries `bytes` from one spot to the other; none past the last address there is.
fn command(spots: [Option<Spot>; 2], bytes: u64) -> Option<Command<'static>> {
    Some(match spots {
        [Some(Spot::Device(src)), Some(Spot::Device(dst))] => Command::CopyPeer { dst, src, bytes },
        [Some(Spot::Device(src)), Some(Spot::Host(dst))] => Command::CopyToHost {
            dst,
            src: src.ptr,
            bytes,
        },
        [Some(Spot::Host(src)), Some(Spot::Device(dst))] => Command::CopyToDevice {
            dst: dst.ptr,
            src,
            bytes,
        },
        _ => return None,
    })
}

/// So many bytes further; none past the last address there is.
pub(crate) fn moved(whole: PeerAddress, bytes: u64) -> Option<PeerAddress> {
    let ptr = whole.ptr.checked_add(bytes)?;
    Some(PeerAddress { ptr, ..whole })
}

impl End {
    pub(crate) fn take_block(&self, bytes: u64) -> Result<PinnedBlock, TransferError> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let block = self.pinned.allocate(length)?;
        if let Some(sanitizer) = self.streams.sanitizer() {
            // What used it before is over: that is the pool's promise.
            sanitizer.forget_host(block.as_ptr(), block.capacity());
        }
        Ok(block)
    }
}
