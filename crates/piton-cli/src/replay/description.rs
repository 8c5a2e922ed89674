//! What the file beside a trace says of it: `NAME.json` for `NAME.csv.gz`. Everything in it is optional.

use std::path::Path;

/// What is read of a description.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Description {
    /// The first event of each step, from 0.
    pub(super) steps: Vec<usize>,
    /// Bytes that PyTorch's default caching allocator reserves for the trace, by a model of its rules.
    pub(super) caching_allocator_model_reserved: Option<u64>,
    /// Bytes that the real one held when the trace was recorded.
    pub(super) real_reserved_peak: Option<u64>,
}

impl Description {
    /// Of the trace in this file; empty if there is none that can be read.
    pub(super) fn beside(trace: &Path) -> Self {
        let Some(name) = trace.to_str() else {
            return Self::default();
        };
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let name = name.strip_suffix(".csv").unwrap_or(name);
        let text = std::fs::read(format!("{name}.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// What PyTorch's default allocator holds: as recorded, or else as modelled.
    pub(super) fn pytorch(&self) -> Option<u64> {
        self.real_reserved_peak
            .or(self.caching_allocator_model_reserved)
    }
}
