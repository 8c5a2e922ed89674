//! What the facade adds or saves: launches with and without a trace, modules loaded and found again.

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use piton::sim::{KernelDefinition, Parameter, Signature, SimModule};
use piton::{Device, Grid, Kernel, Runtime, RuntimeError};

/// Launches between two synchronisations.
const LAUNCHES: u32 = 256;

fn runtime() -> Result<Runtime, RuntimeError> {
    let runtime = Runtime::simulated(1)?;
    let signature = Signature::new([Parameter::value::<u32>()]);
    let empty = KernelDefinition::new("empty", signature, |_| Ok(()));
    runtime.register(SimModule::new("bench").with(empty))?;
    Ok(runtime)
}

fn device() -> Device {
    let device = runtime().and_then(|runtime| runtime.device(0));
    device.unwrap_or_else(|error| panic!("{error}"))
}

fn kernel(device: &Device) -> Kernel {
    let found = device
        .load("bench")
        .and_then(|module| module.kernel("empty"));
    found.unwrap_or_else(|error| panic!("{error}"))
}

/// Time of so many rounds of launches, each up to the end of its last.
fn launches(device: &Device, rounds: u64, is_traced: bool) -> Duration {
    let kernel = kernel(device);
    let stream = device.stream("bench");
    let stream = stream.unwrap_or_else(|error| panic!("{error}"));
    let round = || {
        for value in 0..LAUNCHES {
            let launch = stream.launch(&kernel, Grid::linear(1));
            launch.value(value).submit()?;
        }
        stream.synchronize()
    };
    let mut total = Duration::ZERO;
    for _ in 0..rounds {
        if is_traced {
            // Threads take room in portions: a little more than is needed.
            assert!(device.start_trace(2 * LAUNCHES as usize));
        }
        let start = Instant::now();
        round().unwrap_or_else(|error| panic!("{error}"));
        total += start.elapsed();
        let records = device.finish_trace().map_or(0, |trace| trace.records.len());
        assert_eq!(records, if is_traced { LAUNCHES as usize } else { 0 });
    }
    total
}

fn trace(c: &mut Criterion) {
    let device = device();
    let mut group = c.benchmark_group("launch_256");
    for (name, is_traced) in [("untraced", false), ("traced", true)] {
        group.bench_function(name, |b| {
            b.iter_custom(|rounds| launches(&device, rounds, is_traced));
        });
    }
    group.finish();
}

fn modules(c: &mut Criterion) {
    let device = device();
    let mut group = c.benchmark_group("load_and_find_kernel");
    group.bench_function("cold", |b| {
        b.iter(|| {
            device.unload_modules();
            kernel(&device)
        });
    });
    group.bench_function("warm", |b| b.iter(|| kernel(&device)));
    group.finish();
}

criterion_group!(benches, trace, modules);
criterion_main!(benches);
