//! The facade: Runtime, Device, Stream, Event, buffers, kernels and copies, without unsafe.
