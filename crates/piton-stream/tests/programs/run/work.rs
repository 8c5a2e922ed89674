//! Work on memory: the blocks of the pool and who has them, kernels, copies, and host functions.

#![expect(unsafe_code, reason = "submits commands")]

use super::{Run, submit::Answer};
use crate::{
    books::Task,
    program::{DEVICES, Form, Move},
    world::{BLOCK, Entry, WORDS, area_at, block_at, device_of},
};
use piton_driver::{Command, FillPattern};
use piton_stream::Submission;
use piton_timeline::{Reuse, Timepoint};
use std::sync::Arc;

/// Launches at once.
const BURST: usize = 12;

/// What a kernel is: large, and whether it traps.
type Kind = (bool, bool);

impl Run<'_> {
    /// The lane's block, taken from the pool if it has none.
    pub(super) fn take(&mut self, lane: usize) -> Option<(usize, u32)> {
        if let Some(held) = self.lanes[lane].held {
            return Some(held);
        }
        let device = self.books[self.lanes[lane].queue].device;
        let is_free =
            |block: &usize| !self.pool[*block].is_held && device_of(block_at(*block)) == device;
        let block = (0..self.pool.len()).find(is_free)?;
        let id = self.stream(lane).id();
        let uses = self.pool[block].uses.clone();
        match self.world.streams.timeline().reuse(&uses, Some(id)) {
            Reuse::Now => uses
                .points()
                .iter()
                .for_each(|point| self.is_ordered(lane, *point)),
            Reuse::AfterWait(points) => {
                for point in points.points() {
                    assert!(uses.points().contains(point), "a wait for no use");
                    if !self.wait_point(lane, *point) {
                        return None;
                    }
                }
            }
            Reuse::No => panic!("a lane can wait"),
        }
        let user = self.next_tag();
        // What was used before stays in the books: this user may give the block back without having used it.
        self.pool[block].is_held = true;
        self.lanes[lane].held = Some((block, user));
        self.lanes[lane].held
    }

    /// The timeline says that the lane need not wait: it is done, or the waits made so far say so.
    fn is_ordered(&self, lane: usize, point: Timepoint) {
        let (queue, position) = self.place(point);
        let own = self.lanes[lane].queue;
        let is_done = self.books[queue].queue.completed().get() >= position;
        let known = self.books[own].clock.get(&queue).copied().unwrap_or(0);
        assert!(
            is_done || queue == own || known >= position,
            "an order that is not there"
        );
    }

    pub(super) fn use_block(&mut self, lane: usize, kind: Kind, form: Form) {
        if let Some(held) = self.take(lane) {
            self.launch(lane, held, kind, form);
        }
    }

    /// A kernel that leaves its tag in some of the block's words.
    pub(super) fn kernel(
        &mut self,
        (block, user): (usize, u32),
        traps: bool,
    ) -> (Task, u32, (u32, u32)) {
        let tag = self.next_tag();
        let first = tag % WORDS;
        let words = (first, 1 + tag / WORDS % (WORDS - first));
        let task = Task::Kernel {
            tag,
            block,
            user,
            words,
            traps,
        };
        (task, tag, words)
    }

    fn launch(&mut self, lane: usize, held: (usize, u32), kind: Kind, form: Form) -> bool {
        let (task, tag, words) = self.kernel(held, kind.1);
        let world = self.world;
        let is_taken = world.with_launch((held.0, tag), words, kind, |launch| {
            self.submit(lane, task, launch, form)
        });
        self.used(lane, held.0, is_taken);
        is_taken
    }

    fn used(&mut self, lane: usize, block: usize, is_taken: bool) {
        if is_taken {
            let point = self.stream(lane).now();
            self.pool[block].uses.insert(point);
        }
    }

    pub(super) fn burst(&mut self, lane: usize, form: Form) {
        if form != Form::Writer {
            return (0..BURST).for_each(|_| self.use_block(lane, (true, false), form));
        }
        let Some(held) = self.take(lane) else { return };
        let kernels: Vec<_> = (0..BURST).map(|_| self.kernel(held, false)).collect();
        let mut writer = self.lanes[lane].stream.as_mut().unwrap().writer();
        let mut answers = Vec::new();
        for (_, tag, words) in &kernels {
            let (of, kind) = ((held.0, *tag), (true, false));
            let taken = self.world.with_launch(of, *words, kind, |launch| {
                // SAFETY: the block is the lane's, and memory lives until everything has ended.
                unsafe { writer.try_submit(launch) }
            });
            let now = writer.now();
            answers.push(Answer { taken, now });
        }
        drop(writer);
        for ((task, ..), answer) in kernels.into_iter().zip(answers) {
            let is_taken = self.answered(lane, task, answer);
            self.used(lane, held.0, is_taken);
        }
    }

    pub(super) fn lend(&mut self, lane: usize, to: usize) {
        let Some(held) = self.lanes[lane].held else {
            return;
        };
        let device = |lane: usize| self.books[self.lanes[lane].queue].device;
        if lane != to && device(lane) == device(to) && self.wait_point(to, self.stream(lane).now())
        {
            self.launch(to, held, (false, false), Form::Try);
            if !self.wait_point(lane, self.stream(to).now()) {
                // The owner cannot come after the borrower: it does not use the block any more.
                self.give(lane);
            }
        }
    }

    pub(super) fn give(&mut self, lane: usize) {
        if let Some((block, _)) = self.lanes[lane].held.take() {
            self.pool[block].is_held = false;
        }
    }

    /// Moves some bytes that the lane may use: of its block, if it has one, of its areas, of host memory nobody used.
    pub(super) fn move_bytes(&mut self, lane: usize, what: Move, dice: u64, form: Form) {
        let mut dice = fastrand::Rng::with_seed(dice);
        let queue = self.lanes[lane].queue;
        let device = self.books[queue].device;
        let mut own = [0, 1].map(|which| self.area(queue, which)).to_vec();
        own.extend(self.lanes[lane].held.map(|(block, _)| block_at(block)));
        dice.shuffle(&mut own);
        let unit = [1, 2, 4][dice.usize(..3)];
        let first = unit * dice.u64(..BLOCK / unit);
        let bytes = unit * (1 + dice.u64(..(BLOCK - first) / unit));
        let host = self.slots * BLOCK + dice.u64(..=BLOCK - bytes);
        let (one, other) = (own[0] + first, own[1] + dice.u64(..=BLOCK - bytes));
        // There is another device, and the stream has areas there too.
        let is_near = self.world.devices.len() == 1;
        let far = area_at(DEVICES - 1 - device, queue, 0) + first;
        let task = match what {
            Move::Fill => Task::Fill {
                at: one,
                pattern: self.pattern(unit),
                bytes,
            },
            Move::CopyPeer if !is_near && dice.bool() => Task::CopyPeer {
                from: far,
                to: one,
                bytes,
            },
            Move::CopyPeer if !is_near => Task::CopyPeer {
                from: one,
                to: far,
                bytes,
            },
            Move::CopyWithin | Move::CopyPeer => Task::CopyWithin {
                from: one,
                to: other,
                bytes,
            },
            Move::CopyIn => Task::CopyIn {
                from: host,
                to: one,
                bytes,
            },
            Move::CopyOut => Task::CopyOut {
                from: one,
                to: host,
                bytes,
            },
        };
        self.slots += u64::from(matches!(what, Move::CopyIn | Move::CopyOut));
        self.submit_move(lane, task, form);
    }

    /// A pattern of so many bytes that no fill has used before, as far as there are enough.
    fn pattern(&mut self, unit: u64) -> FillPattern {
        let bytes = self.next_tag().wrapping_mul(0x0101_0201).to_le_bytes();
        match unit {
            1 => FillPattern::Byte(bytes[0]),
            2 => FillPattern::Half(u16::from_le_bytes([bytes[0], bytes[1]])),
            _ => FillPattern::Word(u32::from_le_bytes(bytes)),
        }
    }

    fn submit_move(&mut self, lane: usize, task: Task, form: Form) {
        let world = self.world;
        let command = match task {
            Task::Fill { at, pattern, bytes } => Command::Fill {
                dst: world.at(at),
                pattern,
                bytes,
            },
            Task::CopyWithin { from, to, bytes } => Command::CopyOnDevice {
                dst: world.at(to),
                src: world.at(from),
                bytes,
            },
            Task::CopyPeer { from, to, bytes } => Command::CopyPeer {
                dst: world.peer_at(to),
                src: world.peer_at(from),
                bytes,
            },
            Task::CopyIn { from, to, bytes } => Command::CopyToDevice {
                dst: world.at(to),
                src: world.host_at(from),
                bytes,
            },
            Task::CopyOut { from, to, bytes } => Command::CopyToHost {
                dst: world.host_at(to),
                src: world.at(from),
                bytes,
            },
            _ => return,
        };
        let is_taken = self.submit(lane, task, &command, form);
        // Whether it used the block or not: a use too many changes no order that is checked.
        if let Some((block, _)) = self.lanes[lane].held {
            self.used(lane, block, is_taken);
        }
    }

    pub(super) fn host(&mut self, lane: usize, panics: bool) {
        let (tag, token, log) = (
            self.next_tag(),
            Arc::clone(&self.token),
            self.world.log.clone(),
        );
        let taken = self.stream(lane).call_host(move || {
            log.lock().push(Entry::Start {
                tag,
                is_whole: Arc::strong_count(&token) > 1,
                found: [0; WORDS as usize],
            });
            log.lock().push(Entry::End { tag });
            if panics {
                std::panic::resume_unwind(Box::new(()));
            }
        });
        let task = Task::Host { tag, panics };
        self.submitted(lane, task, taken.map(Submission::Accepted));
    }
}
