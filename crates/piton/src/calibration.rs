//! Measures what copies between devices reach.
//!
//! Of each ordered pair, alone: a small copy says how long the first byte takes, and how much longer a large one takes says
//! how many bytes a second follow it. What starting a copy takes is told apart by a copy of the same size inside the
//! device. Times are the devices' own, so on simulated devices in virtual time the answer is exact and always the same.

use crate::{BufferError, Device, Event, Runtime, RuntimeError, Stream};
use piton_driver::DeviceId;
use piton_topology::{BytesPerSec, Calibration, DeviceId as Place, Measured, Nanos};

/// Bytes of a small copy: more than nothing, and nothing beside what starting it takes.
const SMALL_BYTES: u64 = 4 << 10;

const GIGA: u128 = 1_000_000_000;

impl Runtime {
    /// Measures copies of `bytes` bytes, at least 8 KiB, between each two devices, one after the other, as this runtime carries
    /// them: one made with [`TransferConfig::measuring`](crate::TransferConfig::measuring) measures single routes. Blocks
    /// until all have ended, and takes as much memory of two devices at a time. Pairs whose devices keep no times, or
    /// whose copies took none, are left out.
    ///
    /// # Errors
    /// As allocating and copying.
    pub fn calibrate(&self, bytes: u64) -> Result<Calibration, RuntimeError> {
        let bytes = bytes.max(2 * SMALL_BYTES);
        let mut calibration = Calibration::new();
        for from in self.devices() {
            for to in self.devices().filter(|to| to.id() != from.id()) {
                let places = place(from.id()).zip(place(to.id()));
                if let (Some((a, b)), Some(found)) = (places, measured(&from, &to, bytes)?) {
                    calibration.set(a, b, found);
                }
            }
        }
        Ok(calibration)
    }
}

fn place(device: DeviceId) -> Option<Place> {
    u16::try_from(device.0).ok().map(Place::new)
}

/// What copies from one device to another reach.
fn measured(from: &Device, to: &Device, bytes: u64) -> Result<Option<Measured>, RuntimeError> {
    let (filling, stream) = (from.stream("calibration")?, to.stream("calibration")?);
    let start = local(&stream)?;
    let small = copied(&filling, &stream, SMALL_BYTES)?;
    let large = copied(&filling, &stream, bytes)?;
    let (Some(start), Some(small), Some(large)) = (start, small, large) else {
        return Ok(None);
    };
    let Some(longer) = large.checked_sub(small).filter(|longer| *longer > 0) else {
        return Ok(None);
    };
    let rate = u128::from(bytes - SMALL_BYTES) * GIGA / u128::from(longer);
    let bandwidth = BytesPerSec::new(u64::try_from(rate).unwrap_or(u64::MAX));
    let wire = bandwidth.duration_of(SMALL_BYTES);
    Ok(Some(Measured {
        bandwidth,
        latency: Nanos::new(small.saturating_sub(start)).saturating_sub(wire),
    }))
}

/// Nanoseconds of a copy between two devices, the second time: the first tries the way.
fn copied(filling: &Stream, stream: &Stream, bytes: u64) -> Result<Option<u64>, RuntimeError> {
    let source = filling.allocate_zeroed::<u8>(bytes)?;
    let mut target = stream.allocate::<u8>(bytes)?;
    stream.copy_peer(&source, &mut target)?;
    timed(stream, || Ok(stream.copy_peer(&source, &mut target)?))
}

/// Nanoseconds of a small copy inside a device, which are what starting one takes.
fn local(stream: &Stream) -> Result<Option<u64>, RuntimeError> {
    let source = stream.allocate_zeroed::<u8>(SMALL_BYTES)?;
    let mut target = stream.allocate::<u8>(SMALL_BYTES)?;
    timed(stream, || Ok(stream.copy_peer(&source, &mut target)?))
}

/// Nanoseconds of what `work` submits to a stream with nothing else to do; `None` where the device keeps no times.
fn timed(
    stream: &Stream,
    work: impl FnOnce() -> Result<(), RuntimeError>,
) -> Result<Option<u64>, RuntimeError> {
    stream.synchronize()?;
    let before = stream.record_timed()?;
    work()?;
    let after = stream.record_timed()?;
    stream.synchronize()?;
    let time = |event: &Event| event.time_ns().map_err(BufferError::from);
    let times = time(&before)?.zip(time(&after)?);
    Ok(times.map(|(before, after)| after.saturating_sub(before)))
}
