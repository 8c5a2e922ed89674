//! Copies under way in virtual time, and what they share.
//!
//! # The idea
//! A copy is a flow through its wires: those of its pair, or its link's own direction; to and from the host, those on the
//! way to that memory, or the device's own way there. It is started when its queue comes to it and ends when the flow does, which others may delay that
//! start later. So its end is not known when it starts: the queue goes back on the ready list, and its next turn is when
//! the flow would end as things are. Of all that is ready the earliest runs first, so the first flow to end is
//! ended at its time, and what starts meanwhile starts in order.
//!
//! A leaf lock; the engine takes it under its own, when it asks what is earliest.

use crate::{
    command::Command,
    config::{ClockMode, ScheduleOrder, SimConfig},
    cost,
};
use piton_driver::DeviceId;
use piton_fluid::{FlowId, FlowSpec, Fluid, ResourceId, Use, WHOLE};
use piton_sync::Mutex;
use std::collections::BTreeMap;

/// A copy under way, as its queue remembers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flowing {
    pub(crate) flow: FlowId,
    /// When it began, in virtual time.
    pub(crate) start: u64,
}

#[derive(Debug)]
struct Flows {
    fluid: Fluid,
    /// Flows that have ended and whose queues have not had their turn yet.
    ended: BTreeMap<FlowId, u64>,
}

/// The wires of a copy, and nanoseconds until its first byte.
type Way = (Box<[ResourceId]>, u64);

/// What flows through a machine.
#[derive(Debug)]
pub(crate) struct Traffic {
    flows: Mutex<Flows>,
    /// The way of each ordered pair of devices.
    pairs: BTreeMap<(DeviceId, DeviceId), Way>,
    /// The wires from a device into memory near another, and out of it.
    host_ways: BTreeMap<(DeviceId, DeviceId), [Box<[ResourceId]>; 2]>,
    /// The first device's way to the host, then its way back, then the next device's.
    host: u32,
}

impl Traffic {
    /// The traffic of a machine whose commands run in the order of virtual time.
    pub(crate) fn of(config: &SimConfig) -> Option<Self> {
        let ClockMode::Virtual {
            order: ScheduleOrder::ByTime,
            ..
        } = config.clock
        else {
            return None;
        };
        let mut capacities = config.wires.bytes_per_second.clone();
        let mut pairs = BTreeMap::new();
        for link in &config.links {
            for pair in [(link.a, link.b), (link.b, link.a)] {
                let way = match config.wires.ways.get(&pair) {
                    Some(way) => way.iter().map(|wire| ResourceId(*wire)).collect(),
                    None => [add(&mut capacities, link.bytes_per_second)].into(),
                };
                pairs.insert(pair, (way, link.latency_ns));
            }
        }
        let host = saturated(capacities.len());
        for device in &config.devices {
            capacities.extend([device.host_bytes_per_second; 2]);
        }
        let flows = Flows {
            fluid: Fluid::new(capacities),
            ended: BTreeMap::new(),
        };
        Some(Self {
            flows: Mutex::new(flows),
            pairs,
            host_ways: config.wires.host_ways.iter().map(known).collect(),
            host,
        })
    }

    /// Starts a copy of a queue of `device` at `earliest`, made ready from `prepared` on and slowed down so many times, whose host
    /// memory is near `home`; `None` if it is none that passes through wires.
    pub(crate) fn start(
        &self,
        (device, home): (DeviceId, Option<DeviceId>),
        command: &Command,
        (prepared, earliest): (u64, u64),
        slowness: u64,
    ) -> Option<Flowing> {
        let (way, latency) = self.way(device, home, command)?;
        let slowness = u32::try_from(slowness).unwrap_or(u32::MAX);
        let uses: Vec<Use> = way
            .iter()
            .map(|resource| Use {
                resource: *resource,
                thousandths: WHOLE.saturating_mul(slowness),
            })
            .collect();
        let mut flows = self.flows.lock();
        flows.advance(earliest);
        let start = flows.fluid.now();
        let spec = FlowSpec {
            delay: cost::lead_ns(prepared, start).saturating_add(latency),
            ..FlowSpec::new(uses, command.bytes())
        };
        let flow = flows.fluid.start(spec).ok()?;
        Some(Flowing { flow, start })
    }

    /// When something happens to a flow as things are: when its queue is to have its turn.
    pub(crate) fn next_change(&self, flow: FlowId) -> u64 {
        let mut flows = self.flows.lock();
        if let Some(ended) = flows.ended.get(&flow) {
            return *ended;
        }
        let change = flows.fluid.next_change(flow).ok().flatten();
        change.unwrap_or(u64::MAX)
    }

    /// When the flow has ended, if it ends no later than it would as things are: then it is forgotten. One that gets less
    /// than a byte a second is over when nothing else is left to happen.
    pub(crate) fn finish(&self, flow: FlowId) -> Option<u64> {
        let until = self.next_change(flow);
        let mut flows = self.flows.lock();
        if until == u64::MAX {
            let _stands_still = flows.fluid.cancel(flow);
            return Some(flows.fluid.now());
        }
        flows.advance(until);
        flows.ended.remove(&flow)
    }

    /// Takes a flow away whose copy is given up.
    pub(crate) fn cancel(&self, flow: FlowId) {
        let mut flows = self.flows.lock();
        if flows.ended.remove(&flow).is_none() {
            let _gone = flows.fluid.cancel(flow);
        }
    }

    fn way(&self, device: DeviceId, home: Option<DeviceId>, command: &Command) -> Option<Way> {
        let to_host = self.host.saturating_add(device.0.saturating_mul(2));
        let one = |resource: u32| (Box::from([ResourceId(resource)]), 0);
        let both = home.and_then(|home| self.host_ways.get(&(device, home)));
        let host = |back: u32| match both {
            Some(both) => (both[back as usize].clone(), 0),
            None => one(to_host.saturating_add(back)),
        };
        match command {
            Command::CopyToHost { .. } => Some(host(0)),
            Command::CopyToDevice { .. } => Some(host(1)),
            Command::CopyPeer { dst, src, .. } => {
                let pair = self.pairs.get(&(src.device, dst.device));
                Some(pair.cloned().unwrap_or_else(|| one(to_host)))
            }
            _ => None,
        }
    }
}

type Pair = (DeviceId, DeviceId);

/// Ways to host memory as resources.
fn known((pair, both): (&Pair, &[Box<[u32]>; 2])) -> (Pair, [Box<[ResourceId]>; 2]) {
    let resources = |way: &[u32]| way.iter().map(|wire| ResourceId(*wire)).collect();
    let [into, out_of] = both;
    (*pair, [resources(into), resources(out_of)])
}

impl Flows {
    /// Lets time pass until `time`, if it is not there yet.
    fn advance(&mut self, time: u64) {
        let time = time.max(self.fluid.now());
        while let Some(ended) = self.fluid.ended_until(time) {
            self.ended.insert(ended.flow, ended.at);
        }
    }
}

fn add(capacities: &mut Vec<u64>, capacity: u64) -> ResourceId {
    capacities.push(capacity);
    ResourceId(saturated(capacities.len() - 1))
}

fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
