//! The `piton` command.

#![forbid(unsafe_code)]

fn main() {}
