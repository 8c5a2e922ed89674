//! Devices that work together: their streams, and vectors of which each device has a copy, cut into pieces.
//!
//! A vector is cut into as many shards as there are devices, and a shard into [`PIECES`]. A piece is a buffer, so that
//! pieces move and are added independently: buffers know their uses, and nothing here waits for anything by hand.

use piton::{DeviceBuffer, Grid, Kernel, Runtime, Stream, sim};
use std::error::Error;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Pieces of a shard: while one is added the next is on its way.
pub(crate) const PIECES: usize = 4;
/// Elements that a block of the adding kernel takes.
const BLOCK: u64 = 16_384;
/// Nanoseconds such a block takes: it moves 192 KiB in memory of 1 TB/s, on two cores.
const BLOCK_NS: u64 = 400;

/// One device's copy of a vector: pieces by shard.
pub(crate) type Copy = Vec<Vec<DeviceBuffer<f32>>>;

/// Devices with streams to each other.
pub(crate) struct Group {
    pub(crate) count: usize,
    /// On device `a` for what comes from `b`: two streams, so that one starts while the other copies.
    incoming: Vec<Vec<[Stream; 2]>>,
    adding: Vec<Stream>,
    add: Vec<Kernel>,
}

impl Group {
    pub(crate) fn new(runtime: &Runtime) -> Outcome<Self> {
        runtime.register(sim::SimModule::new("collectives").with(adding()))?;
        let mut group = Self {
            count: runtime.devices().len(),
            incoming: Vec::new(),
            adding: Vec::new(),
            add: Vec::new(),
        };
        for device in runtime.devices() {
            let stream = |label: &str| device.stream(label);
            let pair = |_| Ok([stream("in, even")?, stream("in, odd")?]);
            let pairs: Outcome<Vec<_>> = (0..group.count).map(pair).collect();
            group.incoming.push(pairs?);
            group.adding.push(stream("add")?);
            group.add.push(device.load("collectives")?.kernel("add")?);
        }
        Ok(group)
    }

    /// A copy on each device, `len` elements each, filled by device.
    ///
    /// # Errors
    /// A length that is not a multiple of the elements that pieces and the adding kernel's blocks need.
    pub(crate) fn copies(&self, len: usize, fill: impl Fn(usize) -> f32) -> Outcome<Vec<Copy>> {
        let mut copies = self.room(len)?;
        for (device, copy) in copies.iter_mut().enumerate() {
            for piece in copy.iter_mut().flatten() {
                self.adding[device].fill(piece, fill(device))?;
            }
        }
        Ok(copies)
    }

    /// Room for a copy on each device, holding whatever was in that memory before.
    pub(crate) fn room(&self, len: usize) -> Outcome<Vec<Copy>> {
        let unit = self.count * PIECES * usize::try_from(BLOCK)?;
        if len == 0 || !len.is_multiple_of(unit) {
            return Err(format!("{len} elements are no multiple of {unit}").into());
        }
        let piece = (len / self.count / PIECES) as u64;
        let copy = |stream: &Stream| {
            let shard = |_| (0..PIECES).map(|_| Ok(stream.allocate(piece)?)).collect();
            (0..self.count).map(shard).collect::<Outcome<Copy>>()
        };
        self.adding.iter().map(copy).collect()
    }

    /// Sends one piece of device `from` into one of device `to`.
    pub(crate) fn send(
        &self,
        (from, to, number): (usize, usize, usize),
        source: &DeviceBuffer<f32>,
        target: &mut DeviceBuffer<f32>,
    ) -> Outcome {
        Ok(self.incoming[to][from][number % 2].copy_peer(source, target)?)
    }

    /// Adds one piece of a device to another of the same.
    pub(crate) fn add(
        &self,
        device: usize,
        sum: &mut DeviceBuffer<f32>,
        more: &DeviceBuffer<f32>,
    ) -> Outcome {
        let blocks = u32::try_from(sum.len().div_ceil(BLOCK))?;
        let launch = self.adding[device].launch(&self.add[device], Grid::linear(blocks));
        Ok(launch.write(sum).read(more).submit()?)
    }

    pub(crate) fn read(&self, device: usize, piece: &DeviceBuffer<f32>) -> Outcome<Vec<f32>> {
        Ok(self.adding[device].read(piece)?)
    }

    /// Waits for everything.
    pub(crate) fn synchronize(&self) -> Outcome {
        let incoming = self.incoming.iter().flatten().flatten();
        for stream in incoming.chain(&self.adding) {
            stream.synchronize()?;
        }
        Ok(())
    }

    /// The virtual time when all that was submitted has ended, in nanoseconds. Everything is waited for.
    pub(crate) fn now_ns(&self) -> Outcome<u64> {
        self.synchronize()?;
        let mut latest = 0;
        for stream in &self.adding {
            // Idle until now: what it does next starts when the host has seen the others end.
            stream.call_host(|| {})?;
            let event = stream.record_timed()?;
            stream.synchronize()?;
            latest = latest.max(event.time_ns()?.unwrap_or(0));
        }
        Ok(latest)
    }
}

/// `add`: y[i] += x[i].
fn adding() -> sim::KernelDefinition {
    let signature = sim::Signature::new([
        sim::Parameter::write::<f32>(),
        sim::Parameter::read::<f32>(),
    ]);
    sim::KernelDefinition::new("add", signature, |block| {
        let start = u64::from(block.index().x) * BLOCK;
        let range = start..start + BLOCK;
        let x = block.read::<f32>(1, range.clone())?;
        for (y, x) in block.write::<f32>(0, range)?.iter_mut().zip(x) {
            *y += x;
        }
        Ok(())
    })
    .taking(BLOCK_NS)
}
