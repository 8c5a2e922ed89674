//! Copies between the devices of a runtime.

#![expect(
    unsafe_code,
    reason = "passes the promises of `copy` on to the streams"
)]

use crate::{
    CopyWeight, Incident, Roads, RouteUse, TransferConfig, TransferDevice, TransferError,
    companion::Companions,
    config::Compared,
    end::Ends,
    engine::{Active, Engine},
    job::{Job, Verdict},
    lane::{LANE_COMMANDS, lane_chunks, lane_commands},
    overseer::{Bell, Overseer},
    plans::{Plans, place},
    route_use::RouteUses,
    staged,
    way::Share,
};
use piton_driver::{DeviceId, PeerAddress};
use piton_stream::{Stream, Streams};
use piton_sync::Mutex;
use piton_timeline::Frontier;
use piton_topology::{DeviceId as Place, Machine, PeerAccess, Router};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The result of submitting a copy.
#[must_use = "what was submitted uses the memory, whatever the result"]
#[derive(Debug)]
pub struct Carried {
    /// Reached when everything that was submitted, or will be, for this copy has ended. Keep the memory of both ends
    /// until then, also where `result` is an error.
    pub submitted: Frontier,
    /// Whether the copy was submitted, or why not.
    pub result: Result<(), TransferError>,
}

/// How often the thread that looks for copies that hang does so in the least deadline.
const LOOKS_A_DEADLINE: u32 = 4;
/// It never looks more often, and no least deadline is shorter.
const LEAST_PERIOD: Duration = Duration::from_millis(1);

/// Copies between the devices of a runtime.
#[derive(Debug)]
pub struct Transfers {
    /// Ends before the engine does.
    _overseer: Option<Overseer>,
    engine: Arc<Engine>,
    can_watch: bool,
}

impl Transfers {
    /// Sets up copies between `devices`. A device's place in the list must be its id and its place in the machine.
    /// Enables peer access wherever the driver allows it.
    ///
    /// # Errors
    /// [`TopologyMismatch`](TransferError::TopologyMismatch) if the machine has fewer devices;
    /// [`MisplacedDevice`](TransferError::MisplacedDevice);
    /// [`Places`](TransferError::Places) and [`LeastDeadline`](TransferError::LeastDeadline) for a configuration out of bounds;
    /// [`Driver`](TransferError::Driver) for what the driver refuses.
    pub fn new(
        streams: &Streams,
        roads: Roads<'_>,
        devices: &[TransferDevice],
    ) -> Result<Self, TransferError> {
        let Roads {
            machine,
            peers,
            config,
        } = roads;
        if machine.device_count() < devices.len() {
            return Err(TransferError::TopologyMismatch {
                modelled: saturated(machine.device_count()),
                devices: saturated(devices.len()),
            });
        }
        for (place, end) in (0..).zip(devices) {
            let device = end.device.info().id;
            if device.0 != place {
                return Err(TransferError::MisplacedDevice { device, place });
            }
        }
        validate(&config, devices)?;
        enable_peers(devices)?;
        let ends = Ends::new(streams, devices, config.relay_bytes);
        let can_watch = ends.can_watch();
        let held = can_watch.then(|| lane_chunks(ends.least_commands()));
        let peers = among(devices.len(), machine, peers);
        let engine = Engine {
            streams: streams.clone(),
            ends,
            plans: Plans::new((machine, devices.len()), &peers, &config, held),
            uses: RouteUses::default(),
            config,
            active: Active::default(),
            bell: Arc::new(Bell::default()),
            companions: Companions::default(),
            unsettled: Mutex::default(),
        };
        let engine = Arc::new(engine);
        let oversees = config.oversees && can_watch && devices.len() > 1;
        let period = config.least_deadline / LOOKS_A_DEADLINE;
        let period = period.max(LEAST_PERIOD);
        let overseer = oversees.then(|| Overseer::start(&engine, period));
        Ok(Self {
            _overseer: overseer.flatten(),
            engine,
            can_watch,
        })
    }

