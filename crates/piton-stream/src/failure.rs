//! A failed command, told so that a person finds it: which stream, which call, enqueued where, and what first
//! went wrong if the failure came through a wait.

use piton_driver::DriverError;
use piton_timeline::Timepoint;
use std::{error::Error, fmt, panic::Location, sync::Arc};

/// The first command of a stream that failed. It poisons the stream: later commands end without running.
#[derive(Clone, Debug, PartialEq, Eq)]
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
            Some(root) => write!(f, " met a failure of {}", Name(root)),
            None => write!(f, " failed: {}", self.error.kind),
        }
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
