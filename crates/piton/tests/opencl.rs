//! The pools, the stream engine and the facade on an OpenCL driver, with the checks of the simulated device: random programs
//! beside a plain model, on shared virtual memory and on buffers, in a process of their own.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "vouches for the kernel")]
#![expect(clippy::print_stdout, reason = "what was skipped is printed")]

#[path = "../../piton-opencl/tests/child/apart.rs"]
mod apart;

use apart::apart;
use piton::{
    DeviceBuffer, Devices, Grid, Kernel, Runtime, RuntimeConfig, Stream, sim::Parameter,
    sim::Signature,
};
use piton_opencl::{OpenClConfig, OpenClDriver, OpenClModule};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use std::sync::Arc;

const STREAMS: usize = 3;
const SOURCE: &str = "__kernel void add(__global uint *y, __global const uint *x, uint n) {
    for (uint i = get_group_id(0); i < n; i += get_num_groups(0)) y[i] += x[i];
}";

#[derive(Clone, Copy, Debug)]
enum Op {
    /// A new buffer of a length, full of a value.
    Make(usize, u16, u32),
    Drop(usize),
    Write(usize, usize, u32),
    /// As many elements as the shorter has.
    Copy(usize, usize, usize),
    Add(usize, usize, usize),
    Read(usize, usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let stream = 0..STREAMS;
    let op = prop_oneof![
        3 => (stream.clone(), 1..6000_u16, any::<u32>()).prop_map(|(s, n, v)| Op::Make(s, n, v)),
        2 => any::<usize>().prop_map(Op::Drop),
        1 => (stream.clone(), any::<usize>(), any::<u32>()).prop_map(|(s, b, v)| Op::Write(s, b, v)),
        2 => (stream.clone(), any::<usize>(), any::<usize>()).prop_map(|(s, a, b)| Op::Copy(s, a, b)),
        3 => (stream.clone(), any::<usize>(), any::<usize>()).prop_map(|(s, a, b)| Op::Add(s, a, b)),
        1 => (stream, any::<usize>()).prop_map(|(s, b)| Op::Read(s, b)),
    ];
    prop::collection::vec(op, 1..60)
}

/// A buffer, and what is in it.
type Known = (DeviceBuffer<u32>, Vec<u32>);

/// Two buffers that are not the same, by any numbers.
fn pair(buffers: &mut [Known], a: usize, b: usize) -> Option<[&mut Known; 2]> {
    let count = buffers.len().max(1);
    buffers.get_disjoint_mut([a % count, b % count]).ok()
}

struct Program {
    streams: Vec<Stream>,
    add: Kernel,
    buffers: Vec<Known>,
}

impl Program {
    fn new(runtime: &Runtime) -> Self {
        let device = runtime.device(0).unwrap();
        let stream = |n: usize| device.stream(&n.to_string()).unwrap();
        Self {
            streams: (0..STREAMS).map(stream).collect(),
            add: device.load("m").unwrap().kernel("add").unwrap(),
            buffers: Vec::new(),
        }
    }

    fn run(&mut self, op: Op) {
        let count = self.buffers.len();
        match op {
            Op::Make(stream, length, value) => {
                let stream = &self.streams[stream];
                let mut buffer = stream.allocate(length.into()).unwrap();
                stream.fill(&mut buffer, value).unwrap();
                self.buffers.push((buffer, vec![value; length.into()]));
            }
            Op::Drop(which) if count > 0 => {
                let _gone = self.buffers.swap_remove(which % count);
            }
            Op::Write(stream, which, value) if count > 0 => {
                let (buffer, model) = &mut self.buffers[which % count];
                for (x, n) in model.iter_mut().zip(0..) {
                    *x = value.wrapping_mul(n);
                }
                self.streams[stream].write(&mut *buffer, model).unwrap();
            }
            Op::Read(stream, which) if count > 0 => {
                let (buffer, model) = &self.buffers[which % count];
                assert_eq!(self.streams[stream].read(buffer).unwrap(), *model);
            }
            Op::Copy(stream, a, b) => self.copy(stream, a, b),
            Op::Add(stream, a, b) => self.add(stream, a, b),
            Op::Drop(_) | Op::Write(..) | Op::Read(..) => {}
        }
    }

    fn copy(&mut self, stream: usize, a: usize, b: usize) {
        if let Some([(from, source), (to, target)]) = pair(&mut self.buffers, a, b) {
            let length = source.len().min(target.len());
            let (head, end) = (0..length as u64, length);
            let (from, to) = (from.slice(head.clone()), to.slice_mut(head));
            let stream = &self.streams[stream];
            stream.copy(from.unwrap(), to.unwrap()).unwrap();
            target[..end].copy_from_slice(&source[..end]);
        }
    }

    fn add(&mut self, stream: usize, a: usize, b: usize) {
        if let Some([(y, sum), (x, part)]) = pair(&mut self.buffers, a, b) {
            let length = sum.len().min(part.len());
            let launch = self.streams[stream].launch(&self.add, Grid::linear(3));
            let launch = launch.write(y).read(&*x);
            let count = u32::try_from(length).unwrap();
            launch.value(count).submit().unwrap();
            for (y, x) in sum.iter_mut().zip(part) {
                *y = y.wrapping_add(*x);
            }
        }
    }
}

fn driver(avoids_shared_memory: bool) -> Option<OpenClDriver> {
    let config = OpenClConfig {
        memory_bytes: Some(64 << 20),
        avoids_shared_memory,
        ..OpenClConfig::default()
    };
    let driver = OpenClDriver::open(config)
        .inspect_err(|absence| println!("skipped: {absence}"))
        .ok()?;
    // SAFETY: it adds as many words as it is told, which launches here take from the shorter buffer.
    let module = unsafe { OpenClModule::from_source("m", SOURCE) };
    let takes = [
        Parameter::write::<u32>(),
        Parameter::read::<u32>(),
        Parameter::value::<u32>(),
    ];
    driver.register(module.with("add", Signature::new(takes)));
    Some(driver)
}

/// Random programs on one runtime, whose pools go on from one to the next.
fn assert_agrees(avoids_shared_memory: bool) {
    let Some(driver) = driver(avoids_shared_memory) else {
        return;
    };
    let mut config = RuntimeConfig::on(Devices::Driver(Arc::new(driver)));
    config.memory.block_bytes = Some(1 << 20);
    let runtime = Runtime::new(config).unwrap();
    let cases = Config {
        cases: 24,
        failure_persistence: None,
        ..Config::default()
    };
    let result = TestRunner::new(cases).run(&ops(), |ops| {
        let mut program = Program::new(&runtime);
        ops.into_iter().for_each(|op| program.run(op));
        for (buffer, model) in &program.buffers {
            assert_eq!(program.streams[0].read(buffer).unwrap(), *model);
        }
        for device in runtime.devices() {
            device.memory().check().unwrap();
            device.pinned_pool().check().unwrap();
        }
        Ok(())
    });
    result.unwrap();
    let stats = runtime.device(0).unwrap().memory_stats();
    // Blocks of a mebibyte, and many buffers in each.
    assert!(
        stats.block_allocations * 8 < stats.hits + stats.misses,
        "{stats:?}"
    );
}

#[test]
fn random_programs_agree_with_a_model_on_shared_memory() {
    apart(
        "random_programs_agree_with_a_model_on_shared_memory",
        || {
            assert_agrees(false);
        },
    );
}

#[test]
fn random_programs_agree_with_a_model_on_buffers() {
    apart("random_programs_agree_with_a_model_on_buffers", || {
        assert_agrees(true);
    });
}
