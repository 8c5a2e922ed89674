//! The reports so far: each pair of places once, up to a bound, counted past it.

use crate::Report;

/// See the module.
#[derive(Debug)]
pub(crate) struct Ledger {
    reports: Vec<Report>,
    most: usize,
    /// Reports that found no room.
    beyond: u64,
    /// All there ever were, repetitions included.
    met: u64,
}

impl Ledger {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            reports: Vec::new(),
            most,
            beyond: 0,
            met: 0,
        }
    }

    /// Takes a report in; `true` if its two places were not known together.
    pub(crate) fn add(&mut self, report: &Report) -> bool {
        self.met += 1;
        if let Some(known) = self.reports.iter_mut().find(|known| known.is_like(report)) {
            known.times += 1;
            return false;
        }
        if self.reports.len() >= self.most {
            self.beyond += 1;
        } else {
            self.reports.push(report.clone());
        }
        true
    }

    pub(crate) fn reports(&self) -> &[Report] {
        &self.reports
    }

    pub(crate) fn take(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }

    pub(crate) fn met(&self) -> u64 {
        self.met
    }
}
