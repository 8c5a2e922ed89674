//! What the figures of a trace mean, in a sentence or three: does it fit, what is saved, what to change.

use super::summary::TraceResult;
use super::{Placement, ReplayOptions};
use crate::quantity;

/// Peak held over peak live from which on something is to be gained.
const MUCH: f64 = 1.05;
/// Driver calls to a hundred allocations from which on they are felt.
const MANY_CALLS: u64 = 5;

/// The verdict on one trace.
pub(super) fn of(result: &TraceResult, options: &ReplayOptions) -> String {
    let mut sentences = vec![fits(result, options)];
    sentences.extend(saved(result));
    sentences.extend(smallest(result));
    sentences.extend(advice(result, options));
    format!("{}: {}", result.trace, sentences.join(" "))
}

fn fits(result: &TraceResult, options: &ReplayOptions) -> String {
    let device = quantity::bytes(options.device_bytes());
    let live = quantity::bytes(result.peak_live);
    match result.out_of_memory {
        0 => format!(
            "fits on {device}; the pool held {} for {live} live at most.",
            quantity::bytes(result.peak_held)
        ),
        refused => format!(
            "does not fit on {device}: {} of its requests were refused, {live} were served at most.",
            quantity::count(refused)
        ),
    }
}

/// Beside PyTorch's allocator, or best fit where that is not known.
fn saved(result: &TraceResult) -> Option<String> {
    if result.out_of_memory > 0 {
        return None;
    }
    let (name, theirs) = match result.peers.pytorch {
        Some(theirs) => ("PyTorch's default allocator", theirs),
        None => ("best fit in one range", result.peers.best_fit?),
    };
    let (ours, theirs_shown) = (result.peak_held, quantity::bytes(theirs));
    Some(if theirs > ours {
        format!(
            "That is {} ({}) less than the {theirs_shown} of {name}.",
            quantity::bytes(theirs - ours),
            quantity::percent(share(theirs - ours, theirs))
        )
    } else {
        format!(
            "That is {} more than the {theirs_shown} of {name}.",
            quantity::bytes(ours - theirs)
        )
    })
}

fn smallest(result: &TraceResult) -> Option<String> {
    let minimum = result.minimum.as_ref()?;
    let at = |index: usize| minimum.curve.get(index);
    let (tight, roomy) = (at(0)?, at(2)?);
    let failing = match minimum.failing_above {
        0 => String::new(),
        failing => format!(" Of the 16 sizes above it {failing} do not run it: leave some room."),
    };
    Some(format!(
        "The smallest device that runs it has {}, with {} driver calls ({:.2} s by the model); with 2 % more it is {} ({:.2} s).{failing}",
        quantity::bytes(minimum.capacity),
        quantity::count(tight.driver_calls),
        tight.modelled_seconds,
        quantity::count(roomy.driver_calls),
        roomy.modelled_seconds
    ))
}

fn advice(result: &TraceResult, options: &ReplayOptions) -> Option<String> {
    let many_calls = result.driver_calls * 100 > result.allocations * MANY_CALLS;
    if result.out_of_memory > 0 {
        return Some(match (&result.minimum, options.placement) {
            (Some(_), _) => "Take a device of that size.".to_owned(),
            (None, Placement::Blocks) => {
                "Try --placement virtual, and --capacity min for the smallest device that runs it."
                    .to_owned()
            }
            (None, Placement::Virtual) => {
                "Find the smallest device that runs it with --capacity min.".to_owned()
            }
        });
    }
    if result.ratio > MUCH && options.placement == Placement::Blocks {
        return Some(
            "Pages mapped where they are needed hold less: --placement virtual.".to_owned(),
        );
    }
    if result.ratio > MUCH && result.waits == 0 && options.lag > 0 {
        return Some("Let lanes hand memory on with waits: cross_lane.".to_owned());
    }
    if many_calls {
        return Some("The driver is asked often: reserve the peak at the start.".to_owned());
    }
    None
}

#[expect(clippy::cast_precision_loss, reason = "a share of two digits")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
