//! The page with a drawing of the machine, and of the copy somebody asks about.

use piton_topology::{BytesPerSec, DeviceId, Highlight, LinkId, Nanos, RouteKind, Stripe};
use std::sync::Arc;

use super::{Options, Study};
use crate::quantity;
use crate::report::{Fact, ReportData, Topology};

pub(super) fn page(study: &Study<'_>, options: &Options) -> ReportData {
    let machine = study.machine;
    let names: Vec<String> = options
        .sources
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let name = if names.is_empty() {
        "this machine".to_owned()
    } else {
        names.join(", ")
    };
    let fact = |label: &str, count: usize| Fact {
        label: label.to_owned(),
        value: count.to_string(),
        note: String::new(),
    };
    ReportData {
        title: "Machine".to_owned(),
        subtitle: name,
        facts: vec![
            fact("devices", machine.device_count()),
            fact("links", machine.links().len()),
            fact("NUMA nodes", machine.numa().len()),
        ],
        topology: Some(drawing(study)),
        ..ReportData::default()
    }
}

/// The machine; if one copy is asked about, with the links that its parts take.
fn drawing(study: &Study<'_>) -> Topology {
    let pair = study.from.zip(study.to);
    let Some((from, to, copy)) =
        pair.and_then(|(from, to)| Some((from, to, copy(study, from, to)?)))
    else {
        return Topology {
            svg: piton_topology::svg(study.machine, &[]),
            caption: String::new(),
        };
    };
    let label = |part: &Part| {
        let (bytes, kind) = (quantity::bytes(part.bytes), part.kind);
        format!("{bytes} {kind} at {}", part.rate)
    };
    let labels: Vec<String> = copy.parts.iter().map(label).collect();
    let parts = copy.parts.iter().zip(&labels);
    let highlights: Vec<Highlight<'_>> = parts
        .map(|(part, label)| Highlight {
            from,
            to,
            hops: &part.hops,
            label,
            weight: part.bytes,
        })
        .collect();
    Topology {
        svg: piton_topology::svg(study.machine, &highlights),
        caption: format!(
            "{} from {from} to {to} in {}",
            quantity::bytes(study.bytes),
            copy.time
        ),
    }
}

/// What a copy takes, and how long.
struct Copy {
    parts: Vec<Part>,
    time: Nanos,
}

struct Part {
    kind: RouteKind,
    hops: Arc<[LinkId]>,
    bytes: u64,
    rate: BytesPerSec,
}

/// The copy over several routes, or as the routes' list has it if one is best.
fn copy(study: &Study<'_>, from: DeviceId, to: DeviceId) -> Option<Copy> {
    let plan = study.striped(from, to);
    if let Some(plan) = plan.filter(|plan| plan.stripes.len() > 1) {
        let part = |stripe: Stripe| Part {
            kind: stripe.kind,
            hops: stripe.hops,
            bytes: stripe.bytes,
            rate: stripe.rate,
        };
        return Some(Copy {
            time: plan.time,
            parts: plan.stripes.into_iter().map(part).collect(),
        });
    }
    let route = study.router.route(from, to, study.bytes).ok()?;
    let whole = Part {
        kind: route.kind,
        hops: route.hops.clone(),
        bytes: study.bytes,
        rate: route.rate(),
    };
    Some(Copy {
        time: study.router.duration(route, study.bytes),
        parts: vec![whole],
    })
}
