//! Priorities, where a device has `cl_khr_priority_hints`.
//!
//! OpenCL has three, and a queue that was made without a word has the middle one, like those of all other programs. So that
//! is the default here too: one priority is above it, and one below, for work that gives way.

use opencl_sys as cl;
use piton_driver::{Priority, PriorityRange};

/// The extension that has them.
pub(crate) const EXTENSION: &str = "cl_khr_priority_hints";

/// The priorities that the extension has.
pub(crate) const RANGE: PriorityRange = PriorityRange {
    highest: Priority(-1),
    lowest: Priority(1),
};

/// What a queue of a priority is asked for with; nothing for the default.
pub(crate) fn hint(priority: Priority) -> Option<cl::cl_queue_priority_khr> {
    match priority.0 {
        ..0 => Some(cl::CL_QUEUE_PRIORITY_HIGH_KHR),
        0 => None,
        1.. => Some(cl::CL_QUEUE_PRIORITY_LOW_KHR),
    }
}
