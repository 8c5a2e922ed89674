//! Streams beside the program's, for the legs that a program's stream cannot carry itself.
//!
//! A stream is on one device, and a leg of a staged copy that another device carries needs a stream there. Each of the program's
//! streams has one of its own on each such device, its *companion*. It carries nothing else, so what fails there is
//! the stream that it belongs to, as it should, and nobody else's. It holds as many commands as the stream, which
//! takes no fewer for a copy, and says the same where it is full.
//!
//! # Who keeps them
//! A table, by the slot of the program's stream and the device. A slot's next tenant takes the place of the last, so there are
//! no more than streams were there at once, times the devices they copied to. One that goes is detached: what it was given
//! is carried out.
//!
//! # After a failure
//! A companion fails behind its stream, or its stream behind it, and perhaps later than the stream's error is cleared. So
//! it notes where the stream stood after each copy. If that place tells of a failure, the companion has one or will have
//! it, and is replaced; if not, whatever failed came later, and the companion knows nothing of it.

use crate::{TransferError, end::Ends};
use piton_driver::DeviceId;
use piton_stream::{Stream, StreamOptions};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use piton_timeline::{LaneId, Timepoint};
use std::{collections::HashMap, sync::Arc};

/// The companions of a runtime's streams. A leaf lock.
#[derive(Debug, Default)]
pub(crate) struct Companions(Mutex<HashMap<Place, Arc<Companion>>>);

/// The slot of a program's stream, and the device of its companion.
type Place = (u32, DeviceId);

/// A stream that carries what one of the program's cannot.
#[derive(Debug)]
pub(crate) struct Companion {
    pub(crate) stream: Stream,
    belongs_to: LaneId,
    /// The place of the stream it belongs to, behind the latest copy. Read by later copies of that stream, which are
    /// ordered behind this one by whoever submits them, or do not mind.
    last: AtomicU64,
}

impl Companions {
    /// The companion of `stream` on `device`, made if there is none that is well.
    pub(crate) fn of(
        &self,
        stream: &Stream,
        device: DeviceId,
        ends: &Ends,
    ) -> Result<Arc<Companion>, TransferError> {
        let place = (stream.id().index, device);
        let known = self.0.lock().get(&place).map(Arc::clone);
        if let Some(known) = known
            && known.belongs_to == stream.id()
            && known.is_well(stream)
        {
            return Ok(known);
        }
        let made = Arc::new(Companion {
            stream: make(stream, device, ends)?,
            belongs_to: stream.id(),
            last: AtomicU64::new(stream.now().seq),
        });
        let former = self.0.lock().insert(place, Arc::clone(&made));
        // A stream's end is work: not under the lock.
        drop(former);
        Ok(made)
    }

    /// Lets all of them go.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        drop(all);
    }
}

impl Companion {
    /// The stream it belongs to stands behind a copy.
    pub(crate) fn note(&self, stream: &Stream) {
        self.last.fetch_max(stream.now().seq, Ordering::Relaxed);
    }

    fn is_well(&self, stream: &Stream) -> bool {
        let last = Timepoint {
            lane: self.belongs_to,
            seq: self.last.load(Ordering::Relaxed),
        };
        !stream.has_failed_at(last)
    }
}

fn make(stream: &Stream, device: DeviceId, ends: &Ends) -> Result<Stream, TransferError> {
    let end = ends.get(device)?;
    let most = end.device.info().limits.queue_commands;
    let commands = u32::try_from(stream.capacity()).unwrap_or(u32::MAX);
    let options = StreamOptions {
        commands: Some(commands.min(most)),
        when_full: stream.when_full(),
        ..StreamOptions::labelled(&beside(stream))
    };
    Ok(end.streams.create(&end.device, options)?)
}

fn beside(stream: &Stream) -> String {
    match stream.label() {
        Some(label) => format!("copies of {label}"),
        None => format!("copies of {:?}", stream.id()),
    }
}
