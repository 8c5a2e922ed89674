//! The `piton` command; everything is in the library.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    piton_cli::command::main()
}
