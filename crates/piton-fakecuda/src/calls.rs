//! The entry points, by the names and types of the public *CUDA Driver API* reference.

pub mod device;
pub mod memory;
pub mod module;
pub mod nvrtc;
pub mod stream;
