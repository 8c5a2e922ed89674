//! What the sanitizer, if the runtime has one, is told of the memory behind buffers: when it is handed out, and when
//! it is given back with which last uses.

#![expect(
    unsafe_code,
    reason = "fills memory that was handed out and that nobody knows yet"
)]

use crate::{BufferError, DeviceContext};
use piton_driver::{DeviceRange, FillPattern};
use piton_sanitizer::{HandOut, Sanitizer, Space};
use piton_stream::Stream;
use piton_timeline::Frontier;
use std::{panic::Location, sync::Arc};

/// Memory was handed out to a stream, which has come after what it was before. It is filled with the sanitizer's
/// poison, if that has one: here, and not where memory is given back, as here is a stream that is ordered behind the
/// memory's past, and a drop must not block.
#[track_caller]
pub(crate) fn handed_out(
    context: &DeviceContext,
    stream: &Stream,
    range: DeviceRange,
) -> Result<(), BufferError> {
    let Some(sanitizer) = context.streams.sanitizer() else {
        return Ok(());
    };
    let memory = HandOut {
        space: Space::Device(context.id()),
        range,
        point: Some(stream.now()),
        origin: Some(Location::caller()),
    };
    sanitizer.hand_out(context.streams.author(), &memory);
    poison(sanitizer, stream, range)
}

/// Memory is about to be given back behind its last uses.
pub(crate) fn taken_back(context: &DeviceContext, range: DeviceRange, last_uses: &Frontier) {
    if let Some(sanitizer) = context.streams.sanitizer() {
        let (by, space) = (context.streams.author(), Space::Device(context.id()));
        sanitizer.take_back(by, space, range, Some(last_uses));
    }
}

#[track_caller]
fn poison(
    sanitizer: &Arc<Sanitizer>,
    stream: &Stream,
    range: DeviceRange,
) -> Result<(), BufferError> {
    if let Some(byte) = sanitizer.config().poison {
        let pattern = FillPattern::Byte(byte);
        // SAFETY: the memory is live until the caller, who has it, gives it back behind the stream's place, and no
        // other command names it yet; the stream is ordered behind those that named it before.
        unsafe { stream.fill(range.start, pattern, range.bytes)? };
    }
    Ok(())
}
