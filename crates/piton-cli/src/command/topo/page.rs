//! The page with a drawing of the machine, and of the copy somebody asks about.

use piton_topology::Highlight;

use super::{Options, Study};
use crate::quantity;
use crate::report::{Fact, ReportData, Topology};

pub(super) fn page(study: &Study<'_>, options: &Options) -> ReportData {
    let machine = study.machine;
    let name = options.source.as_ref().map_or_else(
        || "this machine".to_owned(),
        |path| path.display().to_string(),
    );
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
    let plan = pair.and_then(|(from, to)| study.striped(from, to));
    let Some(((from, to), plan)) = pair.zip(plan) else {
        return Topology {
            svg: piton_topology::svg(study.machine, &[]),
            caption: String::new(),
        };
    };
    let label = |stripe: &piton_topology::Stripe| {
        let (bytes, kind) = (quantity::bytes(stripe.bytes), stripe.kind);
        format!("{bytes} {kind} at {}", stripe.rate)
    };
    let labels: Vec<String> = plan.stripes.iter().map(label).collect();
    let parts = plan.stripes.iter().zip(&labels);
    let highlights: Vec<Highlight<'_>> = parts
        .map(|(stripe, label)| Highlight {
            from,
            to,
            hops: &stripe.hops,
            label,
            weight: stripe.bytes,
        })
        .collect();
    Topology {
        svg: piton_topology::svg(study.machine, &highlights),
        caption: format!(
            "{} from {from} to {to} in {}",
            quantity::bytes(study.bytes),
            plan.time
        ),
    }
}
