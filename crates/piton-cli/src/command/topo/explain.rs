//! Routes in sentences: each that was considered, and how a copy would take several at once.

use piton_topology::{DeviceId, StripePlan};

use super::Study;
use crate::quantity;

/// Pairs whose routes are explained in text unless somebody asks for one; more fill screens.
const MAX_EXPLAINED_DEVICES: usize = 8;

pub(super) fn text(study: &Study<'_>) -> String {
    let mut text = format!("routes for copies of {}:", quantity::bytes(study.bytes));
    let is_shown = |(from, to): &(DeviceId, DeviceId)| {
        let few = |id: &DeviceId| id.index() < MAX_EXPLAINED_DEVICES;
        study.is_narrowed() || (from < to && few(from) && few(to))
    };
    let mut count = 0;
    for (from, to) in study.pairs().filter(is_shown) {
        let candidates = study.router.candidates(from, to, study.bytes);
        for candidate in candidates.unwrap_or_default() {
            text.push_str(&format!("\n  {candidate}"));
            count += 1;
        }
        if let Some(plan) = study
            .striped(from, to)
            .filter(|plan| plan.stripes.len() > 1)
        {
            text.push_str(&striped(study, from, to, &plan));
        }
    }
    if count == 0 {
        text.push_str("\n  there are no two devices to copy between");
    }
    if !study.is_narrowed() && study.machine.device_count() > MAX_EXPLAINED_DEVICES {
        text.push_str(&format!(
            "\n  (the first {MAX_EXPLAINED_DEVICES} devices; --from and --to explain others, --json has all)"
        ));
    }
    text
}

/// One line for the whole, and one for each part if a pair was asked for.
fn striped(study: &Study<'_>, from: DeviceId, to: DeviceId, plan: &StripePlan) -> String {
    let bytes = study.bytes;
    let rates = plan.stripes.iter().map(|stripe| stripe.rate.get());
    let rate = piton_topology::BytesPerSec::new(rates.sum());
    let mut text = format!(
        "\n  {from} to {to} over {} routes at once: {bytes} bytes in {} at {rate}",
        plan.stripes.len(),
        plan.time,
    );
    if study.from.is_none() || study.to.is_none() {
        return text;
    }
    for stripe in &plan.stripes {
        text.push_str(&format!(
            "\n    {} {}, {} at {}",
            quantity::bytes(stripe.bytes),
            stripe.kind,
            names(study, &stripe.hops),
            stripe.rate,
        ));
    }
    text
}

/// The links of a route as `a - b`, in order.
fn names(study: &Study<'_>, hops: &[piton_topology::LinkId]) -> String {
    let links = hops.iter().filter_map(|id| study.machine.link(*id));
    let ends = links.filter_map(|link| {
        let [a, b] = [link.a, link.b].map(|id| study.machine.node(id));
        Some(format!("{} [{} - {}]", link.kind, a?.name, b?.name))
    });
    ends.collect::<Vec<_>>().join(", ")
}
