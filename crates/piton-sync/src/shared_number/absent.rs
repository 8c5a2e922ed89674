//! Where there is no such number.

use super::Listening;
use std::{
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
};

/// A number that several processes raise and sleep on: there is none here, so every way to one fails.
#[derive(Debug)]
pub enum SharedNumber {}

/// What a system answers that has no such call.
const NO_SUCH_CALL: i32 = 38;

impl SharedNumber {
    /// Whether the system has such numbers.
    pub const IS_THERE: bool = false;

    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: u64) -> Result<Self, i32> {
        Err(NO_SUCH_CALL)
    }

    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn sent(_: BorrowedFd<'_>) -> Result<Option<Self>, i32> {
        Err(NO_SUCH_CALL)
    }

    /// What another process is sent.
    ///
    /// # Errors
    /// Never called.
    pub fn descriptor(&self) -> Result<OwnedFd, i32> {
        match *self {}
    }

    /// The number.
    pub fn value(&self) -> u64 {
        match *self {}
    }

    /// Raises the number.
    pub fn raise(&self, _: u64) -> u64 {
        match *self {}
    }

    pub(super) fn ring(&self) {
        match *self {}
    }

    /// Listens.
    ///
    /// # Errors
    /// Never called.
    pub fn listen(
        self: &Arc<Self>,
        _: u64,
        _: impl FnMut(u64) + Send + 'static,
    ) -> Result<Listening, i32> {
        match **self {}
    }
}
