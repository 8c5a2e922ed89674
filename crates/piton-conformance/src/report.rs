//! Running the suite, and the table of what came of it.

use crate::{
    outcome::{Failure, Outcome},
    subject::Subject,
    suite::{Case, suite},
};
use piton_driver::DeviceId;
use std::{
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// One case and how it ended.
#[derive(Clone, Debug)]
pub struct Row {
    /// The part of the contract it belongs to.
    pub area: &'static str,
    /// Its name.
    pub name: &'static str,
    /// How it ended.
    pub outcome: Outcome,
}

/// What came of the suite on one subject.
#[derive(Clone, Debug)]
pub struct Report {
    /// The subject's name.
    pub subject: String,
    /// One row a case, in the suite's order.
    pub rows: Vec<Row>,
}

impl Report {
    /// How many cases passed, failed and were absent.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |is: fn(&Outcome) -> bool| self.rows.iter().filter(|r| is(&r.outcome)).count();
        (
            count(|outcome| matches!(outcome, Outcome::Passed)),
            count(|outcome| matches!(outcome, Outcome::Failed(_))),
            count(|outcome| matches!(outcome, Outcome::Absent(_))),
        )
    }

    /// The cases that failed.
    pub fn failures(&self) -> impl Iterator<Item = (&Row, &Failure)> {
        self.rows.iter().filter_map(|row| match &row.outcome {
            Outcome::Failed(failure) => Some((row, failure)),
            _ => None,
        })
    }
}

/// Runs every case on the subject, one after the other, each on a driver opened afresh. Blocks until all have
/// ended; a backend that loses a wake hangs here.
pub fn run(subject: &Subject) -> Report {
    let rows = suite().into_iter().map(|case| Row {
        area: case.area,
        name: case.name,
        outcome: try_case(&case, subject),
    });
    Report {
        subject: subject.name().to_owned(),
        rows: rows.collect(),
    }
}

fn try_case(case: &Case, subject: &Subject) -> Outcome {
    if let Some(reason) = absence(case, subject) {
        return reason;
    }
    let body = AssertUnwindSafe(|| (case.run)(subject));
    let result = catch_unwind(body)
        .unwrap_or_else(|_| Err(Failure::new("no call panics", "the case panicked")));
    let gap = subject.gaps().iter().find(|gap| gap.case == case.name);
    match (result, gap) {
        (Ok(()), None) => Outcome::Passed,
        (Err(failure), None) => Outcome::Failed(failure),
        (Err(_), Some(gap)) => Outcome::Absent(gap.reason.to_owned()),
        (Ok(()), Some(gap)) => Outcome::Failed(Failure::new(
            "a declared gap is one",
            format!("it passed: {}", gap.reason),
        )),
    }
}

/// The first facet the case needs and the device does not offer.
fn absence(case: &Case, subject: &Subject) -> Option<Outcome> {
    let opened = subject
        .open()
        .and_then(|driver| Ok((driver.open(DeviceId(0))?, driver)));
    match opened {
        Err(error) => Some(Outcome::Failed(error.into())),
        Ok((device, driver)) => case
            .needs
            .iter()
            .find(|facet| !subject.offers(**facet, &*driver, &*device))
            .map(|facet| Outcome::Absent(format!("the device does not offer {facet:?}"))),
    }
}

/// The reports side by side: one line a case, one column a subject; below, each failure and each reason.
pub fn table(reports: &[Report]) -> String {
    let mut text = String::new();
    let notes = write_rows(&mut text, reports);
    for report in reports {
        let (passed, failed, absent) = report.counts();
        let name = &report.subject;
        let _ = writeln!(
            text,
            "{name}: {passed} passed, {failed} failed, {absent} absent"
        );
    }
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// Writes the table proper; returns what is to be said below it.
fn write_rows(text: &mut String, reports: &[Report]) -> Vec<String> {
    let mut notes = Vec::new();
    let name_width = suite()
        .iter()
        .map(|case| case.name.len())
        .max()
        .unwrap_or(0);
    let _ = write!(text, "{:<14} {:<name_width$}", "area", "property");
    for report in reports {
        let _ = write!(text, " | {:<8}", report.subject);
    }
    text.push('\n');
    for (index, case) in suite().iter().enumerate() {
        let _ = write!(text, "{:<14} {:<name_width$}", case.area, case.name);
        for report in reports {
            let width = report.subject.len().max(8);
            let word = match report.rows.get(index).map(|row| &row.outcome) {
                Some(Outcome::Passed) => "passed",
                Some(Outcome::Failed(failure)) => {
                    notes.push(format!(
                        "FAILED {} on {}: {failure}",
                        case.name, report.subject
                    ));
                    "FAILED"
                }
                Some(Outcome::Absent(reason)) => {
                    notes.push(format!(
                        "absent {} on {}: {reason}",
                        case.name, report.subject
                    ));
                    "absent"
                }
                None => "",
            };
            let _ = write!(text, " | {word:<width$}");
        }
        text.push('\n');
    }
    notes
}
