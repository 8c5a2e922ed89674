//! The only door to atomics, locks, cells and threads: std, or loom under cfg(loom).
