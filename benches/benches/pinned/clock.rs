//! A thread's own time on a core.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// How long this thread has run, whoever else had the core meanwhile.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}
