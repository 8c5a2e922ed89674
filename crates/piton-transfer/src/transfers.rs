//! The devices of a runtime, the router over their machine, and copies between them.

#![expect(
    unsafe_code,
    reason = "passes the promises of `copy` on to the streams"
)]

use crate::{RouteUse, TransferError, route_use::RouteUses, staging::Stage};
use piton_driver::{Device, DeviceId, PeerAddress};
use piton_pinned::PinnedPool;
use piton_stream::{Stream, StreamOptions, Streams};
use piton_timeline::Frontier;
use piton_topology::{DeviceId as Place, RouteKind, Router};
use std::sync::Arc;

/// One device that copies go from and to.
#[derive(Clone, Debug)]
pub struct TransferDevice {
    /// The open device. Its id is its place in the list given to [`Transfers::new`], and in the topology.
    pub device: Arc<dyn Device>,
    /// Page-locked memory near it.
    pub pinned: Arc<PinnedPool>,
}

/// A device with the engine's own streams for staging.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) pinned: Arc<PinnedPool>,
    /// Copies from the device to the host.
    pub(crate) out: Stream,
    /// Copies from the host to the device.
    pub(crate) into: Stream,
}

/// What became of a copy.
#[must_use = "what was submitted uses the memory, whatever the result"]
#[derive(Debug)]
pub struct Carried {
    /// Where everything that was submitted has ended. Covers both ends' memory, also where `result` is an error.
    pub submitted: Frontier,
    /// Whether the whole copy was submitted.
    pub result: Result<(), TransferError>,
}

/// Copies between the devices of a runtime.
#[derive(Debug)]
pub struct Transfers {
    router: Router,
    ends: Vec<End>,
    uses: RouteUses,
}

impl Transfers {
    /// Copies between `devices`, whose place in the list is their id, along the ways of `router`. Enables peer
    /// access wherever the driver allows it.
    ///
    /// # Errors
    /// [`TopologyMismatch`](TransferError::TopologyMismatch) if the router knows fewer devices;
    /// [`MisplacedDevice`](TransferError::MisplacedDevice);
    /// [`Stream`](TransferError::Stream) or [`Driver`](TransferError::Driver) for what the driver refuses.
    pub fn new(
        streams: &Streams,
        router: Router,
        devices: &[TransferDevice],
    ) -> Result<Self, TransferError> {
        if router.device_count() < devices.len() {
            return Err(TransferError::TopologyMismatch {
                modelled: saturated(router.device_count()),
                devices: saturated(devices.len()),
            });
        }
        for (place, end) in (0..).zip(devices) {
            let device = end.device.info().id;
            if device.0 != place {
                return Err(TransferError::MisplacedDevice { device, place });
            }
        }
        enable_peers(devices)?;
        let ends = devices
            .iter()
            .map(|device| End::new(streams, device))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            router,
            ends,
            uses: RouteUses::default(),
        })
    }

    /// Copies `bytes` bytes from `src` to `dst`, in the order of `stream`, which is on one of the two devices.
    /// Does not block but for room in streams.
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
        let kind = match self.way(dst, src, bytes) {
            Ok(kind) => kind,
            Err(error) => {
                return Carried {
                    submitted: Frontier::new(),
                    result: Err(error),
                };
            }
        };
        let submitted = match kind {
            // SAFETY: the caller promised it for both ranges.
            RouteKind::Local => unsafe { stream.copy_on_device(dst.ptr, src.ptr, bytes) },
            RouteKind::Staged { .. } => {
                // SAFETY: the caller promised it for both ranges.
                let carried = unsafe { self.stage(stream, dst, src, bytes) };
                if carried.result.is_ok() {
                    self.uses.add(src.device, dst.device, kind, bytes);
                }
                return carried;
            }
            // SAFETY: the caller promised it for both ranges.
            _ => unsafe { stream.copy_peer(dst, src, bytes) },
        };
        match submitted {
            Ok(point) => {
                self.uses.add(src.device, dst.device, kind, bytes);
                Carried {
                    submitted: point.into(),
                    result: Ok(()),
                }
            }
            Err(error) => Carried {
                submitted: Frontier::new(),
                result: Err(error.into()),
            },
        }
    }

    /// What was carried which way so far.
    pub fn routes(&self) -> Vec<RouteUse> {
        self.uses.all()
    }

    /// The router that chooses.
    pub fn router(&self) -> &Router {
        &self.router
    }

    fn way(
        &self,
        dst: PeerAddress,
        src: PeerAddress,
        bytes: u64,
    ) -> Result<RouteKind, TransferError> {
        if bytes == 0 {
            return Err(TransferError::ZeroBytes);
        }
        let (from, to) = (self.place(src.device)?, self.place(dst.device)?);
        Ok(self.router.route(from, to, bytes)?.kind)
    }

    fn place(&self, device: DeviceId) -> Result<Place, TransferError> {
        let devices = saturated(self.ends.len());
        let unknown = TransferError::UnknownDevice { device, devices };
        if device.0 >= devices {
            return Err(unknown);
        }
        u16::try_from(device.0).map(Place::new).map_err(|_| unknown)
    }

    /// # Safety
    /// As [`copy`](Self::copy).
    #[track_caller]
    unsafe fn stage(
        &self,
        stream: &Stream,
        dst: PeerAddress,
        src: PeerAddress,
        bytes: u64,
    ) -> Carried {
        let ends = (
            self.ends.get(src.device.0 as usize),
            self.ends.get(dst.device.0 as usize),
        );
        let (Some(from), Some(to)) = ends else {
            let devices = saturated(self.ends.len());
            let error = TransferError::UnknownDevice {
                device: dst.device,
                devices,
            };
            return Carried {
                submitted: Frontier::new(),
                result: Err(error),
            };
        };
        let mut stage = Stage::new(from, to);
        // SAFETY: the caller promised it for both ranges.
        let result = unsafe { stage.carry(stream, dst.ptr, src.ptr, bytes) };
        Carried {
            submitted: stage.submitted(),
            result,
        }
    }
}

impl End {
    fn new(streams: &Streams, device: &TransferDevice) -> Result<Self, TransferError> {
        let id = device.device.info().id.0;
        let stream = |way| {
            let options = StreamOptions::labelled(&format!("device {id} staging {way}"));
            streams.create(&device.device, options)
        };
        Ok(Self {
            pinned: Arc::clone(&device.pinned),
            out: stream("out")?,
            into: stream("in")?,
        })
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
