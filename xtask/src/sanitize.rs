//! Running tests under a tool that watches each access: races of threads, uses of freed memory and leaks, or whatever the
//! language calls undefined.
//!
//! All three need the nightly toolchain, ThreadSanitizer its `rust-src` component (the standard library is built with it,
//! or its locks would be unseen), and Miri the component of its name. They take minutes to an hour, and each reports something that is meant, so no build machine
//! runs them; `docs/testing.md` says what to read a report against.

use clap::ValueEnum;

use crate::invocation::Invocation;
use crate::report::Report;
use crate::workspace::Workspace;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The tool
    #[arg(value_enum)]
    tool: Tool,
    /// What `cargo test` is told besides, such as `-p piton-sim --test execution`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// ThreadSanitizer: accesses that no order separates
    Thread,
    /// AddressSanitizer and LeakSanitizer: memory used after its end or never freed
    Address,
    /// Miri: undefined behaviour, where no call of the system is needed that it does not know
    Miri,
}

/// `rustix` calls the system by itself, and a sanitizer then does not see that memory was mapped anew.
const SEEN_SYSTEM_CALLS: &str = "--cfg=rustix_use_libc";

/// Random cases of a property under Miri, which takes a thousand times as long.
const MIRI_CASES: &str = "2";

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<Report> {
    let host = host(workspace)?;
    let mut invocation = invocation(workspace, options.tool, &host);
    for argument in &options.rest {
        invocation = invocation.argument(argument);
    }
    Ok(Report::of(&invocation.run(workspace.root())?))
}

fn invocation(workspace: &Workspace, tool: Tool, host: &str) -> Invocation {
    let (arguments, variable, value) = match tool {
        Tool::Thread => (
            "+nightly test -Zbuild-std",
            "RUSTFLAGS",
            format!("-Zsanitizer=thread {SEEN_SYSTEM_CALLS}"),
        ),
        Tool::Address => (
            "+nightly test",
            "RUSTFLAGS",
            format!("-Zsanitizer=address {SEEN_SYSTEM_CALLS}"),
        ),
        // Threads of a simulated device outlive the tests that made them.
        Tool::Miri => (
            "+nightly miri test",
            "MIRIFLAGS",
            "-Zmiri-disable-isolation -Zmiri-ignore-leaks".to_owned(),
        ),
    };
    let name = tool
        .to_possible_value()
        .map(|value| value.get_name().to_owned());
    let folder = workspace.target_for(&format!("sanitize-{}", name.unwrap_or_default()));
    let invocation = Invocation::cargo(arguments)
        .variable(variable, value)
        .path_variable("CARGO_TARGET_DIR", &folder);
    if tool == Tool::Miri {
        return invocation.variable("PROPTEST_CASES", MIRI_CASES);
    }
    // Named, so that build scripts and macros are built without the tool.
    invocation.argument("--target").argument(host)
}

/// The triple of this machine.
fn host(workspace: &Workspace) -> anyhow::Result<String> {
    let answer = Invocation::new("rustc", "-vV").answer(workspace.root())?;
    let answer = String::from_utf8_lossy(&answer);
    let host = answer.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| anyhow::anyhow!("`rustc -vV` names no host"))
}
