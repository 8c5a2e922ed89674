//! Steps served from plans by the pool, on a simulated device that counts what it has given away.

use std::sync::Arc;

use piton_plan::{PlaceConfig, Plan};

use super::PlannedError;
use crate::replay::player::Player;
use crate::replay::{ReplayError, ReplayOptions};
use crate::trace::CheckedEvent;

/// Memory is plentiful: more than twice what any trace has live.
fn options() -> ReplayOptions {
    ReplayOptions {
        capacity: 512 << 30,
        repeat: 0,
        ..ReplayOptions::default()
    }
}

/// How hard plans for other steps are tried: they do not have to be good.
const QUICK: PlaceConfig = PlaceConfig {
    alignment: 512,
    passes: 3,
    effort: 0,
};

impl From<ReplayError> for PlannedError {
    fn from(error: ReplayError) -> Self {
        Self::Replay(Box::new(error))
    }
}

/// The most that is held when these events are served from their plan, on an empty device.
pub(super) fn held<'a>(
    events: impl Iterator<Item = &'a CheckedEvent>,
    plan: &Arc<Plan>,
    streams: u16,
) -> Result<u64, PlannedError> {
    let mut player = Player::with_plans(&options(), streams)?;
    if let Some(planned) = player.planned() {
        // Whoever gets no region is served by the pool, and its figure says so.
        let _full = planned.serve(Arc::clone(plan));
    }
    play(&mut player, events)?;
    Ok(player.finish().peak_held)
}

/// Each step recorded while the trace is played from its beginning, and its plan served to the next one; the most that is held
/// up to then, over what is held without a plan. The worst of all steps; nothing for fewer than two.
pub(super) fn worst_other_step(
    events: &[CheckedEvent],
    starts: &[usize],
    streams: u16,
) -> Result<Option<f64>, PlannedError> {
    let mut worst = None;
    for (index, window) in starts.windows(2).enumerate() {
        let [recorded, other] = *window else { continue };
        let end = starts.get(index + 2).copied().unwrap_or(events.len());
        let parts = (
            events.get(..recorded),
            events.get(recorded..other),
            events.get(other..end),
        );
        if let (Some(before), Some(recorded), Some(other)) = parts {
            let ratio = other_step(before, recorded, other, streams)?;
            worst = Some(ratio.max(worst.unwrap_or(0.0)));
        }
    }
    Ok(worst)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of four digits")]
fn other_step(
    before: &[CheckedEvent],
    recorded: &[CheckedEvent],
    other: &[CheckedEvent],
    streams: u16,
) -> Result<f64, PlannedError> {
    let mut without = Player::with_plans(&options(), streams)?;
    play(&mut without, before.iter())?;
    with_planned(&without, |planned| planned.start_recording());
    play(&mut without, recorded.iter())?;
    with_planned(&without, |planned| planned.begin_step());
    play(&mut without, other.iter())?;
    let recorder = without
        .planned()
        .and_then(|planned| planned.take_recording());
    let plan = Arc::new(recorder.unwrap_or_default().plan(&QUICK)?);
    let without = without.finish().peak_held;

    let mut with = Player::with_plans(&options(), streams)?;
    play(&mut with, before.iter().chain(recorded))?;
    if let Some(planned) = with.planned() {
        let _full = planned.serve(plan);
    }
    play(&mut with, other.iter())?;
    Ok(with.finish().peak_held as f64 / without.max(1) as f64)
}

fn with_planned(player: &Player, act: impl Fn(&piton_alloc::Planned)) {
    if let Some(planned) = player.planned() {
        act(planned);
    }
}

fn play<'a>(
    player: &mut Player,
    events: impl Iterator<Item = &'a CheckedEvent>,
) -> Result<(), ReplayError> {
    for event in events {
        player.play(*event)?;
    }
    Ok(())
}
