//! Everything as JSON: the machine, its matrices, each route considered, each copy over several routes.

use piton_topology::{
    BytesPerSec, Calibration, Candidate, Compared, DeviceId, Matrix, Nanos, StripePlan, Transit,
    Valued,
};
use serde::Serialize;

use super::Study;
use crate::command::Failure;

/// Machines with more devices have no plans over several routes for all pairs: they would fill files.
const MAX_STRIPED_DEVICES: usize = 16;

#[derive(Serialize)]
struct Json<'a> {
    machine: serde_json::Value,
    copy_bytes: u64,
    matrix: Matrices,
    routes: Vec<Candidate<'a>>,
    striped: Vec<Striped>,
    /// What was modelled and what was measured, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Vec<Compared>>,
}

/// Rows and columns are devices, then network controllers.
#[derive(Serialize)]
struct Matrices {
    names: Vec<String>,
    /// `NV4`, `PIX`, …
    distances: Vec<Vec<String>>,
    /// Bytes a second of the nearest path; none for a device to itself.
    nearest_bytes_per_second: Vec<Vec<Option<u64>>>,
    /// The NUMA nodes near each.
    numa: Vec<Vec<u16>>,
    /// Between devices alone, over the widest and the quickest way, each value with where it comes from.
    bandwidths: Values<BytesPerSec>,
    latencies: Values<Nanos>,
}

/// Rows of pairs of devices; none where there is no way.
type Values<T> = Vec<Vec<Option<Valued<T>>>>;

#[derive(Serialize)]
struct Striped {
    from: DeviceId,
    to: DeviceId,
    /// The most that all routes carry, bytes a second.
    max_flow: u64,
    plan: StripePlan,
}

pub(super) fn text(study: &Study<'_>, measured: Option<&Calibration>) -> Result<String, Failure> {
    let text = study.machine.to_json().map_err(Failure::result)?;
    let candidates = |(from, to)| study.router.candidates(from, to, study.bytes);
    let has_striped = study.is_narrowed() || study.machine.device_count() <= MAX_STRIPED_DEVICES;
    let json = Json {
        machine: serde_json::from_str(&text).map_err(Failure::result)?,
        copy_bytes: study.bytes,
        matrix: matrices(study),
        routes: study
            .pairs()
            .flat_map(|pair| candidates(pair).unwrap_or_default())
            .collect(),
        striped: study
            .pairs()
            .filter(|_| has_striped)
            .filter_map(|(from, to)| striped(study, from, to))
            .collect(),
        measured: measured.map(|known| known.compare(study.machine)),
    };
    serde_json::to_string_pretty(&json).map_err(Failure::result)
}

fn striped(study: &Study<'_>, from: DeviceId, to: DeviceId) -> Option<Striped> {
    let free = piton_topology::Residual::of(study.machine);
    Some(Striped {
        from,
        to,
        max_flow: study.planner.max_flow(from, to, &free).ok()?.get(),
        plan: study.striped(from, to)?,
    })
}

fn matrices(study: &Study<'_>) -> Matrices {
    let machine = study.machine;
    let endpoints = machine.endpoints();
    let relations = machine.relations(&endpoints);
    let nearest = machine.nearest_paths(&endpoints);
    let name = |id| {
        machine
            .node(id)
            .map_or_else(String::new, |node| node.name.clone())
    };
    let numa = |id| {
        machine
            .nearest_numa_nodes(id)
            .iter()
            .map(|numa| numa.get())
            .collect()
    };
    let words = |row: &[piton_topology::Relation]| row.iter().map(ToString::to_string).collect();
    Matrices {
        names: endpoints.iter().map(|id| name(*id)).collect(),
        distances: relations.rows().map(words).collect(),
        nearest_bytes_per_second: nearest
            .rows()
            .map(|row| {
                let rates = row.iter().map(|path| Some(path.as_ref()?.bottleneck.get()));
                rates.collect()
            })
            .collect(),
        numa: endpoints.iter().map(|id| numa(*id)).collect(),
        bandwidths: rows(&machine.valued_bandwidths(Transit::HostOnly)),
        latencies: rows(&machine.valued_latencies(Transit::HostOnly)),
    }
}

fn rows<T: Copy>(matrix: &Matrix<Option<Valued<T>>>) -> Values<T> {
    matrix.rows().map(<[_]>::to_vec).collect()
}
