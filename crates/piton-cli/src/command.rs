//! The command line: what can be asked, and what the answers are.
//!
//! Each subcommand is a file with its options and one `run`. What goes wrong is one of two things: the input was bad
//! (exit code 2, as for wrong options), or the work was done and did not come out right (exit code 1). Results go to
//! standard output, progress and errors to standard error.

mod demo;
mod info;
mod output;
mod replay;
mod size;
mod topo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use output::Output;

/// A runtime between compute graphs and device drivers, and what it makes of your machine.
#[derive(Debug, Parser)]
#[command(name = "piton", version)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    demo: demo::Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a small network on simulated devices and show what the runtime did (the default).
    Demo(demo::Options),
    /// Replay recorded allocation histories through the device pool.
    Replay(replay::Options),
    /// Show a machine: devices, distances, and the routes copies take, with reasons.
    Topo(topo::Options),
    /// List drivers and devices, and why others are absent.
    Info(info::Options),
}

/// How a command ends when it does not end well.
#[derive(Debug)]
pub enum Failure {
    /// What was given cannot be used: exit code 2.
    Input(anyhow::Error),
    /// The work was done and something is not as it must be: exit code 1.
    Result(anyhow::Error),
}

impl Failure {
    /// Bad input, with where it lies.
    fn input(error: impl Into<anyhow::Error>) -> Self {
        Self::Input(error.into())
    }

    /// A result that is not as it must be.
    fn result(error: impl Into<anyhow::Error>) -> Self {
        Self::Result(error.into())
    }
}

/// Parses the process's arguments, does what they ask, and says how it went.
///
/// Wrong arguments end the process here, with exit code 2 and what was expected.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut output = Output::standard();
    match run(arguments, &mut output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Input(error)) => {
            output.error(&error);
            ExitCode::from(2)
        }
        Err(Failure::Result(error)) => {
            output.error(&error);
            ExitCode::from(1)
        }
    }
}

/// Does what the arguments ask.
///
/// # Errors
/// [`Failure`], which tells bad input from bad results.
pub fn run(arguments: Arguments, output: &mut Output) -> Result<(), Failure> {
    match arguments.command {
        None => demo::run(&arguments.demo, output),
        Some(Command::Demo(options)) => demo::run(&options, output),
        Some(Command::Replay(options)) => replay::run(&options, output),
        Some(Command::Topo(options)) => topo::run(&options, output),
        Some(Command::Info(options)) => info::run(&options, output),
    }
}