    /// Copies `bytes` bytes from `src` to `dst`, in the order of `stream`, which is on one of the two devices.
    ///
    /// Large copies, those that stop in a third device, and the first over each leg are *guarded*: a way that fails
    /// or hangs is given up, the copy goes on over the next, and the stream goes on only when every byte has arrived.
    /// Other copies fail as the stream's own commands do. They are one command where the devices reach each other;
    /// where the bytes stop in host memory, the stream waits for the commands that carry them.
    ///
    /// The call submits and returns; no thread is held. It blocks at most where a device refuses the same call twice.
    ///
    /// # Safety
    /// Both ranges are live memory of their devices until everything in [`Carried::submitted`] has ended; nothing
    /// else writes either, or reads the destination, unless ordered with `stream`.
    #[track_caller]
    pub unsafe fn copy(
        &self,
        stream: &Stream,
        dst: PeerAddress,
        src: PeerAddress,
        bytes: u64,
    ) -> Carried {
        // SAFETY: the caller promised it.
        unsafe { self.copy_weighing(stream, dst, src, bytes, CopyWeight::ONE) }
    }

    /// Like [`copy`](Self::copy), with a weight: of links that copies of one class share, each gets a share in
    /// proportion to its weight. On the ways of other copies it gets what they leave. Only guarded copies can weigh
    /// more than one, because single commands share links evenly. Where devices have
    /// [few engines](crate::TransferConfig::engines), a copy weighs no more than there are engines.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    #[track_caller]
    pub unsafe fn copy_weighing(
        &self,
        stream: &Stream,
        dst: PeerAddress,
        src: PeerAddress,
        bytes: u64,
        weight: CopyWeight,
    ) -> Carried {
        let share = match self.share(dst, src, bytes) {
            Ok(share) => share,
            Err(error) => return Carried::nothing(error),
        };
        let legs = share.way.legs(src.device, dst.device);
        let is_local = src.device == dst.device;
        let is_plain = is_local || legs.len() == 1;
        let is_compared = self.engine.config.compared == Compared::Everything;
        let is_small = bytes < self.engine.config.guarded_bytes && !is_compared;
        let is_trusted = legs.iter().all(|leg| self.engine.plans.is_trusted(*leg));
        let is_light = is_small && is_trusted && !share.way.stops_in_a_device();
        if is_local || stream.is_capturing() || is_light || !self.can_watch {
            // SAFETY: the caller promised it for both ranges.
            return unsafe { self.unguarded(stream, (dst, src), share, is_plain) };
        }
        self.engine.retry();
        // SAFETY: the caller promised it for both ranges.
        unsafe { self.guarded(stream, (dst, src), bytes, weight) }
    }

    /// How much was carried over each way so far.
    pub fn routes(&self) -> Vec<RouteUse> {
        self.engine.uses.all()
    }

    /// The last [`KEPT_INCIDENTS`](crate::KEPT_INCIDENTS) incidents, oldest first.
    pub fn incidents(&self) -> Vec<Incident> {
        self.engine.plans.incidents()
    }

    /// Ends copies that hang: what is overdue at `now` is aborted, and goes on over another way. Returns how many
    /// lanes were aborted. Does not block.
    ///
    /// The time of a copy counts from the first check at which it has begun, so call this from time to time. The
    /// thread that [`TransferConfig::oversees`](crate::TransferConfig::oversees) asks for does so.
    pub fn check(&self, now: Instant) -> usize {
        self.engine.check(now)
    }

    /// The number of guarded copies that are not settled.
    pub fn under_way(&self) -> usize {
        self.engine.active.count() + self.engine.plans.waiting()
    }

    /// Frees the memory that relays keep for later copies, and the streams that staged copies keep.
    pub fn trim(&self) {
        self.engine.companions.clear();
        for end in self.engine.ends.iter() {
            end.relay.trim();
        }
    }

    /// The routes that the driver allows, whatever has failed since.
    pub fn router(&self) -> &Router {
        self.engine.plans.router()
    }

    fn share(
        &self,
        dst: PeerAddress,
        src: PeerAddress,
        bytes: u64,
    ) -> Result<Share, TransferError> {
        if bytes == 0 {
            return Err(TransferError::ZeroBytes);
        }
        let (from, to) = (self.place(src.device)?, self.place(dst.device)?);
        self.engine.plans.one(from, to, bytes)
    }

    fn place(&self, device: DeviceId) -> Result<Place, TransferError> {
        let devices = self.engine.ends.count();
        let known = place(device).filter(|_| device.0 < devices);
        known.ok_or(TransferError::UnknownDevice { device, devices })
    }

