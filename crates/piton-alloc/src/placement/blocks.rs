//! Blocks: the placement for devices without virtual memory.

mod growth;
