//! Commands by name, for whoever submits few of them.

#![expect(unsafe_code, reason = "passes on what callers promise")]

use super::{Admission, FillPattern, Position, Queue};
use crate::{Command, DevicePtr, DriverError, Launch, PeerAddress, Semaphore, TimestampPool};
use std::{panic::Location, ptr::NonNull, sync::Arc};

impl dyn Queue {
    /// Launches a kernel; see [`submit`](Queue::submit).
    ///
    /// # Safety
    /// As [`submit`](Queue::submit).
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    #[track_caller]
    pub unsafe fn launch(&self, launch: &Launch<'_>) -> Result<Admission, DriverError> {
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&Command::Launch(*launch), Location::caller()) }
    }

    /// Copies page-locked host memory to the device; see [`submit`](Queue::submit).
    ///
    /// # Safety
    /// As [`submit`](Queue::submit).
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    #[track_caller]
    pub unsafe fn copy_to_device(
        &self,
        dst: DevicePtr,
        src: NonNull<u8>,
        bytes: u64,
    ) -> Result<Admission, DriverError> {
        let command = Command::CopyToDevice { dst, src, bytes };
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&command, Location::caller()) }
    }

    /// Copies device memory to page-locked host memory; see [`submit`](Queue::submit).
    ///
    /// # Safety
    /// As [`submit`](Queue::submit).
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    #[track_caller]
    pub unsafe fn copy_to_host(
        &self,
        dst: NonNull<u8>,
        src: DevicePtr,
        bytes: u64,
    ) -> Result<Admission, DriverError> {
        let command = Command::CopyToHost { dst, src, bytes };
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&command, Location::caller()) }
    }

    /// Copies within the device; see [`submit`](Queue::submit).
    ///
    /// # Safety
    /// As [`submit`](Queue::submit).
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    #[track_caller]
    pub unsafe fn copy_on_device(
        &self,
        dst: DevicePtr,
        src: DevicePtr,
        bytes: u64,
    ) -> Result<Admission, DriverError> {
        let command = Command::CopyOnDevice { dst, src, bytes };
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&command, Location::caller()) }
    }

    /// Copies between two devices; see [`submit`](Queue::submit).
    ///
    /// # Safety
    /// As [`submit`](Queue::submit), on both devices.
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    #[track_caller]
    pub unsafe fn copy_peer(
        &self,
        dst: PeerAddress,
        src: PeerAddress,
        bytes: u64,
    ) -> Result<Admission, DriverError> {
        let command = Command::CopyPeer { dst, src, bytes };
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&command, Location::caller()) }
    }

    /// Fills device memory with a repeated pattern; see [`submit`](Queue::submit).
    ///
    /// # Safety
    /// As [`submit`](Queue::submit).
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    #[track_caller]
    pub unsafe fn fill(
        &self,
        dst: DevicePtr,
        pattern: FillPattern,
        bytes: u64,
    ) -> Result<Admission, DriverError> {
        let command = Command::Fill {
            dst,
            pattern,
            bytes,
        };
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&command, Location::caller()) }
    }

    /// Later commands start when `queue` has completed `position`. Holds no host thread.
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    #[track_caller]
    pub fn wait_for(
        &self,
        queue: &(dyn Queue + 'static),
        position: Position,
    ) -> Result<Admission, DriverError> {
        self.wait_queue(queue, position, true)
    }

    /// As [`wait_for`](#method.wait_for), but a failure of `queue` stays its own: later commands start when `position` has
    /// ended, well or not.
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    #[track_caller]
    pub fn order_after(
        &self,
        queue: &(dyn Queue + 'static),
        position: Position,
    ) -> Result<Admission, DriverError> {
        self.wait_queue(queue, position, false)
    }

    #[track_caller]
    fn wait_queue(
        &self,
        queue: &(dyn Queue + 'static),
        position: Position,
        inherits: bool,
    ) -> Result<Admission, DriverError> {
        self.submit_without_memory(&Command::WaitQueue {
            queue,
            position,
            inherits,
        })
    }

    /// Later commands start when `semaphore` has reached `value`. Holds no host thread.
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    #[track_caller]
    pub fn wait_semaphore(
        &self,
        semaphore: &Arc<dyn Semaphore>,
        value: u64,
    ) -> Result<Admission, DriverError> {
        self.submit_without_memory(&Command::WaitSemaphore { semaphore, value })
    }

    /// Raises `semaphore` to `value` when all earlier commands have ended.
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    #[track_caller]
    pub fn signal_semaphore(
        &self,
        semaphore: &Arc<dyn Semaphore>,
        value: u64,
    ) -> Result<Admission, DriverError> {
        self.submit_without_memory(&Command::SignalSemaphore { semaphore, value })
    }

    /// Writes the device's time into slot `index` when all earlier commands have ended.
    ///
    /// # Errors
    /// As [`submit`](Queue::submit).
    #[track_caller]
    pub fn write_timestamp(
        &self,
        pool: &Arc<dyn TimestampPool>,
        index: u32,
    ) -> Result<Admission, DriverError> {
        self.submit_without_memory(&Command::WriteTimestamp { pool, index })
    }

    #[track_caller]
    fn submit_without_memory(&self, command: &Command<'_>) -> Result<Admission, DriverError> {
        // SAFETY: the commands given here name no memory.
        unsafe { self.submit(command, Location::caller()) }
    }
}
