//! What a report is made of: numbers and names, nothing that runs.
//!
//! Every part may be empty; the page then leaves its section out. Times are nanoseconds from one start that all
//! devices share, sizes are bytes.

/// All that one page shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportData {
    /// Heading.
    pub title: String,
    /// One sentence under the heading: what was run.
    pub subtitle: String,
    /// The few numbers that matter most, as cards.
    pub facts: Vec<Fact>,
    /// What was verified.
    pub checks: Vec<Check>,
    /// Loss and accuracy over the steps.
    pub training: Vec<TrainingPoint>,
    /// What each device did when.
    pub devices: Vec<DeviceTimeline>,
    /// Which work waited for which.
    pub arrows: Vec<Arrow>,
    /// Beginnings of steps, ascending.
    pub steps: Vec<StepMark>,
    /// Memory over time, a chart each.
    pub memory: Vec<MemoryView>,
    /// What addresses held over time, a picture each.
    pub addresses: Vec<AddressView>,
    /// The machine.
    pub topology: Option<Topology>,
    /// Which way copies took.
    pub routes: Vec<RouteRow>,
    /// Anything else, as tables.
    pub tables: Vec<Table>,
}

/// One number with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is.
    pub label: String,
    /// The number with its unit.
    pub value: String,
    /// What to know about it; may be empty.
    pub note: String,
}

/// One thing that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was verified.
    pub name: String,
    /// Did it hold?
    pub has_passed: bool,
    /// The numbers behind it.
    pub detail: String,
}

/// One step of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingPoint {
    /// Step from 0.
    pub step: u64,
    /// Mean loss.
    pub loss: f64,
    /// Share of held-back images that were right, `0.0..=1.0`, where it was measured.
    pub accuracy: Option<f64>,
}

/// What one device did when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceTimeline {
    /// The device's name.
    pub name: String,
    /// Its streams.
    pub lanes: Vec<LaneTimeline>,
}

/// What one stream did when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneTimeline {
    /// The stream's name.
    pub name: String,
    /// What it did, in any order.
    pub spans: Vec<Span>,
}

/// One thing a stream did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// When it began.
    pub start_ns: u64,
    /// When it ended; not before it began.
    pub end_ns: u64,
    /// What kind of thing it was.
    pub kind: SpanKind,
    /// Its name: the kernel's, or what was copied.
    pub name: String,
    /// Bytes moved, 0 if none.
    pub bytes: u64,
}

/// Kinds of spans, which decide their colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpanKind {
    /// A kernel ran.
    Kernel,
    /// Host memory was copied to a device.
    CopyToDevice,
    /// Device memory was copied to the host.
    CopyToHost,
    /// Device memory was copied, to the same device or to another.
    CopyPeer,
    /// Memory was filled.
    Fill,
    /// A function ran on the host.
    HostFunction,
    /// The stream waited for another.
    Wait,
}

impl SpanKind {
    /// All kinds, in the order of the legend.
    pub const ALL: [Self; 7] = [
        Self::Kernel,
        Self::CopyToDevice,
        Self::CopyToHost,
        Self::CopyPeer,
        Self::Fill,
        Self::HostFunction,
        Self::Wait,
    ];

    /// The kind in words.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::CopyToDevice => "copy to device",
            Self::CopyToHost => "copy to host",
            Self::CopyPeer => "copy between devices",
            Self::Fill => "fill",
            Self::HostFunction => "host function",
            Self::Wait => "wait",
        }
    }
}

/// A wait: from the end of what was waited for to the end of the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrow {
    /// Device and lane of what was waited for, as indices.
    pub from: (usize, usize),
    /// When that ended.
    pub from_ns: u64,
    /// Device and lane that waited.
    pub to: (usize, usize),
    /// When the wait was over.
    pub to_ns: u64,
}

/// The beginning of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepMark {
    /// When it began.
    pub start_ns: u64,
    /// Step from 0.
    pub step: u64,
}

/// What the horizontal axis of a memory chart counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeAxis {
    /// Nanoseconds.
    #[default]
    Nanoseconds,
    /// Events of a trace.
    Events,
}

/// Memory over time, as one chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryView {
    /// What it is the memory of.
    pub title: String,
    /// What the samples' positions count.
    pub axis: TimeAxis,
    /// Samples in order of position.
    pub samples: Vec<MemorySample>,
    /// Further curves in the same chart, for comparison.
    pub others: Vec<Curve>,
}

/// What addresses held over time, as one picture of columns and rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressView {
    /// Whose addresses.
    pub title: String,
    /// Moments of the first and the last column, in events.
    pub events: (u64, u64),
    /// Bytes of all rows together, each of which has as many.
    pub bytes: u64,
    /// What most bytes of a cell were: columns in order of time, each with its rows from the lowest address up.
    pub columns: Vec<Vec<AddressUse>>,
}

/// What bytes at an address are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressUse {
    /// In use by the program.
    Live,
    /// Given back, and not known to be done with.
    Pending,
    /// Held, and free for all.
    Hole,
    /// No memory is there.
    Unbacked,
}

impl AddressUse {
    /// All, in the order of the legend.
    pub const ALL: [Self; 4] = [Self::Live, Self::Pending, Self::Hole, Self::Unbacked];

    /// Its name in the legend.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Live => "in use",
            Self::Pending => "given back, not done with",
            Self::Hole => "hole: held and free",
            Self::Unbacked => "no memory here",
        }
    }
}

/// Memory at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySample {
    /// Position on the axis.
    pub at: u64,
    /// Bytes in use by the program.
    pub live: u64,
    /// Bytes held by the pool.
    pub held: u64,
}

/// A curve with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Position and value, in order of position.
    pub points: Vec<(f64, f64)>,
}

/// The machine as a drawing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Markup of an SVG drawing. It goes into the page as it is: whoever makes it escapes the names in it.
    pub svg: String,
    /// What it shows.
    pub caption: String,
}

/// Copies that took one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRow {
    /// Where from.
    pub from: String,
    /// Where to.
    pub to: String,
    /// Which way, in words.
    pub route: String,
    /// How many copies.
    pub copies: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// A table of text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Heading.
    pub title: String,
    /// What to know about it; may be empty.
    pub note: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, each as long as there are columns.
    pub rows: Vec<Vec<String>>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// Is it a column of numbers, aligned at their ends?
    pub is_number: bool,
}

impl Column {
    /// A column of words.
    #[must_use]
    pub fn text(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_number: false,
        }
    }

    /// A column of numbers.
    #[must_use]
    pub fn number(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_number: true,
        }
    }
}
