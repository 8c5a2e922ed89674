//! How a case ends, and the checks that cases are written in.

use piton_driver::{Admission, DriverError, ErrorKind, Position};
use std::{fmt::Debug, panic::Location};
use thiserror::Error;

/// A property that did not hold.
#[derive(Clone, Debug, Error)]
#[error("{claim}: {seen} ({at})")]
pub struct Failure {
    /// What should have been so.
    pub claim: &'static str,
    /// What was seen instead, for a person to read.
    pub seen: String,
    /// The line of the suite that noticed.
    pub at: &'static Location<'static>,
}

impl Failure {
    #[track_caller]
    pub(crate) fn new(claim: &'static str, seen: impl Into<String>) -> Self {
        let (seen, at) = (seen.into(), Location::caller());
        Self { claim, seen, at }
    }
}

impl From<DriverError> for Failure {
    #[track_caller]
    fn from(error: DriverError) -> Self {
        Self::new("the call succeeds", error.to_string())
    }
}

/// How a case ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The property held.
    Passed,
    /// It did not.
    Failed(Failure),
    /// It was not tried, for this reason.
    Absent(String),
}

/// What a case returns.
pub(crate) type Checked = Result<(), Failure>;

#[track_caller]
pub(crate) fn ensure(holds: bool, claim: &'static str) -> Checked {
    if holds {
        Ok(())
    } else {
        Err(Failure::new(claim, "it was not so"))
    }
}

#[track_caller]
pub(crate) fn ensure_eq<T: PartialEq + Debug>(
    seen: T,
    expected: T,
    claim: &'static str,
) -> Checked {
    if seen == expected {
        return Ok(());
    }
    let mut text = format!("{seen:?}, expected {expected:?}");
    if text.len() > 300 {
        let cut = text.floor_char_boundary(300);
        text.truncate(cut);
        text.push('…');
    }
    Err(Failure::new(claim, text))
}

/// The call must have been refused, for a reason that `is_reason` knows.
#[track_caller]
pub(crate) fn refused<T: Debug>(
    result: Result<T, DriverError>,
    is_reason: impl FnOnce(&ErrorKind) -> bool,
    claim: &'static str,
) -> Checked {
    match result {
        Err(error) if is_reason(&error.kind) => Ok(()),
        Err(error) => Err(Failure::new(claim, format!("refused otherwise: {error}"))),
        Ok(value) => Err(Failure::new(claim, format!("it was granted: {value:?}"))),
    }
}

/// The command must have been taken.
#[track_caller]
pub(crate) fn accepted(result: Result<Admission, DriverError>) -> Result<Position, Failure> {
    match result? {
        Admission::Accepted(position) => Ok(position),
        Admission::Full => Err(Failure::new("the queue has room", "it was full")),
    }
}
