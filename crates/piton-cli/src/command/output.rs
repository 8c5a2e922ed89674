//! Where a command writes: results, progress, errors.

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Failure;

/// Standard output and standard error, or a buffer in tests.
pub struct Output {
    results: Box<dyn Write>,
    is_quiet: bool,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output")
            .field("is_quiet", &self.is_quiet)
            .finish_non_exhaustive()
    }
}

impl Output {
    /// Results to standard output; progress to standard error if that is a terminal.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            results: Box::new(io::stdout().lock()),
            is_quiet: false,
        }
    }

    /// Results into `results`, no progress.
    #[must_use]
    pub fn into_writer(results: impl Write + 'static) -> Self {
        Self {
            results: Box::new(results),
            is_quiet: true,
        }
    }

    /// Writes one line of results. A reader that has gone away, as `head` does, is no error.
    pub(super) fn line(&mut self, line: impl std::fmt::Display) -> Result<(), Failure> {
        match writeln!(self.results, "{line}").and_then(|()| self.results.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::result(error)),
            _ => Ok(()),
        }
    }

    /// A bar over so many pieces of work; nothing where nobody watches.
    pub(super) fn progress(&self, pieces: u64) -> ProgressBar {
        if self.is_quiet {
            return ProgressBar::with_draw_target(Some(pieces), ProgressDrawTarget::hidden());
        }
        let bar = ProgressBar::new(pieces);
        // The template is fixed; were it wrong, the default is a bar as well.
        let style = ProgressStyle::with_template("{msg:32} {wide_bar:.cyan} {pos}/{len} {elapsed}");
        style.into_iter().for_each(|style| bar.set_style(style));
        bar
    }

    /// Writes an error with its causes to standard error.
    pub(super) fn error(&self, error: &anyhow::Error) {
        // There is nowhere left to report to if this fails.
        writeln!(io::stderr(), "piton: {}", causes(error)).unwrap_or_default();
    }
}

/// An error and its causes in one line; a cause that only repeats what was said is left out.
fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
