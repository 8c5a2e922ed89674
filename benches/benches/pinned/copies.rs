//! Copies between host and simulated device beside a plain memcpy between memory of the same kinds.
//!
//! A simulated device's memory is a shared mapping; so is the other end of the plain copy, and both ends of all have been
//! touched. What counts is the wall's time: a staged copy has two threads at work.

#![expect(unsafe_code, reason = "maps pages, and copies them plainly")]
#![expect(
    clippy::expect_used,
    reason = "a benchmark without memory or device ends"
)]

use crate::subject::median;
use comfy_table::Table;
use piton::{
    DeviceBuffer, Devices, Locking, PinnedBuffer, Runtime, RuntimeConfig, Stream,
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

/// All ends of one size's copies, touched.
struct Ends {
    plain: &'static mut [u8],
    ordinary: Vec<u8>,
    locked: Option<PinnedBuffer<u8>>,
    device: DeviceBuffer<u8>,
    stream: Stream,
}

/// What is compared: to the device and from it.
const WAYS: [&str; 6] = [
    "memcpy to",
    "locked to",
    "staged to",
    "memcpy from",
    "locked from",
    "staged from",
];

impl Ends {
    fn new(bytes: usize) -> Self {
        let device = DeviceConfig {
            memory_bytes: 1 << 30,
            ..DeviceConfig::default()
        };
        let mut config = RuntimeConfig::on(Devices::Simulated(SimConfig::uniform(1, &device)));
        config.pinned.locking = Locking::Preferred;
        let runtime = Runtime::new(config).expect("a device");
        let device = runtime.device(0).expect("a device");
        let stream = device.stream("copies").expect("a stream");
        let device = stream.allocate_zeroed(bytes as u64).expect("memory");
        let locked = stream.pinned(bytes).expect("locked memory");
        let plain = shared_pages(bytes);
        plain.fill(1);
        Self {
            plain,
            ordinary: vec![1; bytes],
            locked: Some(locked),
            device,
            stream,
        }
    }

    /// One copy, and its end.
    fn copy(&mut self, way: usize) {
        let stream = &self.stream;
        match way {
            0 => self.plain.copy_from_slice(black_box(&self.ordinary)),
            1 => {
                let locked = self.locked.take().expect("it came back");
                let sent = stream.copy_to_device(locked, &mut self.device);
                self.locked = Some(sent.expect("a copy").wait().expect("its end"));
            }
            2 => {
                let written = stream.write(&mut self.device, &self.ordinary);
                written.and_then(|()| stream.synchronize()).expect("a copy");
            }
            3 => self.ordinary.copy_from_slice(black_box(self.plain)),
            4 => {
                let locked = self.locked.take().expect("it came back");
                let landed = stream.copy_to_host(&self.device, locked);
                self.locked = Some(landed.expect("a copy").wait().expect("its end"));
            }
            _ => {
                let read = stream.read_into(&self.device, &mut self.ordinary);
                read.expect("a copy");
            }
        }
    }
}

/// One row a size: GB/s of plain copies, and the others over them, of samples that took turns.
pub(crate) fn table(is_full: bool) -> Table {
    let (samples, sizes) = if is_full {
        (21, &[1, 8, 64, 256][..])
    } else {
        (1, &[8][..])
    };
    let mut table = Table::new();
    table.set_header([
        "MiB",
        "memcpy to the device's kind, GB/s",
        "locked / memcpy",
        "staged / memcpy",
        "memcpy from it, GB/s",
        "locked / memcpy",
        "staged / memcpy",
    ]);
    for mebibytes in sizes {
        let bytes = mebibytes << 20;
        let mut ends = Ends::new(bytes);
        (0..WAYS.len()).for_each(|way| ends.copy(way));
        let mut spent = WAYS.map(|_| Vec::new());
        for _ in 0..samples {
            for (way, spent) in spent.iter_mut().enumerate() {
                let began = Instant::now();
                ends.copy(way);
                spent.push(began.elapsed().as_secs_f64());
            }
        }
        let spent = spent.map(|samples| median(&samples));
        let rate = |way: usize| format!("{:.1}", bytes as f64 / spent[way] / 1e9);
        let over = |way: usize, plain: usize| format!("{:.2}", spent[plain] / spent[way]);
        table.add_row([
            mebibytes.to_string(),
            rate(0),
            over(1, 0),
            over(2, 0),
            rate(3),
            over(4, 3),
            over(5, 3),
        ]);
    }
    table
}
