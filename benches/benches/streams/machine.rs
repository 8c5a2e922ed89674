//! The machine's own tail: a loop that touches nothing, and how long it takes when something gets between.
//!
//! Interrupts, other programs and the hypervisor show here and in every other row alike.

use crate::{
    measure::{Effort, Samples, sample},
    session::Session,
};
use std::hint::black_box;

const ADDITIONS: u32 = 1000;

pub(crate) fn measure(session: &mut Session) {
    let effort = session.effort;
    session.measure("nothing: 1000 additions", None, |_| additions(effort));
}

fn additions(effort: Effort) -> Samples {
    sample(effort, 1, |samples| {
        samples.time(|| (0..ADDITIONS).fold(0, |sum: u32, next| black_box(sum.wrapping_add(next))));
    })
}
