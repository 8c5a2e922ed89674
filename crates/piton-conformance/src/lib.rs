//! One suite that every backend passes, each gap with its reason.
