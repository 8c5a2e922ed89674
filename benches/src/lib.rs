//! Criterion benchmarks of the piton crates; see `benches/`.
