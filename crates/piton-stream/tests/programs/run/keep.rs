//! A writer that is kept while other things are done.

#![expect(unsafe_code, reason = "submits commands")]

use super::{Run, submit::Answer};
use crate::program::Op;
use piton_stream::Writer;

impl Run<'_> {
    /// Does some operations while the lane's writer is kept; those of the lane that it cannot do are left out.
    pub(super) fn keep(&mut self, lane: usize, ops: &[Op]) {
        let Some(mut stream) = self.lanes[lane].stream.take() else {
            return;
        };
        let lanes = self.lanes.len();
        let mut writer = stream.writer();
        for op in ops {
            if op.is_of(lane, lanes) {
                self.by_writer(lane, &mut writer, op);
            } else {
                self.do_it(*op, &[]);
            }
            self.observe();
        }
        drop(writer);
        self.lanes[lane].stream = Some(stream);
    }

    fn by_writer(&mut self, lane: usize, writer: &mut Writer<'_>, op: &Op) {
        match *op {
            Op::Use {
                is_large, traps, ..
            } => self.use_by_writer(lane, writer, (is_large, traps)),
            Op::Give(_) => self.give(lane),
            Op::Wait { event, .. } => self.wait_by_writer(lane, writer, event),
            Op::Flush(_) => {
                let _flushed = self.unless_lost(writer.flush());
            }
            _ => {}
        }
    }

    /// Of the block that the lane holds: a writer takes none.
    fn use_by_writer(&mut self, lane: usize, writer: &mut Writer<'_>, kind: (bool, bool)) {
        let Some(held) = self.lanes[lane].held else {
            return;
        };
        let (task, tag, words) = self.kernel(held, kind.1);
        let of = (held.0, tag);
        let taken = self.world.with_launch(of, words, kind, |launch| {
            // SAFETY: the block is the lane's, and memory lives until everything has ended.
            unsafe { writer.try_submit(launch) }
        });
        let now = writer.now();
        if self.answered(lane, task, Answer { taken, now }) {
            self.pool[held.0].uses.insert(now);
        }
    }

    fn wait_by_writer(&mut self, lane: usize, writer: &mut Writer<'_>, event: usize) {
        let Some(event) = event.checked_rem(self.events.len()) else {
            return;
        };
        let recorded = &self.events[event];
        let (place, clock) = (recorded.place, recorded.clock.clone());
        let waited = writer.wait(&recorded.event);
        let now = writer.now();
        self.waited(lane, place, &clock, waited, now);
    }
}
