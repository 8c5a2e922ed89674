//! Offsets only: TLSF, size classes. Never sees an address.
