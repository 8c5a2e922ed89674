//! A snapshot as a pickle that PyTorch's viewer opens.
//!
//! Every key is written that the documentation names, and those beside them that the viewer and `torch.cuda._memory_viz`
//! look at. Stack traces are empty.

use crate::pickle::Writer;
use crate::snapshot::{Action, Block, BlockState, Event, Segment, Snapshot};

/// Segments of at most so many bytes serve small requests, in the words of the format.
const SMALL_SEGMENT_BYTES: u64 = 2 << 20;

impl Snapshot {
    /// Writes it as a pickle of protocol 2, plain data alone.
    #[must_use]
    pub fn to_pickle(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.dict(|writer| {
            writer.text("segments");
            writer.list(|writer| self.segments.iter().for_each(|part| segment(writer, part)));
            writer.text("device_traces");
            writer.list(|writer| {
                for events in &self.device_events {
                    writer.list(|writer| events.iter().for_each(|entry| event(writer, entry)));
                }
            });
            writer.text("allocator_settings");
            writer.dict(|_| ());
            writer.text("external_annotations");
            writer.list(|_| ());
        });
        writer.finish()
    }
}

fn segment(writer: &mut Writer, segment: &Segment) {
    let sum_of =
        |state: BlockState| segment.sum(|block| if block.state == state { block.bytes } else { 0 });
    let allocated = sum_of(BlockState::Allocated);
    let requested = segment.sum(|block| match block.state {
        BlockState::Free => 0,
        BlockState::Allocated | BlockState::PendingFree => block.requested_bytes,
    });
    let is_small = !segment.is_expandable && segment.bytes <= SMALL_SEGMENT_BYTES;
    writer.dict(|writer| {
        pair(writer, "device", segment.device.into());
        pair(writer, "address", segment.address);
        pair(writer, "total_size", segment.bytes);
        pair(writer, "allocated_size", allocated);
        pair(
            writer,
            "active_size",
            allocated.saturating_add(sum_of(BlockState::PendingFree)),
        );
        pair(writer, "requested_size", requested);
        pair(writer, "stream", segment.stream);
        writer.text("segment_type");
        writer.text(if is_small { "small" } else { "large" });
        writer.text("segment_pool_id");
        writer.tuple(|writer| (0..2).for_each(|_| writer.number(0)));
        writer.text("is_expandable");
        writer.bool(segment.is_expandable);
        frames(writer);
        writer.text("blocks");
        writer.list(|writer| blocks(writer, segment));
    });
}

fn blocks(writer: &mut Writer, segment: &Segment) {
    let mut address = segment.address;
    for block in &segment.blocks {
        self::block(writer, address, block);
        address = address.saturating_add(block.bytes);
    }
}

fn block(writer: &mut Writer, address: u64, block: &Block) {
    writer.dict(|writer| {
        pair(writer, "address", address);
        pair(writer, "size", block.bytes);
        pair(writer, "requested_size", block.requested_bytes);
        writer.text("state");
        writer.text(block.state.name());
        frames(writer);
    });
}

fn event(writer: &mut Writer, event: &Event) {
    writer.dict(|writer| {
        writer.text("action");
        writer.text(event.action.name());
        match event.action {
            Action::OutOfMemory { device_free } => pair(writer, "device_free", device_free),
            _ => pair(writer, "addr", event.address),
        }
        pair(writer, "size", event.bytes);
        pair(writer, "stream", event.stream);
        pair(writer, "time_us", event.time_us);
        frames(writer);
    });
}

fn pair(writer: &mut Writer, key: &'static str, value: u64) {
    writer.text(key);
    writer.number(value);
}

fn frames(writer: &mut Writer) {
    writer.text("frames");
    writer.list(|_| ());
}
