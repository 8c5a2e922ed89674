//! `cargo xtask`: the checks, tests and chores of this workspace.
//!
//! One module per command. Each prints the plain command it runs, so that it can be repeated by hand, and
//! answers with a [`Report`]; [`ci`] runs them all and counts.
//!
//! What a command leaves behind lies in the workspace's target directory. Builds with other compiler flags have
//! directories of their own below it (`loom`, `mutants`, `fuzz`), so that no step rebuilds what another built.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    reason = "a command line speaks to its user on stdout"
)]

mod ci;
mod conformance;
mod demo;
mod doc;
mod fmt;
mod fuzz;
mod invocation;
mod lint;
mod loom;
mod mutants;
mod ptx;
mod report;
mod sanitize;
mod tally;
mod test;
mod tidy;
mod unsafe_inventory;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use report::{Outcome, Report};
use workspace::Workspace;

/// Checks, tests and chores of the piton workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every check and test, and count them
    Ci(ci::Options),
    /// Check the formatting
    Fmt,
    /// Check the conventions of the workspace: arrows, module docs, names, primitives, statics, unsafe
    Tidy,
    /// Run clippy over every target
    Lint,
    /// Run the tests and the examples in the documentation
    Test,
    /// Build the documentation, refusing broken links
    Doc,
    /// Model-check the concurrent protocols
    Loom(loom::Options),
    /// Feed each fuzz target random input for a bounded time (cargo-fuzz on the nightly toolchain)
    Fuzz(fuzz::Options),
    /// Run the conformance suite on each backend there is a device for and print its table
    Conformance(conformance::Options),
    /// Assemble the kernels in PTX, where NVIDIA's assembler is installed
    Ptx(ptx::Options),
    /// Break the code on purpose, one kept patch at a time, and expect its test to fail
    Mutants(mutants::Options),
    /// Run tests under a tool that watches each access (the nightly toolchain's); no part of `ci`
    Sanitize(sanitize::Options),
    /// Run a short `piton demo` and look at its result
    Demo,
    /// Count the unsafe code, file by file
    UnsafeInventory(unsafe_inventory::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    let command = Arguments::parse().command;
    let workspace = Workspace::find()?;
    let report = match &command {
        Command::Ci(options) => return ci::run(&workspace, options),
        Command::Fmt => fmt::run(&workspace),
        Command::Tidy => tidy::run(&workspace),
        Command::Lint => lint::run(&workspace),
        Command::Test => test::run(&workspace),
        Command::Doc => doc::run(&workspace),
        Command::Loom(options) => loom::run(&workspace, options),
        Command::Fuzz(options) => fuzz::run(&workspace, options),
        Command::Conformance(options) => conformance::run(&workspace, options),
        Command::Ptx(options) => ptx::run(&workspace, options),
        Command::Mutants(options) => mutants::run(&workspace, options),
        Command::Sanitize(options) => sanitize::run(&workspace, options),
        Command::Demo => demo::run(&workspace),
        Command::UnsafeInventory(options) => unsafe_inventory::run(&workspace, options),
    }?;
    Ok(conclude(&report))
}

/// What a command on its own says last. A skip is not a failure here; [`ci`] may see it otherwise.
fn conclude(report: &Report) -> ExitCode {
    match &report.outcome {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::Skipped(reason) => {
            println!("skipped: {reason}");
            ExitCode::SUCCESS
        }
        Outcome::Failed(reason) => {
            println!("failed: {reason}");
            ExitCode::FAILURE
        }
    }
}
