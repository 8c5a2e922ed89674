//! Two ways of doing one thing, measured in turns.

use std::time::{Duration, Instant};

/// How long some work takes.
pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Prints the median and the least time of both, and the ratios. Each time is of `per` things.
#[expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a table for people"
)]
pub(crate) fn compare(
    name: &str,
    rounds: usize,
    per: u32,
    mut raw: impl FnMut() -> Duration,
    mut ours: impl FnMut() -> Duration,
) {
    let (mut of_raw, mut of_ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        of_raw.push(raw());
        of_ours.push(ours());
    }
    of_raw.sort_unstable();
    of_ours.sort_unstable();
    let nanos = |times: &[Duration], at: usize| times[at].as_nanos() as f64 / f64::from(per);
    let middle = rounds / 2;
    println!(
        "{name:<28} raw {:>10.0} [{:>9.0}]   piton {:>10.0} [{:>9.0}]   ratio {:.3} [{:.3}]",
        nanos(&of_raw, middle),
        nanos(&of_raw, 0),
        nanos(&of_ours, middle),
        nanos(&of_ours, 0),
        nanos(&of_ours, middle) / nanos(&of_raw, middle),
        nanos(&of_ours, 0) / nanos(&of_raw, 0),
    );
}