    /// A copy that fails as its commands do.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    #[track_caller]
    unsafe fn unguarded(
        &self,
        stream: &Stream,
        (dst, src): (PeerAddress, PeerAddress),
        share: Share,
        is_plain: bool,
    ) -> Carried {
        let ends = (src.device, dst.device);
        let bytes = share.bytes;
        if !is_plain {
            // SAFETY: the caller promised it for both ranges.
            return unsafe { self.staged(stream, (dst, src), &share) };
        }
        let submitted = if src.device == dst.device {
            // SAFETY: the caller promised it for both ranges.
            unsafe { stream.copy_on_device(dst.ptr, src.ptr, bytes) }
        } else {
            // SAFETY: the caller promised it for both ranges.
            unsafe { stream.copy_peer(dst, src, bytes) }
        };
        match submitted {
            Ok(point) => {
                self.engine.uses.add(ends, &share.way, bytes);
                Carried {
                    submitted: point.into(),
                    result: Ok(()),
                }
            }
            Err(error) => Carried::nothing(error.into()),
        }
    }

    /// A copy through host memory whose end nobody is told of.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    #[track_caller]
    unsafe fn staged(
        &self,
        stream: &Stream,
        (dst, src): (PeerAddress, PeerAddress),
        share: &Share,
    ) -> Carried {
        let (from, to) = (src.device, dst.device);
        if stream.is_capturing() {
            return Carried::nothing(TransferError::NotInCapture { from, to });
        }
        // SAFETY: the caller promised it for both ranges.
        let carried = unsafe { staged::carry(&self.engine, stream, (dst, src), share.bytes) };
        if carried.result.is_ok() {
            self.engine.uses.add((from, to), &share.way, share.bytes);
        }
        carried
    }

    /// # Safety
    /// As [`copy`](Self::copy).
    #[track_caller]
    unsafe fn guarded(
        &self,
        stream: &Stream,
        ends: (PeerAddress, PeerAddress),
        bytes: u64,
        weight: CopyWeight,
    ) -> Carried {
        let closed = match Job::close(&self.engine, stream, ends, (bytes, weight)) {
            Ok(closed) => closed,
            Err(error) => return Carried::nothing(error),
        };
        let mut submitted: Frontier = closed.gates.into_iter().collect();
        // SAFETY: the caller promised it until what is in `submitted` has ended, and the gates are.
        if let Err((job, error)) = unsafe { closed.job.advance() } {
            job.end(Verdict::Arrived);
            return Carried {
                submitted,
                result: Err(error),
            };
        }
        let waited = stream.wait_timepoint(closed.heard);
        submitted.insert(stream.now());
        Carried {
            submitted,
            result: waited.map(drop).map_err(TransferError::from),
        }
    }
}

impl Carried {
    pub(crate) fn nothing(error: TransferError) -> Self {
        Self {
            submitted: Frontier::new(),
            result: Err(error),
        }
    }
}

/// What `peers` allows between the first `count` devices of the machine: no copy goes over one that is not open.
fn among(count: usize, machine: &Machine, peers: &PeerAccess) -> PeerAccess {
    let mut among = peers.clone();
    for closed in machine.device_ids().skip(count) {
        for other in machine.device_ids() {
            among.set(closed, other, false);
            among.set(other, closed, false);
        }
    }
    among
}

/// Refuses what no copy could be carried out with.
fn validate(config: &TransferConfig, devices: &[TransferDevice]) -> Result<(), TransferError> {
    let given = config.least_deadline;
    if given < LEAST_PERIOD {
        return Err(TransferError::LeastDeadline {
            given,
            least: LEAST_PERIOD,
        });
    }
    let hold = devices.iter().map(|end| lane_commands(&*end.device));
    // The rest is for what the reads wait for, and for who is told of their end.
    let most = hold.min().unwrap_or(LANE_COMMANDS) / 2;
    match config.compared {
        Compared::Places(given) if given > most => Err(TransferError::Places { given, most }),
        _ => Ok(()),
    }
}

fn enable_peers(devices: &[TransferDevice]) -> Result<(), TransferError> {
    for device in devices {
        let Some(peers) = device.device.peers() else {
            continue;
        };
        for peer in devices.iter().map(|other| other.device.info().id) {
            if peer != device.device.info().id && peers.can_access(peer) {
                peers.enable(peer)?;
            }
        }
    }
    Ok(())
}

fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
