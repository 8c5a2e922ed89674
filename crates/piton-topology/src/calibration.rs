//! What was measured between devices, and the machine that it makes of a modelled one.
//!
//! A measurement is of a pair, and rates belong to links. A pair's rate is the least of its links', so no link carries less
//! than any pair that crosses it was seen to get: each direction of a link is as wide as the fastest of them. Then
//! no pair is promised less than was measured, and where a link of its own joins two devices, or one pair is alone in being
//! limited by a link, just that. Latencies are taken over where the two have one link between them. What was modelled before
//! stays with whoever has the machine; [`Calibration::compare`] shows both.
//!
//! # Invariants
//! At most one measurement for each ordered pair, none of a device and itself.

use core::fmt;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::defaults;
use crate::error::BuildError;
use crate::id::{DeviceId, LinkId, NodeId};
use crate::link::Provenance;
use crate::machine::Machine;
use crate::path::{Medium, Path, Paths, Transit};
use crate::quantity::{BytesPerSec, Nanos};
use crate::route::{CostModel, RouteKind};
use crate::router;

/// What copies from one device to another were measured to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// The rate of a large copy, without the time to start it.
    pub bandwidth: BytesPerSec,
    /// Time until the first byte, without the time to start the copy.
    pub latency: Nanos,
}

/// Measurements of ordered pairs of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    pairs: BTreeMap<(DeviceId, DeviceId), Measured>,
}

/// What the model says of a pair, and what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Where from.
    pub from: DeviceId,
    /// Where to.
    pub to: DeviceId,
    /// What the model promises, over no third device. `None` if it knows no route.
    pub modelled: Option<Measured>,
    /// What was measured.
    pub measured: Measured,
}

impl Calibration {
    /// Makes an empty calibration.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes what copies from `from` to `to` reach. The last of several measurements of a pair counts. Measurements
    /// of a device to itself, or of rate zero, are ignored.
    pub fn set(&mut self, from: DeviceId, to: DeviceId, measured: Measured) {
        if from != to && measured.bandwidth.get() > 0 {
            self.pairs.insert((from, to), measured);
        }
    }

    /// What was measured from one device to another.
    #[must_use]
    pub fn get(&self, from: DeviceId, to: DeviceId) -> Option<Measured> {
        self.pairs.get(&(from, to)).copied()
    }

    /// How many pairs were measured.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Each measurement beside what `machine` promises, by pair. Pairs of devices it does not have are left out.
    #[must_use]
    pub fn compare(&self, machine: &Machine) -> Vec<Compared> {
        let ways = Ways::of(machine, self);
        let compared = self.pairs.iter().filter_map(|(&(from, to), &measured)| {
            machine.device(from).and(machine.device(to))?;
            let modelled = ways.get(from, to).map(|way| Measured {
                bandwidth: way.rate(),
                latency: way.path.latency,
            });
            Some(Compared {
                from,
                to,
                modelled,
                measured,
            })
        });
        compared.collect()
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from, to, measured, ..
        } = self;
        let (rate, latency) = (measured.bandwidth, measured.latency);
        write!(f, "{from} to {to}: measured {rate}, {latency}")?;
        let Some(modelled) = self.modelled else {
            return f.write_str("; no way is modelled");
        };
        let whole = u128::from(modelled.bandwidth.get().max(1));
        let share = (u128::from(rate.get()) * 100 + whole / 2) / whole;
        let (rate, latency) = (modelled.bandwidth, modelled.latency);
        write!(f, "; modelled {rate}, {latency}; {share} % of the model")
    }
}

impl Machine {
    /// The machine with measured rates and latencies in place of the modelled ones, for links that pairs were measured over.
    ///
    /// # Errors
    /// [`BuildError`]: never in practice, because a machine that was built can be built again.
    pub fn calibrated(&self, calibration: &Calibration) -> Result<Self, BuildError> {
        let ways = Ways::of(self, calibration);
        let mut widest: BTreeMap<(LinkId, NodeId), BytesPerSec> = BTreeMap::new();
        let mut latencies: BTreeMap<LinkId, Nanos> = BTreeMap::new();
        for (&(from, to), measured) in &calibration.pairs {
            let (Some(way), Some(mut at)) = (ways.get(from, to), self.device_node(from)) else {
                continue;
            };
            let width = way.width_for(measured.bandwidth);
            for &link in &way.path.links {
                let known = widest.entry((link, at)).or_insert(width);
                *known = width.max(*known);
                let next = self.link(link).and_then(|link| link.other_end(at));
                at = next.unwrap_or(at);
            }
            if let [only] = way.path.links[..] {
                let known = latencies.entry(only).or_insert(measured.latency);
                *known = measured.latency.min(*known);
            }
        }
        let mut builder = self.to_builder();
        for (id, link) in (0..).map(LinkId::new).zip(&mut builder.links) {
            let said = [link.a, link.b].map(|end| widest.get(&(id, end)).copied());
            if said == [None, None] {
                continue;
            }
            link.up = said[0].unwrap_or(link.up);
            link.down = said[1].unwrap_or(link.down);
            link.provenance = Provenance::Measured;
            if let Some(latency) = latencies.get(&id) {
                link.latency = *latency;
                link.latency_provenance = Provenance::Measured;
            }
        }
        builder.build()
    }
}

/// The way that a large copy of each measured pair takes, over no third device.
struct Ways(BTreeMap<DeviceId, Vec<Option<Way>>>);

struct Way {
    path: Path,
    kind: RouteKind,
}

impl Way {
    /// What a copy gets of it.
    fn rate(&self) -> BytesPerSec {
        CostModel::default().through(self.kind, self.path.bottleneck)
    }

    /// What its narrowest link must carry for a copy to get `rate`.
    fn width_for(&self, rate: BytesPerSec) -> BytesPerSec {
        match self.kind {
            RouteKind::HostBridge => {
                let sixth = rate.get().div_ceil(defaults::HOST_BRIDGE_SIXTHS);
                BytesPerSec::new(sixth.saturating_mul(6))
            }
            _ => rate,
        }
    }
}

impl Ways {
    fn of(machine: &Machine, calibration: &Calibration) -> Self {
        let mut ways = BTreeMap::new();
        for (from, _) in calibration.pairs.keys() {
            if let Some(node) = machine.device_node(*from) {
                ways.entry(*from)
                    .or_insert_with(|| ways_from(machine, node));
            }
        }
        Self(ways)
    }

    fn get(&self, from: DeviceId, to: DeviceId) -> Option<&Way> {
        self.0.get(&from)?.get(to.index())?.as_ref()
    }
}

/// Of the device fabric, the host's buses and both, the one on which a copy gets most.
fn ways_from(machine: &Machine, source: NodeId) -> Vec<Option<Way>> {
    let devices = machine.devices();
    let media = [Medium::Any, Medium::Host, Medium::Fabric];
    let mut best: Vec<Option<Way>> = devices.iter().map(|_| None).collect();
    for medium in media {
        let paths = Paths::new(machine, source, medium, Transit::HostOnly).widest(devices);
        for (best, path) in best.iter_mut().zip(paths) {
            let Some(path) = path else { continue };
            let kind = router::kind_of(machine, source, &path.links);
            let way = Way { path, kind };
            // The fabric's comes last and wins where both are as good.
            if best.as_ref().is_none_or(|best| way.rate() >= best.rate()) {
                *best = Some(way);
            }
        }
    }
    best
}
