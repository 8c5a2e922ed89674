//! How a sanitizer behaves.

use crate::Report;
use std::{fmt, sync::Arc};

/// What is done about a command that races.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Response {
    /// It is submitted, and reported.
    #[default]
    Report,
    /// It is reported and not submitted, where that can be known when it comes; see
    /// [`Sanitizer::attempt`](crate::Sanitizer::attempt).
    Refuse,
}

/// Called with each report whose two places were not reported before. It is called under no lock, on the thread
/// that made the second of them known, and may use the runtime. A panic of it ends there: the command it was told of
/// may be under way, and goes on as if nothing had happened.
pub type Listener = Arc<dyn Fn(&Report) + Send + Sync>;

/// How a sanitizer behaves. The default keeps the first thousand reports and refuses nothing.
#[derive(Clone)]
pub struct SanitizerConfig {
    /// What is done about a command that races.
    pub response: Response,
    /// How many reports are kept; more are counted.
    pub most_reports: usize,
    /// Memory is filled with this byte, in stream order, when it is handed out, so that reading what nobody wrote
    /// shows in the values too.
    pub poison: Option<u8>,
    /// Whom to tell at once.
    pub listener: Option<Listener>,
}

impl Default for SanitizerConfig {
    fn default() -> Self {
        Self {
            response: Response::default(),
            most_reports: 1000,
            poison: None,
            listener: None,
        }
    }
}

impl fmt::Debug for SanitizerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SanitizerConfig")
            .field("response", &self.response)
            .field("most_reports", &self.most_reports)
            .field("poison", &self.poison)
            .field("has_listener", &self.listener.is_some())
            .finish()
    }
}
