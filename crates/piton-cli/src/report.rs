//! A page that shows what a run did.
//!
//! [`render`] is a pure function from plain numbers ([`ReportData`]) to one HTML file that needs nothing else: style and
//! script are inside, nothing is fetched. The file stays below [`MAX_BYTES`] whatever the run: a timeline shows a
//! window of whole steps in full and the rest as shares of time, curves are thinned to what a screen can show.
//!
//! All text is escaped where it enters the page ([`html`]); only the drawing of the machine comes in as markup.
//! Without script the page still shows everything but the timeline.

mod address_map;
pub mod chart;
pub mod data;
mod html;
mod page;
mod timeline;

pub use data::{
    AddressUse, AddressView, Arrow, Check, Column, Curve, DeviceTimeline, Fact, LaneTimeline,
    MemorySample, MemoryView, ReportData, RouteRow, Span, SpanKind, StepMark, Table, TimeAxis,
    Topology, TrainingPoint,
};
pub use page::render;

/// Size a report stays below, in bytes, as long as its tables and its drawing are of reasonable size.
pub const MAX_BYTES: usize = 3 << 20;
