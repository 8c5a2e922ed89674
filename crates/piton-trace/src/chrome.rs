//! Writing the file.

use crate::{
    DeviceTrace,
    arrow::{Place, WaitArrow, waits},
    event::{self, CommandArgs, Complete, Flow, Metadata, MetadataArgs, Micros},
    row::{QueueRows, rows, span},
};
use piton_driver::QueueId;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Commands.
    pub commands: u64,
    /// Waits with an arrow.
    pub arrows: u64,
    /// Commands that the traces say they dropped; the file says so too.
    pub dropped: u64,
}

/// Writes traces of one driver's devices to `out` in the trace event format of Chromium, which Perfetto reads: a JSON
/// object with `traceEvents`.
///
/// Writes piece by piece, each event on a line of its own: wrap a file in a [`BufWriter`](io::BufWriter). Times are
/// those of the records, in microseconds with three decimals; devices' clocks are not related to each other.
///
/// # Errors
/// What writing to `out` fails with; what was written until then is not a whole file.
pub fn write_chrome<W: Write>(out: W, traces: &[DeviceTrace]) -> io::Result<Written> {
    let layout = Layout::of(traces);
    let mut writer = Writer {
        out,
        is_first: true,
        written: Written::default(),
    };
    writer.open(traces)?;
    for (device, trace) in traces.iter().enumerate() {
        writer.names(device, trace, &layout)?;
        writer.commands(device, trace, &layout)?;
    }
    for (id, arrow) in waits(traces).iter().enumerate() {
        writer.arrow(id, arrow, traces, &layout)?;
    }
    writer.close()
}

/// Which thread of the file each record is on.
struct Layout {
    devices: Vec<DeviceLayout>,
}

struct DeviceLayout {
    /// Each queue with its first thread and its rows.
    queues: BTreeMap<QueueId, (usize, QueueRows)>,
    /// The thread of each record.
    threads: Vec<usize>,
}

impl Layout {
    fn of(traces: &[DeviceTrace]) -> Self {
        // Threads have numbers of their own over all devices: some readers go by the number alone.
        let mut next = 1;
        let device = |trace: &DeviceTrace| {
            let mut threads = vec![0; trace.records.len()];
            let mut queues = BTreeMap::new();
            for (queue, rows) in rows(&trace.records) {
                for (record, row) in rows.records.iter().zip(&rows.rows) {
                    threads[*record] = next + row;
                }
                let first = next;
                next += rows.count;
                queues.insert(queue, (first, rows));
            }
            DeviceLayout { queues, threads }
        };
        Self {
            devices: traces.iter().map(device).collect(),
        }
    }

    fn thread(&self, place: Place) -> usize {
        let device = self.devices.get(place.device);
        let thread = device.and_then(|device| device.threads.get(place.record));
        thread.copied().unwrap_or(0)
    }
}

struct Writer<W> {
    out: W,
    is_first: bool,
    written: Written,
}

/// What the file says of itself.
#[derive(Serialize)]
struct OtherData {
    program: &'static str,
    clocks: &'static str,
    commands_dropped: u64,
}

impl<W: Write> Writer<W> {
    fn open(&mut self, traces: &[DeviceTrace]) -> io::Result<()> {
        let dropped = traces.iter().map(|trace| trace.dropped);
        self.written.dropped = dropped.fold(0, u64::saturating_add);
        let about = OtherData {
            program: "piton",
            clocks: "each device has its own; times of two devices compare as far as their clocks do",
            commands_dropped: self.written.dropped,
        };
        self.out
            .write_all(b"{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
        serde_json::to_writer(&mut self.out, &about)?;
        self.out.write_all(b",\"traceEvents\":[")
    }

    fn event(&mut self, event: &impl Serialize) -> io::Result<()> {
        let between: &[u8] = if self.is_first { b"\n" } else { b",\n" };
        self.is_first = false;
        self.out.write_all(between)?;
        Ok(serde_json::to_writer(&mut self.out, event)?)
    }

    fn names(&mut self, device: usize, trace: &DeviceTrace, layout: &Layout) -> io::Result<()> {
        let info = &trace.device;
        let name = format!("{} {}", info.id, info.name);
        self.metadata("process_name", (device, None), MetadataArgs::Name(&name))?;
        let place = MetadataArgs::SortIndex(device);
        self.metadata("process_sort_index", (device, None), place)?;
        for (queue, (first, rows)) in &layout.devices[device].queues {
            let label = rows.records.first();
            let label = label.and_then(|record| trace.records[*record].label.as_deref());
            for row in 0..rows.count {
                let (name, thread) = (thread_name(*queue, label, row), first + row);
                let of = (device, Some(thread));
                self.metadata("thread_name", of, MetadataArgs::Name(&name))?;
                self.metadata("thread_sort_index", of, MetadataArgs::SortIndex(thread))?;
            }
        }
        Ok(())
    }

    fn metadata(
        &mut self,
        name: &'static str,
        (device, tid): (usize, Option<usize>),
        args: MetadataArgs<'_>,
    ) -> io::Result<()> {
        self.event(&Metadata {
            ph: "M",
            name,
            pid: process(device),
            tid,
            args,
        })
    }

    fn commands(&mut self, device: usize, trace: &DeviceTrace, layout: &Layout) -> io::Result<()> {
        let rows = layout.devices[device].queues.values();
        for index in rows.flat_map(|(_, rows)| &rows.records) {
            let record = &trace.records[*index];
            let (start, end) = span(record);
            self.event(&Complete {
                ph: "X",
                name: event::name(record),
                cat: event::category(record.operation),
                pid: process(device),
                tid: layout.devices[device].threads[*index],
                ts: Micros(start),
                dur: Micros(end - start),
                args: CommandArgs::of(record),
            })?;
            self.written.commands += 1;
        }
        Ok(())
    }

    fn arrow(
        &mut self,
        id: usize,
        arrow: &WaitArrow,
        traces: &[DeviceTrace],
        layout: &Layout,
    ) -> io::Result<()> {
        let times = |place: Place| span(&traces[place.device].records[place.record]);
        // Just before the end: an event holds its start and not its end.
        let last = |place: Place| {
            let (start, end) = times(place);
            end.saturating_sub(1).max(start)
        };
        // Whoever signals is met by the wait before he has ended himself.
        let from = last(arrow.awaited).min(last(arrow.wait));
        let from = from.max(times(arrow.awaited).0);
        let mut point = |ph, place: Place, at| {
            self.event(&Flow {
                ph,
                name: "wait",
                cat: "wait",
                id,
                pid: process(place.device),
                tid: layout.thread(place),
                ts: Micros(at),
                bp: (ph != "s").then_some("e"),
            })
        };
        point("s", arrow.awaited, from)?;
        match arrow.next {
            Some(next) => {
                point("t", arrow.wait, last(arrow.wait))?;
                point("f", next, times(next).0)?;
            }
            None => point("f", arrow.wait, last(arrow.wait))?,
        }
        self.written.arrows += 1;
        Ok(())
    }

    fn close(mut self) -> io::Result<Written> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.written)
    }
}

/// The number of a device's process: 0 is taken for the idle process by some readers.
fn process(device: usize) -> usize {
    device + 1
}

fn thread_name(queue: QueueId, label: Option<&str>, row: usize) -> String {
    let name = label.map_or_else(|| queue.to_string(), str::to_owned);
    match row {
        0 => name,
        row => format!("{name} (beside, {row})"),
    }
}
