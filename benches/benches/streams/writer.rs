//! Launches by a queue's only producer.

#![expect(
    unsafe_code,
    reason = "submission is unsafe: the kernels here take no buffers"
)]

use crate::{
    device::{Gate, Rig, must},
    measure::{Effort, Samples, sample},
    scale::{COMMANDS, Target},
    submit::{AHEAD, BATCH, BATCHES},
};
use piton_driver::{
    Admission, Command, DriverError, Grid, Kernel, Launch, Queue, QueueOptions, QueueWriter,
};
use std::{
    hint::{black_box, spin_loop},
    panic::Location,
    sync::Arc,
};

/// A queue whose bursts are launched by a writer each.
pub(crate) struct Exclusive(Arc<dyn Queue>);

impl Exclusive {
    fn of(rig: &Rig, commands: Option<u32>) -> Self {
        let options = QueueOptions {
            commands,
            ..QueueOptions::default()
        };
        Self(must(rig.device.queues().create(&options)))
    }

    fn writer(&self) -> Box<dyn QueueWriter + '_> {
        must(self.0.writer().ok_or("the queue has another producer"))
    }
}

impl Target for Exclusive {
    fn new(rig: &Rig) -> Self {
        Self::of(rig, Some(COMMANDS))
    }

    fn hold(&self, gate: &Gate) {
        gate.hold_queue(&*self.0);
    }

    fn burst(&self, rig: &Rig, launches: usize) {
        let mut writer = self.writer();
        for _ in 0..launches {
            let _accepted = must(launch(&mut *writer, &rig.takes_16, &[7; 16]));
        }
    }

    fn finish(&self) {
        let _reached = must(self.0.wait(self.0.submitted(), None));
    }
}

pub(crate) fn behind(
    rig: &Rig,
    kernel: &Arc<dyn Kernel>,
    arguments: &[u8],
    effort: Effort,
) -> Samples {
    let (queue, mut gate) = (Exclusive::of(rig, None), rig.gate());
    sample(effort, BATCH, |samples| {
        gate.close();
        queue.hold(&gate);
        let mut writer = queue.writer();
        for _ in 0..BATCHES {
            samples.time(|| launch(&mut *writer, kernel, black_box(arguments)));
        }
        drop(writer);
        gate.open();
        queue.finish();
    })
}

pub(crate) fn racing(
    rig: &Rig,
    kernel: &Arc<dyn Kernel>,
    arguments: &[u8],
    effort: Effort,
) -> Samples {
    let queue = Exclusive::of(rig, None);
    sample(effort, BATCH, |samples| {
        let before = queue.0.completed();
        let mut writer = queue.writer();
        for _ in 0..AHEAD {
            let _accepted = must(launch(&mut *writer, kernel, arguments));
        }
        must(writer.flush());
        while queue.0.completed() == before {
            spin_loop();
        }
        for _ in 0..BATCHES {
            samples.time(|| launch(&mut *writer, kernel, black_box(arguments)));
        }
        drop(writer);
        queue.finish();
    })
}

fn launch(
    writer: &mut dyn QueueWriter,
    kernel: &Arc<dyn Kernel>,
    arguments: &[u8],
) -> Result<Admission, DriverError> {
    let launch = Launch::new(kernel, Grid::linear(1), arguments);
    // SAFETY: no kernel here has buffer arguments.
    unsafe { writer.submit(&Command::Launch(launch), Location::caller()) }
}
