//! One external command: printed as a person would type it, then run.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// A command that can be printed before it is run.
#[derive(Debug, Clone)]
pub(crate) struct Invocation {
    program: String,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

/// A finished command. Its standard error went to the terminal.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) success: bool,
    pub(crate) stdout: String,
}

/// How a logged command ended, and all that it printed.
#[derive(Debug)]
pub(crate) enum Ending {
    /// It exited by itself.
    Exited { success: bool, output: String },
    /// It was killed at the limit.
    TimedOut,
}

impl Invocation {
    /// A call of `cargo` with these arguments, separated by spaces.
    pub(crate) fn cargo(arguments: &str) -> Self {
        Self::new("cargo", arguments)
    }

    /// A call of `program` with these arguments, separated by spaces.
    pub(crate) fn new(program: &str, arguments: &str) -> Self {
        Self {
            program: program.to_owned(),
            arguments: arguments.split_whitespace().map(str::to_owned).collect(),
            variables: Vec::new(),
        }
    }

    /// Adds one argument, which may contain spaces.
    pub(crate) fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable.
    pub(crate) fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Sets an environment variable to a path.
    pub(crate) fn path_variable(self, name: &str, path: &Path) -> Self {
        self.variable(name, path.to_string_lossy())
    }

    /// What a person would type into a shell.
    pub(crate) fn as_typed(&self) -> String {
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = std::iter::once(&self.program)
            .chain(&self.arguments)
            .map(|word| quoted(word));
        variables.chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Prints the command, runs it in `directory` and waits. Its standard output is passed on line by line and
    /// kept; its standard error goes where ours goes, so cargo's progress looks as usual.
    pub(crate) fn run(&self, directory: &Path) -> anyhow::Result<Ran> {
        println!("$ {}", self.as_typed());
        let mut child = self
            .command(directory)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}`", self.program))?;
        let stdout = pass_on(&mut child)?;
        let status = child.wait()?;
        Ok(Ran {
            success: status.success(),
            stdout,
        })
    }

    /// Runs the command without a word and returns its standard output. For questions, not for work.
    ///
    /// # Errors
    /// When it cannot be started or does not succeed.
    pub(crate) fn answer(&self, directory: &Path) -> anyhow::Result<Vec<u8>> {
        let output = self
            .command(directory)
            .stderr(Stdio::null())
            .output()
            .with_context(|| format!("cannot start `{}`", self.program))?;
        anyhow::ensure!(output.status.success(), "`{}` failed", self.as_typed());
        Ok(output.stdout)
    }

    /// Prints the command and runs it in `directory` with everything it prints going to the file `log`. With a
    /// `limit` it is killed with all its children when the time is over.
    pub(crate) fn run_logged(
        &self,
        limit: Option<Duration>,
        directory: &Path,
        log: &Path,
    ) -> anyhow::Result<Ending> {
        println!("$ {}", self.as_typed());
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = self.command(directory);
        command.stdout(file.try_clone()?).stderr(file);
        if limit.is_some() {
            // A group of its own can be killed as a whole; without a limit it stays in ours, and an interrupt from
            // the terminal reaches it.
            command.process_group(0);
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start `{}`", self.program))?;
        let status = match limit {
            None => Some(child.wait()?),
            Some(limit) => wait_until(&mut child, Instant::now() + limit)?,
        };
        let Some(status) = status else {
            return Ok(Ending::TimedOut);
        };
        Ok(Ending::Exited {
            success: status.success(),
            output: String::from_utf8_lossy(&std::fs::read(log)?).into_owned(),
        })
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(self.arguments.iter().map(OsStr::new))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(directory)
            .stdin(Stdio::null());
        command
    }
}

/// Passes the child's standard output on while keeping it.
fn pass_on(child: &mut Child) -> anyhow::Result<String> {
    let mut kept = String::new();
    let stdout = child.stdout.take().context("the output is piped")?;
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        kept.push_str(&text);
        line.clear();
    }
    Ok(kept)
}

/// Waits for the child, or kills its process group at `deadline` and answers nothing.
fn wait_until(child: &mut Child, deadline: Instant) -> anyhow::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            let group = format!("-{}", child.id());
            Command::new("kill")
                .args(["-KILL", "--", &group])
                .status()?;
            child.wait()?;
            return Ok(None);
        }
        // SLEEP: the standard library can wait for a child or for a time, not for whichever is first.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The word, in quotes if a shell would take it apart.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn a_command_reads_as_one_would_type_it() {
        let invocation = Invocation::cargo("test -p piton")
            .argument("two words")
            .variable("RUSTFLAGS", "--cfg loom");
        assert_eq!(
            invocation.as_typed(),
            "RUSTFLAGS='--cfg loom' cargo test -p piton 'two words'"
        );
    }

    #[test]
    fn the_output_is_kept_and_the_status_is_true() {
        let ran = Invocation::new("printf", "one\\ntwo").run(here()).unwrap();
        assert!(ran.success);
        assert_eq!(ran.stdout, "one\ntwo");
        assert!(!Invocation::new("false", "").run(here()).unwrap().success);
    }

    #[test]
    fn a_command_that_never_ends_is_killed_with_its_children() {
        let log = std::env::temp_dir().join(format!("xtask-never-{}.log", std::process::id()));
        let ending = Invocation::new("sh", "-c")
            .argument("tail -f /dev/null; true")
            .run_logged(Some(Duration::from_millis(50)), here(), &log)
            .unwrap();
        assert!(matches!(ending, Ending::TimedOut));
        std::fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_command_that_does_not_exist_is_an_error_with_its_name() {
        let error = Invocation::new("no-such-program", "")
            .run(here())
            .unwrap_err();
        assert!(error.to_string().contains("no-such-program"));
    }
}
