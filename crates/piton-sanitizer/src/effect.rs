//! What a command means for the order of work and for memory.

use crate::{Footprint, GraphFootprint, SignalId, Space};
use piton_driver::{Command, DeviceId, DevicePtr, MemoryWait, MemoryWord};
use piton_timeline::Timepoint;
use std::sync::Arc;

/// A call of a host function: made by [`Sanitizer::function`](crate::Sanitizer::function).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub(crate) u64);

/// Who, on the host's side, does something.
///
/// The host is one: what one of its threads has waited for, all of them have. Threads hand each other work through
/// locks and channels that nobody sees here, and telling them apart would report programs that are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Author {
    /// A thread of the program.
    #[default]
    Host,
    /// A host function that a stream called: it comes after what its stream did before it, and not after what the
    /// program's threads do meanwhile.
    Function(FunctionId),
}

/// Places of other lanes that a command's lane is to come behind before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Awaits<'a> {
    /// Those that need no wait of the device.
    pub left_out: &'a [Timepoint],
    /// Those whose waits are submitted with the command, in their order, one place each.
    pub submitted: &'a [Timepoint],
}

impl Awaits<'_> {
    /// All of them.
    pub(crate) fn points(&self) -> impl Iterator<Item = Timepoint> {
        self.left_out.iter().chain(self.submitted).copied()
    }
}

/// What a command does.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Nothing of interest.
    #[default]
    Nothing,
    /// It reads and writes memory.
    Touches(Footprint),
    /// It runs a graph, whose nodes read and write memory.
    Runs(Arc<GraphFootprint>),
    /// What follows comes after the place.
    Waits(Timepoint),
    /// What follows comes after a signal of at least the value.
    WaitsForSignal(SignalId, u64),
    /// It raises the counter to the value.
    Signals(SignalId, u64),
    /// What follows comes after a write of a value that meets the condition.
    WaitsForWord(Space, MemoryWait),
    /// It writes a word that others wait for.
    WritesWord(Space, DevicePtr, MemoryWord),
    /// It calls the function; what follows comes after its return.
    Calls(FunctionId),
}

impl Effect {
    /// The effect of a command of a queue on `device`, but for those that name a queue, a semaphore or a graph: what
    /// that is, whoever submits it knows.
    pub fn of(command: &Command<'_>, device: DeviceId) -> Self {
        let space = Space::Device(device);
        match *command {
            Command::WaitMemory(wait) => Self::WaitsForWord(space, wait),
            Command::WriteMemory { at, value } => Self::WritesWord(space, at, value),
            _ => {
                let footprint = Footprint::of(command, device);
                match footprint.touched() {
                    [] => Self::Nothing,
                    _ => Self::Touches(footprint),
                }
            }
        }
    }
}
