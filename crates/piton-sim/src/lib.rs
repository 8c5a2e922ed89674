//! The embedded simulated device: a real backend, and the tutorial for writing one.
