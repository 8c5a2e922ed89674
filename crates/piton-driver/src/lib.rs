//! The contract between piton and a device driver: no policy, no state.
