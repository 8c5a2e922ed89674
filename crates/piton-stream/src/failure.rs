//! A failed command, told so that a person finds it: which stream, which call, enqueued where, and what first
//! went wrong if the failure came through a wait.

use piton_driver::DriverError;
use piton_timeline::{LaneId, Timepoint};
use std::{error::Error, fmt, panic::Location, sync::Arc};

/// The first command of a stream that failed. It poisons the stream: later commands end without running.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamFailure {
    /// Where the command stood.
    pub timepoint: Timepoint,
    /// The stream's label, if it has one.
    pub label: Option<Arc<str>>,
    /// Where in the program it was submitted, as far as the driver knows.
    pub place: Option<&'static Location<'static>>,
    /// What the device said.
    pub error: DriverError,
    /// The failure that this one only passes on, where the command was a wait for a stream that failed: the
    /// first of the chain, however many streams lie between.
    pub root: Option<Arc<StreamFailure>>,
    /// Where streams waited for each other in a circle: this one, the one it waits for, and so on; the last is one
    /// that came before. While streams of the circle have not ended yet it may be cut short. Empty for every other
    /// failure.
    pub circle: Vec<StreamName>,
}

/// What a stream is called: by its label, or by its lane if it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamName {
    /// Its lane on the timeline.
    pub lane: LaneId,
    /// Its label, if it has one.
    pub label: Option<Arc<str>>,
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "`{label}`"),
            None => write!(f, "{:?}", self.lane),
        }
    }
}

/// The names of a circle with arrows between them.
struct Circle<'a>(&'a [StreamName]);

impl fmt::Display for Circle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, name) in self.0.iter().enumerate() {
            let arrow = if n == 0 { "" } else { " -> " };
            write!(f, "{arrow}{name}")?;
        }
        Ok(())
    }
}

impl fmt::Display for StreamFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "stream `{label}`: ")?,
            None => write!(f, "{:?}: ", self.timepoint.lane)?,
        }
        write!(f, "{}", self.error.operation)?;
        if let Some(place) = self.place {
            write!(f, " (enqueued at {place})")?;
        }
        match &self.root {
            Some(root) => write!(f, " met a failure of {}", Name(root))?,
            None => write!(f, " failed: {}", self.error.kind)?,
        }
        if !self.circle.is_empty() {
            write!(f, ": {}", Circle(&self.circle))?;
        }
        Ok(())
    }
}

impl Error for StreamFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.root.as_ref().map(|root| &**root as _)
    }
}

struct Name<'a>(&'a StreamFailure);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.label {
            Some(label) => write!(f, "stream `{label}`"),
            None => write!(f, "{:?}", self.0.timepoint.lane),
        }
    }
}
