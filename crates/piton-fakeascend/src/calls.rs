//! The entry points, by the names and types of the public *Runtime API (C)* reference.

pub mod context;
pub mod kernel;
pub mod memory;
pub mod stream;
