//! Streams, events, host functions over a driver's queues.
