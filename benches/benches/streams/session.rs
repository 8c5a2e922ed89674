//! One run: what is measured, how much, and what was found.

use crate::{
    device::Rig,
    measure::{Effort, Samples, TURNS},
    naive::{Baselines, Measured, Runtime},
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
    /// Measures an operation on piton and on the baselines, in turns. The target is of the p50, in nanoseconds.
    pub(crate) fn compare(
        &mut self,
        operation: &str,
        target: Option<f64>,
        piton: impl Fn(&Rig) -> Samples,
        naive: &impl Measured,
    ) {
        if !self.wants(operation) {
            return;
        }
        let mut found: [Option<Samples>; 5] = Default::default();
        for _ in 0..TURNS {
            keep(&mut found[0], Some(piton(&self.rig)));
            if let Some(all) = &self.naive {
                for (found, measured) in found[1..].iter_mut().zip(all.measure(naive)) {
                    keep(found, measured);
                }
            }
        }
        let [piton, baselines @ ..] = found.map(|found| found.map(Samples::quantiles));
        self.rows.extend(piton.map(|piton| Row {
            operation: operation.to_owned(),
            target,
            piton,
            baselines,
        }));
    }

    /// Measures an operation that only piton has.
    pub(crate) fn measure(
        &mut self,
        operation: &str,
        target: Option<f64>,
        piton: impl Fn(&Rig) -> Samples,
    ) {
        self.compare(operation, target, piton, &Nowhere);
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

/// An operation that no baseline has.
struct Nowhere;

impl Measured for Nowhere {
    fn on<R: Runtime>(&self, _: &R) -> Option<Samples> {
        None
    }
}

fn keep(found: &mut Option<Samples>, more: Option<Samples>) {
    match (found.as_mut(), more) {
        (Some(found), Some(more)) => found.merge(more),
        (None, more) => *found = more,
        (Some(_), None) => {}
    }
}
