//! Collectives on top of copies between devices: all-reduce, all-gather and broadcast over the shape that the machine
//! has, in virtual time, beside what the links could do at most.
//!
//! `cargo run --release --example collectives -- mesh|ring 8`

#![expect(clippy::print_stdout, reason = "an example tells what it did")]

mod group;
mod operations;
mod shape;

use group::{Group, Outcome};
use piton::{
    Devices, Machine, Runtime, RuntimeConfig, TransferConfig,
    sim::{DeviceConfig, ScheduleOrder},
};
use piton_topology::LinkKind;
use shape::Shape;

/// Elements of a vector on each device: 32 MiB.
const LEN: usize = 8 << 20;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let shape = arguments.next();
    let count = arguments.next().map_or(Ok(8), |count| count.parse())?;
    let machine = machine(shape.as_deref().unwrap_or("mesh"), count)?;
    for operation in [
        Operation::AllReduce,
        Operation::AllGather,
        Operation::Broadcast,
    ] {
        println!("{}", run(&machine, operation, LEN)?);
    }
    Ok(())
}

/// The machine of a shape that has a name.
fn machine(shape: &str, count: u16) -> Outcome<Machine> {
    match shape {
        "mesh" => Ok(Machine::mesh(count, LinkKind::Hccs, 1)?),
        "ring" => Ok(Machine::ring(count, LinkKind::Hccs, 1)?),
        other => Err(format!("no shape `{other}`: mesh or ring").into()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    AllReduce,
    AllGather,
    Broadcast,
}

/// What came of one collective.
struct Report {
    operation: Operation,
    shape: Shape,
    took_ns: u64,
    /// What it takes at least: the bytes that the busiest link must carry, over its rate.
    bound_ns: u64,
}

impl Report {
    /// The share of what the links allow.
    fn reached(&self) -> f64 {
        self.bound_ns as f64 / self.took_ns as f64
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reached = self.reached();
        let (operation, shape) = (self.operation, &self.shape);
        write!(
            f,
            "{operation:?} over {shape:?}: {} us, {reached:.3} of the bound of {} us",
            self.took_ns / 1_000,
            self.bound_ns / 1_000
        )
    }
}

fn run(machine: &Machine, operation: Operation, len: usize) -> Outcome<Report> {
    let group = Group::new(&runtime(machine)?)?;
    let shape = Shape::of(machine);
    let mut copies = group.copies(len, |device| (device + 1) as f32)?;
    // Once for the legs to be tried; then the copies anew.
    operations::all_gather(&group, &shape, &mut copies)?;
    group.synchronize()?;
    drop(copies);
    let mut copies = group.copies(len, |device| (device + 1) as f32)?;
    let start = group.now_ns()?;
    match operation {
        Operation::AllReduce => operations::all_reduce(&group, &shape, &mut copies)?,
        Operation::AllGather => operations::all_gather(&group, &shape, &mut copies)?,
        Operation::Broadcast => operations::broadcast(&group, &shape, 0, &mut copies)?,
    }
    let took_ns = group.now_ns()? - start;
    check(&group, operation, &copies)?;
    Ok(Report {
        operation,
        took_ns,
        bound_ns: bound_ns(machine, &shape, operation, len),
        shape,
    })
}

fn runtime(machine: &Machine) -> Outcome<Runtime> {
    let device = DeviceConfig {
        memory_bytes: 512 << 20,
        hardware_queues: 32,
        // Two streams for each of the others.
        peer_engines: 16,
        ..DeviceConfig::default()
    };
    let mut config = RuntimeConfig::simulated_machine(machine, &device)?;
    if let Devices::Simulated(sim) = config.devices {
        config.devices = Devices::Simulated(sim.in_virtual_time(1, ScheduleOrder::ByTime));
    }
    // Everybody sends at once: there is nothing that nobody needs for a copy to take beside its own link.
    config.transfers = Some(TransferConfig::one_way());
    Ok(Runtime::new(config)?)
}

/// Every element of every copy is what it should be.
fn check(group: &Group, operation: Operation, copies: &[group::Copy]) -> Outcome {
    for (device, copy) in copies.iter().enumerate() {
        for (shard, pieces) in copy.iter().enumerate() {
            let expected = match operation {
                Operation::AllReduce => (group.count * (group.count + 1) / 2) as f32,
                Operation::AllGather => (shard + 1) as f32,
                Operation::Broadcast => 1.0,
            };
            for piece in pieces {
                let read = group.read(device, piece)?;
                if let Some(wrong) = read.iter().find(|element| **element != expected) {
                    return Err(format!("{operation:?}: {wrong} for {expected} on {device}").into());
                }
            }
        }
    }
    Ok(())
}

fn bound_ns(machine: &Machine, shape: &Shape, operation: Operation, len: usize) -> u64 {
    let count = machine.device_count() as u64;
    let bytes = (len * size_of::<f32>()) as u64;
    let shard = bytes / count;
    let on_one_link = match (shape, operation) {
        (Shape::Mesh, Operation::AllGather) => shard,
        (Shape::Mesh, _) => 2 * shard,
        (Shape::Ring(_), Operation::AllReduce) => 2 * (count - 1) * shard,
        (Shape::Ring(_), Operation::AllGather) => (count - 1) * shard,
        (Shape::Ring(_), Operation::Broadcast) => bytes,
    };
    let rate = u128::from(shape::least_rate(machine, shape).max(1));
    let nanos = u128::from(on_one_link) * 1_000_000_000 / rate;
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_without_a_machine_is_refused_by_its_name() {
        let refused = machine("torus", 8).unwrap_err();
        assert_eq!(refused.to_string(), "no shape `torus`: mesh or ring");
        assert!(machine("mesh", 8).is_ok() && machine("ring", 8).is_ok());
    }

    /// Every collective over a machine of eight devices: right, never quicker than its links, and so much of what they allow.
    fn reaches(machine: &Machine, least: [(Operation, f64); 3]) {
        for (operation, least) in least {
            let report = run(machine, operation, LEN).unwrap();
            let reached = report.reached();
            assert!(least <= reached && reached <= 1.0, "{report}");
        }
    }

    #[test]
    fn eight_devices_with_links_to_all_use_them_all() {
        let mesh = Machine::mesh(8, LinkKind::Hccs, 1).unwrap();
        assert_eq!(Shape::of(&mesh), Shape::Mesh);
        let least = [
            (Operation::AllReduce, 0.9),
            (Operation::AllGather, 0.9),
            (Operation::Broadcast, 0.9),
        ];
        reaches(&mesh, least);
    }

    #[test]
    fn eight_devices_in_a_ring_keep_every_link_of_it_busy() {
        let ring = Machine::ring(8, LinkKind::Hccs, 1).unwrap();
        assert!(matches!(Shape::of(&ring), Shape::Ring(order) if order.len() == 8));
        let least = [
            (Operation::AllReduce, 0.9),
            (Operation::AllGather, 0.9),
            // The last device gets the first piece when it has come past seven others.
            (Operation::Broadcast, 0.65),
        ];
        reaches(&ring, least);
    }

    #[test]
    fn a_length_that_cannot_be_cut_is_refused() {
        let pair = Machine::mesh(2, LinkKind::Hccs, 1).unwrap();
        for len in [0, 1, LEN + 1] {
            assert!(run(&pair, Operation::AllReduce, len).is_err());
        }
    }
}
