//! The machine's own tail: a loop that touches nothing, and how long it takes when something gets between.
//!
//! Interrupts, other programs and the hypervisor show here and in every other row alike.

use crate::{
    measure::{Effort, Samples, sample},
    report::{Sheet, figure},
    session::Session,
};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

const ADDITIONS: u32 = 1000;

pub(crate) fn measure(session: &mut Session) {
    let effort = session.effort;
    session.measure("nothing: 1000 additions", None, |_| additions(effort));
    session.fill("nothing: what keeps a thread from it", |_| {
        interruptions(effort.watch())
    });
}

fn additions(effort: Effort) -> Samples {
    sample(effort, 1, |samples| {
        samples.time(|| (0..ADDITIONS).fold(0, |sum: u32, next| black_box(sum.wrapping_add(next))));
    })
}

/// How long a thread was away from a loop, in microseconds: where the classes that are counted begin.
const AWAY: [u128; 5] = [1, 2, 5, 12, 100];

/// What a loop that only reads the clock is kept from, for each second that it had a core, and how many interrupts the
/// system has counted meanwhile: what is more than those comes from below the system.
fn interruptions(watch: Duration) -> Sheet {
    let interrupts_before = timer_interrupts();
    let (started, mut before) = (Instant::now(), Instant::now());
    let (mut counts, mut elsewhere) = ([0_u64; AWAY.len()], Duration::ZERO);
    while started.elapsed() < watch {
        let now = Instant::now();
        let away = now.duration_since(before);
        before = now;
        let reached = AWAY.iter().take_while(|least| away.as_micros() >= **least);
        let Some(class) = reached.count().checked_sub(1) else {
            continue;
        };
        counts[class] += 1;
        if class == AWAY.len() - 1 {
            elsewhere += away;
        }
    }
    let own = watch.saturating_sub(elsewhere);
    let interrupts = timer_interrupts().saturating_sub(interrupts_before);
    let names = [
        "1 to 2 us",
        "2 to 5 us",
        "5 to 12 us",
        "12 to 100 us",
        "longer",
    ];
    let gaps = names.iter().zip(counts);
    let mut rows: Vec<_> = gaps
        .map(|(name, count)| vec![format!("away for {name}"), a_second(count, own)])
        .collect();
    rows.push(vec![
        "timer interrupts that the system counts, of all cores".to_owned(),
        a_second(interrupts, watch),
    ]);
    Sheet {
        columns: vec!["", "a second"],
        rows,
        ..Sheet::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of some seconds")]
fn a_second(count: u64, time: Duration) -> String {
    figure(count as f64 / time.as_secs_f64().max(f64::EPSILON))
}

/// The system's own count of timer interrupts, of all cores; 0 where it tells none.
fn timer_interrupts() -> u64 {
    let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let mut lines = text.lines();
    let timer = lines.find_map(|line| line.trim().strip_prefix("LOC:"));
    let counts = timer.unwrap_or_default().split_whitespace();
    counts.map_while(|count| count.parse::<u64>().ok()).sum()
}
