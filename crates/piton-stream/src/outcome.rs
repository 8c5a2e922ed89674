//! What callers expect in normal operation: answers, not errors.

use piton_timeline::Timepoint;

/// Whether a command was taken.
#[must_use = "a command that was not accepted will not run"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission<T = Timepoint> {
    /// It was.
    Accepted(T),
    /// The stream has no room, and nothing has changed. There is room again when a command has ended.
    Full,
}

impl<T> Submission<T> {
    /// The same, telling something else of what was taken.
    pub fn map<U>(self, tell: impl FnOnce(T) -> U) -> Submission<U> {
        match self {
            Self::Accepted(taken) => Submission::Accepted(tell(taken)),
            Self::Full => Submission::Full,
        }
    }
}

/// What a wait of a stream for a timepoint cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waited {
    /// Nothing: the point was done.
    Done,
    /// Nothing: the stream is ordered after the point already, through a wait it made or through one that a
    /// stream it waited for had made.
    Ordered,
    /// One command, at this place.
    Enqueued(Timepoint),
    /// Nothing yet: the stream is captured, and the wait is an edge of the graph.
    Recorded,
}
