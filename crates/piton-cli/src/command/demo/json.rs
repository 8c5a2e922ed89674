//! A demonstration as JSON.

use piton::Operation;
use serde::Serialize;

use crate::command::Failure;
use crate::demo::{Copying, Outcome};

#[derive(Serialize)]
struct Json<'a> {
    devices: usize,
    steps: usize,
    batch_per_device: usize,
    seed: u64,
    deterministic: bool,
    accuracy: f64,
    loss: Vec<f64>,
    largest_difference: f64,
    tolerance: f64,
    step_ns_median: u64,
    wall_seconds: f64,
    launches: u64,
    copies: Vec<JsonCopies>,
    copying: Option<JsonCopying>,
    pool_hits: u64,
    pool_misses: u64,
    peak_live_bytes: u64,
    peak_held_bytes: u64,
    checks: Vec<JsonCheck<'a>>,
}

#[derive(Serialize)]
struct JsonCopies {
    from: String,
    to: String,
    route: String,
    copies: u64,
    bytes: u64,
}

/// Copies in real time, and their rates over a memcpy's.
#[derive(Serialize)]
struct JsonCopying {
    bytes: u64,
    memcpy_seconds: f64,
    straight_of_memcpy: f64,
    staged_of_memcpy: f64,
}

impl From<&Copying> for JsonCopying {
    fn from(copying: &Copying) -> Self {
        let [straight_of_memcpy, staged_of_memcpy] = copying.of_memcpy();
        Self {
            bytes: copying.bytes,
            memcpy_seconds: copying.memcpy.as_secs_f64(),
            straight_of_memcpy,
            staged_of_memcpy,
        }
    }
}

#[derive(Serialize)]
struct JsonCheck<'a> {
    name: &'a str,
    passed: bool,
    detail: &'a str,
}

pub(super) fn text(outcome: &Outcome) -> Result<String, Failure> {
    let config = &outcome.options.config;
    let checks = outcome.checks();
    let sum = |of: fn(&piton::PoolStats) -> u64| outcome.pools.iter().map(of).sum::<u64>();
    let times = outcome.step_times();
    let json = Json {
        devices: config.devices,
        steps: config.steps,
        batch_per_device: config.batch_per_device,
        seed: config.seed,
        deterministic: outcome.options.is_deterministic,
        accuracy: outcome.accuracy,
        loss: outcome.training.iter().map(|point| point.loss).collect(),
        largest_difference: outcome.comparison.largest_difference,
        tolerance: outcome.comparison.tolerance,
        step_ns_median: times.get(times.len() / 2).copied().unwrap_or_default(),
        wall_seconds: outcome.wall.as_secs_f64(),
        launches: outcome.launches,
        copies: copies(outcome),
        copying: outcome.copying.as_ref().map(JsonCopying::from),
        pool_hits: sum(|pool| pool.hits),
        pool_misses: sum(|pool| pool.misses),
        peak_live_bytes: sum(|pool| pool.peak_live_bytes),
        peak_held_bytes: sum(|pool| pool.peak_held_bytes),
        checks: checks
            .iter()
            .map(|check| JsonCheck {
                name: &check.name,
                passed: check.has_passed,
                detail: &check.detail,
            })
            .collect(),
    };
    serde_json::to_string_pretty(&json).map_err(Failure::result)
}

fn copies(outcome: &Outcome) -> Vec<JsonCopies> {
    let host = [
        ("host", "devices", Operation::CopyToDevice),
        ("devices", "host", Operation::CopyToHost),
    ];
    let host = host.map(|(from, to, operation)| {
        let (copies, bytes) = outcome.copied(operation);
        JsonCopies {
            from: from.to_owned(),
            to: to.to_owned(),
            route: "copy engine".to_owned(),
            copies,
            bytes,
        }
    });
    let peer = outcome.routes.iter().map(|route| JsonCopies {
        from: route.from.to_string(),
        to: route.to.to_string(),
        route: route.kind.to_string(),
        copies: route.copies,
        bytes: route.bytes,
    });
    // Without a trace nobody has counted the former.
    let host = host.into_iter().filter(|_| !outcome.traces.is_empty());
    host.chain(peer).collect()
}
