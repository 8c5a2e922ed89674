//! What memory must hold, byte by byte, after commands that ran in the order of the program.
//!
//! The program orders all uses of a byte, by its streams or by waits. So whatever the schedule was, what each use finds
//! and what is left in the end is what running the commands one after the other, as they were submitted, would give.

use crate::{
    books::Task,
    world::{BLOCK, block_at},
};
use piton_driver::FillPattern;
use std::ops::Range;

/// The memory of the devices, one behind the other, and the host's.
#[derive(Clone)]
pub(crate) struct Contents {
    pub(crate) device: Vec<u8>,
    pub(crate) host: Vec<u8>,
}

impl Contents {
    /// A command ran.
    pub(crate) fn apply(&mut self, task: Task) {
        match task {
            Task::Kernel {
                tag,
                block,
                words: (first, count),
                traps: false,
                ..
            } => {
                let at = block_at(block) + u64::from(first) * 4;
                repeat(
                    &mut self.device[range(at, u64::from(count) * 4)],
                    &tag.to_ne_bytes(),
                );
            }
            Task::Fill { at, pattern, bytes } => {
                let filled = &mut self.device[range(at, bytes)];
                match pattern {
                    FillPattern::Byte(byte) => filled.fill(byte),
                    FillPattern::Half(half) => repeat(filled, &half.to_ne_bytes()),
                    FillPattern::Word(word) => repeat(filled, &word.to_ne_bytes()),
                }
            }
            Task::CopyWithin { from, to, bytes } | Task::CopyPeer { from, to, bytes } => {
                self.device
                    .copy_within(range(from, bytes), range(to, 0).start);
            }
            Task::CopyIn { from, to, bytes } => {
                let copied = &self.host[range(from, bytes)];
                self.device[range(to, bytes)].copy_from_slice(copied);
            }
            Task::CopyOut { from, to, bytes } => {
                let copied = &self.device[range(from, bytes)];
                self.host[range(to, bytes)].copy_from_slice(copied);
            }
            Task::WriteMemory { at, value } => {
                self.device[range(at, 4)].copy_from_slice(&value.to_ne_bytes());
            }
            _ => {}
        }
    }

    /// What is in a block of the pool.
    pub(crate) fn block(&self, block: usize) -> &[u8] {
        &self.device[range(block_at(block), BLOCK)]
    }

    /// Asserts that both hold the same.
    pub(crate) fn check(&self, found: &Self) {
        for (wanted, found) in [(&self.device, &found.device), (&self.host, &found.host)] {
            let difference = wanted
                .iter()
                .zip(found)
                .position(|(wanted, found)| wanted != found);
            if let Some(at) = difference {
                panic!("byte {at} is {} and not {}", found[at], wanted[at]);
            }
            assert_eq!(wanted.len(), found.len());
        }
    }
}

fn range(at: u64, bytes: u64) -> Range<usize> {
    let end = usize::try_from(at + bytes).unwrap();
    usize::try_from(at).unwrap()..end
}

fn repeat(bytes: &mut [u8], pattern: &[u8]) {
    for piece in bytes.chunks_exact_mut(pattern.len()) {
        piece.copy_from_slice(pattern);
    }
}
