//! Blocks: the placement for devices without virtual memory.

mod growth;
mod idle;

pub(crate) use idle::IdleRule;
