//! Random programs over buffers and streams give what the same program gives run line by line, without a
//! single event or wait in them: the buffers order the streams.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{DeviceBuffer, Grid, Runtime, Stream, sim::ScheduleOrder, sim::SimConfig};
use proptest::prelude::*;
use support::{check, runtime, sanitized, small_devices};

const WORDS: usize = 128;
const BUFFERS: usize = 4;
const STREAMS: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Fill(usize, usize, u32),
    Scale(usize, usize, u32),
    Add(usize, usize, usize),
    Copy(usize, usize, usize),
    Write(usize, usize, u32),
    Replace(usize, usize),
    Read(usize, usize),
}

fn op() -> impl Strategy<Value = Op> {
    let (s, b, v) = (0..STREAMS, 0..BUFFERS, 1..1000_u32);
    prop_oneof![
        (s.clone(), b.clone(), v.clone()).prop_map(|(s, b, v)| Op::Fill(s, b, v)),
        (s.clone(), b.clone(), v.clone()).prop_map(|(s, b, v)| Op::Scale(s, b, v)),
        (s.clone(), b.clone(), b.clone()).prop_map(|(s, x, y)| Op::Add(s, x, y)),
        (s.clone(), b.clone(), b.clone()).prop_map(|(s, x, y)| Op::Copy(s, x, y)),
        (s.clone(), b.clone(), v).prop_map(|(s, b, v)| Op::Write(s, b, v)),
        (s.clone(), b.clone()).prop_map(|(s, b)| Op::Replace(s, b)),
        (s, b).prop_map(|(s, b)| Op::Read(s, b)),
    ]
}

/// Two different buffers at once: one to write, one to read.
fn pair(
    buffers: &mut [DeviceBuffer<u32>],
    to: usize,
    from: usize,
) -> (&mut DeviceBuffer<u32>, &DeviceBuffer<u32>) {
    let [to, from] = buffers.get_disjoint_mut([to, from]).unwrap();
    (to, from)
}

fn run(runtime: &Runtime, program: &[Op]) {
    let device = runtime.device(0).unwrap();
    let module = device.load("test").unwrap();
    let (add, scale) = (
        module.kernel("add").unwrap(),
        module.kernel("scale").unwrap(),
    );
    let streams: Vec<Stream> = (0..STREAMS)
        .map(|n| device.stream(&n.to_string()).unwrap())
        .collect();
    let fresh = |stream: &Stream| stream.allocate_zeroed::<u32>(WORDS as u64).unwrap();
    let mut buffers: Vec<_> = (0..BUFFERS).map(|_| fresh(&streams[0])).collect();
    let mut model = vec![0_u32; BUFFERS];
    let grid = Grid::linear(2);
    for op in program {
        match *op {
            Op::Fill(s, b, v) => {
                streams[s].fill(&mut buffers[b], v).unwrap();
                model[b] = v;
            }
            Op::Scale(s, b, v) => {
                streams[s]
                    .launch(&scale, grid)
                    .write(&mut buffers[b])
                    .value(v)
                    .submit()
                    .unwrap();
                model[b] = model[b].wrapping_mul(v);
            }
            Op::Add(s, to, from) if to != from => {
                let (y, x) = pair(&mut buffers, to, from);
                streams[s]
                    .launch(&add, grid)
                    .write(y)
                    .read(x)
                    .submit()
                    .unwrap();
                model[to] = model[to].wrapping_add(model[from]);
            }
            Op::Copy(s, to, from) if to != from => {
                let (y, x) = pair(&mut buffers, to, from);
                streams[s].copy(x, y).unwrap();
                model[to] = model[from];
            }
            Op::Write(s, b, v) => {
                streams[s].write(&mut buffers[b], &[v; WORDS]).unwrap();
                model[b] = v;
            }
            Op::Replace(s, b) => {
                buffers[b] = fresh(&streams[s]);
                model[b] = 0;
            }
            Op::Read(s, b) => assert_eq!(streams[s].read(&buffers[b]).unwrap(), [model[b]; WORDS]),
            Op::Add(..) | Op::Copy(..) => {}
        }
    }
    for (buffer, expected) in buffers.iter().zip(&model) {
        assert_eq!(streams[0].read(buffer).unwrap(), [*expected; WORDS]);
    }
    check(runtime);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_schedule_gives_what_the_program_says(
        program in prop::collection::vec(op(), 1..60),
        seed in any::<u64>(),
    ) {
        let config = small_devices(1).in_virtual_time(seed, ScheduleOrder::Seeded);
        run(&runtime(config), &program);
    }

    #[test]
    fn threads_give_what_the_program_says(program in prop::collection::vec(op(), 1..60)) {
        run(&runtime(SimConfig { workers: Some(2), ..small_devices(1) }), &program);
    }

    #[test]
    fn a_sanitizer_finds_nothing_to_report(
        program in prop::collection::vec(op(), 1..60),
        seed in any::<u64>(),
    ) {
        let config = small_devices(1).in_virtual_time(seed, ScheduleOrder::Seeded);
        run(&sanitized(config), &program);
        run(&sanitized(SimConfig { workers: Some(2), ..small_devices(1) }), &program);
    }
}
