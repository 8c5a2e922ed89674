//! Launches by a stream's only producer.

#![expect(
    unsafe_code,
    reason = "launches are unsafe: the kernels here take no buffers"
)]

use crate::{
    device::{Gate, Rig, must},
    measure::{Effort, Samples, sample},
    scale::{COMMANDS, Target},
    submit::{BATCH, BATCHES, go_ahead},
};
use piton_driver::{Grid, Kernel, Launch};
use piton_stream::{Stream, StreamError, Writer};
use piton_timeline::Timepoint;
use std::{hint::black_box, sync::Arc};

/// A stream whose bursts are launched by a writer each.
pub(crate) struct Exclusive(Stream);

impl Target for Exclusive {
    fn new(rig: &Rig) -> Self {
        Self(rig.stream_of(COMMANDS))
    }

    fn hold(&self, gate: &Gate) {
        gate.hold(&self.0);
    }

    fn burst(&mut self, rig: &Rig, launches: usize) {
        let mut writer = self.0.writer();
        for _ in 0..launches {
            must(launch(&mut writer, &rig.takes_16, &[7; 16]));
        }
    }

    fn finish(&self) {
        must(self.0.synchronize());
    }
}

pub(crate) fn behind(
    rig: &Rig,
    kernel: &Arc<dyn Kernel>,
    arguments: &[u8],
    effort: Effort,
) -> Samples {
    let (mut stream, mut gate) = (rig.deep_stream(), rig.gate());
    sample(effort, BATCH, |samples| {
        gate.close();
        gate.hold(&stream);
        let mut writer = stream.writer();
        for _ in 0..BATCHES {
            samples.time(|| launch(&mut writer, kernel, black_box(arguments)));
        }
        drop(writer);
        gate.open();
        must(stream.synchronize());
    })
}

pub(crate) fn racing(
    rig: &Rig,
    kernel: &Arc<dyn Kernel>,
    arguments: &[u8],
    effort: Effort,
) -> Samples {
    let mut stream = rig.deep_stream();
    sample(effort, BATCH, |samples| {
        go_ahead(&stream, || {
            crate::device::launch(&stream, kernel, arguments)
        });
        let mut writer = stream.writer();
        for _ in 0..BATCHES {
            samples.time(|| launch(&mut writer, kernel, black_box(arguments)));
        }
        drop(writer);
        must(stream.synchronize());
    })
}

fn launch(
    writer: &mut Writer<'_>,
    kernel: &Arc<dyn Kernel>,
    arguments: &[u8],
) -> Result<Timepoint, StreamError> {
    let launch = Launch::new(kernel, Grid::linear(1), arguments);
    // SAFETY: no kernel here has buffer arguments.
    unsafe { writer.launch(launch) }
}
