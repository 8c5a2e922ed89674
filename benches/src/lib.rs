//! Benchmarks of the piton crates; see `benches/`.
