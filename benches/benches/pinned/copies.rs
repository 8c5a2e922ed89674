//! Copies between host and simulated device beside a plain memcpy between memory of the same kinds.
//!
//! A simulated device's memory is a shared mapping; so is the other end of the plain copy, and both ends of all have been
//! touched. What counts is the wall's time: a staged copy may have two threads at work. Where one has all of it, its own time
//! is told beside.

#![expect(unsafe_code, reason = "maps pages, and copies them plainly")]
#![expect(
    clippy::expect_used,
    reason = "a benchmark without memory or device ends"
)]

use crate::{clock::thread_time, subject::median};
use comfy_table::Table;
use piton::{
    DeviceBuffer, Devices, Locking, PinnedBuffer, Runtime, RuntimeConfig, StagedWay, Stream,
    sim::{DeviceConfig, SimConfig},
};
use rustix::{
    fs::{MemfdFlags, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap},
};
use std::{hint::black_box, ptr, time::Instant};

/// Shared pages, as those of a simulated device are; they stay mapped to the end of the program.
pub(crate) fn shared_pages(bytes: usize) -> &'static mut [u8] {
    let pages = memfd_create("bench", MemfdFlags::CLOEXEC).expect("a memfd");
    ftruncate(&pages, bytes as u64).expect("its length");
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: without MAP_FIXED the system picks a range that nothing uses.
    let start = unsafe { mmap(ptr::null_mut(), bytes, prot, MapFlags::SHARED, &pages, 0) };
    // SAFETY: the range was just mapped, is zeroed, known to nobody else, and never unmapped.
    unsafe { std::slice::from_raw_parts_mut(start.expect("pages").cast(), bytes) }
}

/// A device of a runtime that stages copies in a given way, or in the one that it measures.
struct Staging {
    device: DeviceBuffer<u8>,
    stream: Stream,
}

impl Staging {
    fn new(bytes: usize, way: Option<StagedWay>) -> Self {
        let device = DeviceConfig {
            memory_bytes: 1 << 30,
            ..DeviceConfig::default()
        };
        let mut config = RuntimeConfig::on(Devices::Simulated(SimConfig::uniform(1, &device)));
        config.pinned.locking = Locking::Preferred;
        config.pinned.staging.way = way;
        let runtime = Runtime::new(config).expect("a device");
        let device = runtime.device(0).expect("a device");
        let stream = device.stream("copies").expect("a stream");
        let device = stream.allocate_zeroed(bytes as u64).expect("memory");
        Self { device, stream }
    }
}

/// All ends of one size's copies, touched.
struct Ends {
    plain: &'static mut [u8],
    ordinary: Vec<u8>,
    locked: Option<PinnedBuffer<u8>>,
    /// By way: overlapped, in turn, measured.
    staging: [Staging; 3],
}

/// What is compared, to the device and from it: a memcpy, page-locked memory, and the ways of staging.
const WAYS: usize = 5;
const BOTH: usize = 2 * WAYS;

impl Ends {
    fn new(bytes: usize) -> Self {
        let ways = [Some(StagedWay::Overlapped), Some(StagedWay::InTurn), None];
        let staging = ways.map(|way| Staging::new(bytes, way));
        let locked = staging[0].stream.pinned(bytes).expect("locked memory");
        let plain = shared_pages(bytes);
        plain.fill(1);
        Self {
            plain,
            ordinary: vec![1; bytes],
            locked: Some(locked),
            staging,
        }
    }

    /// One copy, and its end.
    fn copy(&mut self, way: usize) {
        let Staging { stream, device } = &mut self.staging[(way % WAYS).saturating_sub(2)];
        match way {
            0 => self.plain.copy_from_slice(black_box(&self.ordinary)),
            1 => {
                let locked = self.locked.take().expect("it came back");
                let sent = stream.copy_to_device(locked, device);
                self.locked = Some(sent.expect("a copy").wait().expect("its end"));
            }
            2..WAYS => {
                let written = stream.write(device, &self.ordinary);
                written.and_then(|()| stream.synchronize()).expect("a copy");
            }
            WAYS => self.ordinary.copy_from_slice(black_box(self.plain)),
            6 => {
                let locked = self.locked.take().expect("it came back");
                let landed = stream.copy_to_host(&*device, locked);
                self.locked = Some(landed.expect("a copy").wait().expect("its end"));
            }
            _ => {
                let read = stream.read_into(&*device, &mut self.ordinary);
                read.expect("a copy");
            }
        }
    }
}

/// A row a size and direction: GB/s of plain copies, and the others over them, of samples that took turns.
pub(crate) fn table(is_full: bool) -> Table {
    let (samples, sizes) = if is_full {
        (21, &[1, 8, 64, 256][..])
    } else {
        (1, &[8][..])
    };
    let mut table = Table::new();
    table.set_header([
        "MiB",
        "",
        "memcpy, GB/s",
        "locked / memcpy",
        "staged, overlapped",
        "staged, in turn",
        "the same, own time",
        "staged, as measured",
    ]);
    for mebibytes in sizes {
        let bytes = mebibytes << 20;
        let mut ends = Ends::new(bytes);
        (0..BOTH).for_each(|way| ends.copy(way));
        let mut spent = [const { (Vec::new(), Vec::new()) }; BOTH];
        let (mut order, mut random) = ([0; BOTH], fastrand::Rng::with_seed(7));
        (0..BOTH).for_each(|way| order[way] = way);
        for _ in 0..samples {
            // On a busy machine a thread that has slept is served first: who comes behind a way that waits would gain by it.
            random.shuffle(&mut order);
            for way in order {
                let (began, own) = (Instant::now(), thread_time());
                ends.copy(way);
                spent[way].1.push((thread_time() - own).as_secs_f64());
                spent[way].0.push(began.elapsed().as_secs_f64());
            }
        }
        let spent = spent.map(|(wall, own)| (median(&wall), median(&own)));
        for (name, spent) in ["to it", "from it"].iter().zip(spent.chunks(WAYS)) {
            let mut row = vec![mebibytes.to_string(), (*name).to_owned()];
            row.push(format!("{:.1}", bytes as f64 / spent[0].0 / 1e9));
            row.extend((1..WAYS).map(|way| format!("{:.2}", spent[0].0 / spent[way].0)));
            // One thread alone is at work here, and what else the machine does takes none of its own time.
            row.insert(6, format!("{:.2}", spent[0].1 / spent[3].1));
            table.add_row(row);
        }
    }
    table
}
