//! A snapshot out of a pickle.

use crate::error::SnapshotError;
use crate::pickle::{Limits, Value, read};
use crate::snapshot::{Action, Block, BlockState, Event, Segment, Snapshot};

impl Snapshot {
    /// Reads what `torch.cuda.memory._dump_snapshot()` wrote. Events of kinds that are not known are passed over.
    ///
    /// # Errors
    /// [`SnapshotError`]: not a pickle of plain data, or not of a snapshot.
    pub fn from_pickle(bytes: &[u8], limits: &Limits) -> Result<Self, SnapshotError> {
        let document = read(bytes, limits)?;
        let root = document.root();
        let (Some(segments), Some(traces)) = (list(root, "segments"), list(root, "device_traces"))
        else {
            return Err(SnapshotError::NotASnapshot);
        };
        let segments = segments.enumerate().map(|(number, value)| {
            segment(value).ok_or(SnapshotError::Segment { segment: number })
        });
        let segments = segments.collect::<Result<_, _>>()?;
        let device_events = traces
            .enumerate()
            .map(|(device, trace)| events(device, trace));
        Ok(Self {
            segments,
            device_events: device_events.collect::<Result<_, _>>()?,
        })
    }
}

fn list<'d, 'a>(
    value: Value<'d, 'a>,
    key: &str,
) -> Option<impl ExactSizeIterator<Item = Value<'d, 'a>> + use<'d, 'a>> {
    value.get(key)?.items()
}

fn number(value: Value<'_, '_>, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

/// A stream is a pointer as a number, which some versions write as a negative one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a pointer's 64 bits, whatever their sign"
)]
fn stream(value: Value<'_, '_>) -> Option<u64> {
    value.get("stream").map_or(Some(0), |stream| {
        stream.as_integer().map(|stream| stream as u64)
    })
}

fn segment(value: Value<'_, '_>) -> Option<Segment> {
    let blocks = list(value, "blocks")?.map(block);
    Some(Segment {
        // Snapshots of one device from before there was a number have none.
        device: u32::try_from(number(value, "device").unwrap_or(0)).ok()?,
        address: number(value, "address")?,
        bytes: number(value, "total_size")?,
        stream: stream(value)?,
        is_expandable: value
            .get("is_expandable")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        blocks: blocks.collect::<Option<_>>()?,
    })
}

fn block(value: Value<'_, '_>) -> Option<Block> {
    let bytes = number(value, "size")?;
    Some(Block {
        bytes,
        requested_bytes: number(value, "requested_size").unwrap_or(bytes),
        state: BlockState::of_name(value.get("state")?.as_text()?)?,
    })
}

fn events(device: usize, trace: Value<'_, '_>) -> Result<Vec<Event>, SnapshotError> {
    let items = trace.items().ok_or(SnapshotError::NotASnapshot)?;
    let mut events = Vec::with_capacity(items.len());
    for (number, value) in items.enumerate() {
        let error = SnapshotError::Event {
            device,
            event: number,
        };
        let name = value.get("action").and_then(Value::as_text).ok_or(error)?;
        let device_free = self::number(value, "device_free").unwrap_or(0);
        if let Some(action) = Action::of_name(name, device_free) {
            events.push(event(value, action).ok_or(error)?);
        }
    }
    Ok(events)
}

fn event(value: Value<'_, '_>, action: Action) -> Option<Event> {
    let address = match action {
        Action::OutOfMemory { .. } => 0,
        Action::Snapshot => number(value, "addr").unwrap_or(0),
        _ => number(value, "addr")?,
    };
    Some(Event {
        action,
        address,
        bytes: number(value, "size")?,
        stream: stream(value)?,
        time_us: number(value, "time_us").unwrap_or(0),
    })
}
