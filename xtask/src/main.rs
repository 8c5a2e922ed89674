//! Checks, tests and chores of the piton workspace.

fn main() {}
