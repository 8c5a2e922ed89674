//! Copies between simulated devices in real time, beside memcpy of as many bytes: from one device straight to the other,
//! guarded and not, and staged through page-locked memory.
//!
//! Both ends are memory of this machine, so memcpy is all that can be had. Memory is touched before.

use std::{error::Error, hint::black_box};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use piton::{
    DeviceBuffer, Devices, Runtime, RuntimeConfig, Stream, TransferConfig,
    sim::{DeviceConfig, SimConfig},
};

const SIZES: [u64; 3] = [64 << 10, 4 << 20, 64 << 20];

struct Bench {
    stream: Stream,
    source: DeviceBuffer<u8>,
    target: DeviceBuffer<u8>,
}

impl Bench {
    /// Two devices that reach each other's memory, or do not.
    fn new(bytes: u64, are_peers: bool, guarded_bytes: u64) -> Result<Self, Box<dyn Error>> {
        let mut sim = SimConfig::uniform(2, &DeviceConfig::default());
        for link in &mut sim.links {
            link.allows_peer_access = are_peers;
        }
        let mut config = RuntimeConfig::on(Devices::Simulated(sim));
        config.transfers = Some(TransferConfig {
            guarded_bytes,
            ..TransferConfig::one_way()
        });
        let runtime = Runtime::new(config)?;
        let (from, to) = (runtime.device(0)?, runtime.device(1)?);
        let (stream, filling) = (to.stream("copy")?, from.stream("fill")?);
        let mut source = filling.allocate::<u8>(bytes)?;
        filling.fill(&mut source, 1)?;
        let mut bench = Self {
            target: stream.allocate::<u8>(bytes)?,
            stream,
            source,
        };
        // The leg is tried, and every page touched.
        bench.copy()?;
        Ok(bench)
    }

    fn copy(&mut self) -> Result<(), Box<dyn Error>> {
        self.stream.copy_peer(&self.source, &mut self.target)?;
        Ok(self.stream.synchronize()?)
    }
}

fn copying(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("transfer/copy");
    for bytes in SIZES {
        group.throughput(Throughput::Bytes(bytes));
        let Ok(length) = usize::try_from(bytes) else {
            continue;
        };
        let (source, mut target) = (vec![1_u8; length], vec![0_u8; length]);
        group.bench_function(BenchmarkId::new("memcpy", bytes), |bencher| {
            bencher.iter(|| black_box(&mut target).copy_from_slice(black_box(&source)));
        });
        for (name, are_peers, guarded_bytes) in [
            ("one-command", true, u64::MAX),
            ("guarded", true, 0),
            ("staged", false, 0),
        ] {
            let Ok(mut bench) = Bench::new(bytes, are_peers, guarded_bytes) else {
                continue;
            };
            group.bench_function(BenchmarkId::new(name, bytes), |bencher| {
                bencher.iter(|| black_box(bench.copy().is_ok()));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, copying);
criterion_main!(benches);
