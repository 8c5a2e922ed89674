//! One run: what is measured, how much, and what was found.

use crate::{
    device::Rig,
    measure::{Effort, Quantiles},
    naive::{Baselines, Measured},
    report::{Row, Sheet},
};

/// What a run measures with, and its results so far.
pub(crate) struct Session {
    pub(crate) rig: Rig,
    pub(crate) effort: Effort,
    /// `None`: piton alone.
    pub(crate) naive: Option<Baselines>,
    /// Only operations and sheets whose name contains this.
    pub(crate) only: Option<String>,
    pub(crate) rows: Vec<Row>,
    pub(crate) sheets: Vec<Sheet>,
}

impl Session {
    /// Measures an operation on piton, then on the baselines. The target is of the p50, in nanoseconds.
    pub(crate) fn compare(
        &mut self,
        operation: &str,
        target: Option<f64>,
        piton: impl FnOnce(&Rig) -> Quantiles,
        naive: &impl Measured,
    ) {
        if self.wants(operation) {
            self.rows.push(Row {
                operation: operation.to_owned(),
                target,
                piton: piton(&self.rig),
                baselines: self
                    .naive
                    .as_ref()
                    .map_or([None; 4], |all| all.measure(naive)),
            });
        }
    }

    /// Measures an operation that only piton has.
    pub(crate) fn measure(
        &mut self,
        operation: &str,
        target: Option<f64>,
        piton: impl FnOnce(&Rig) -> Quantiles,
    ) {
        if self.wants(operation) {
            self.rows.push(Row {
                operation: operation.to_owned(),
                target,
                piton: piton(&self.rig),
                baselines: [None; 4],
            });
        }
    }

    /// Fills a sheet.
    pub(crate) fn fill(&mut self, title: &str, fill: impl FnOnce(&Rig) -> Sheet) {
        if self.wants(title) {
            self.sheets.push(Sheet {
                title: title.to_owned(),
                ..fill(&self.rig)
            });
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }
}
