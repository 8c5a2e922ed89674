//! Running `piton demo`, the project's main job, as a user would, and believing neither its exit code nor its words
//! alone: each check in its JSON answer counts as a test, and the page it says it wrote must be there.

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use crate::invocation::Invocation;
use crate::report::{Outcome, Report};
use crate::tally::Tally;
use crate::workspace::Workspace;

/// By the clock, in virtual time, and on the drivers of others that are here.
const MODES: &[&str] = &["", "--deterministic", OPENCL, "--backend cuda"];
const BACKEND: &str = "--backend ";
const OPENCL: &str = "--backend opencl";

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Report> {
    let mut all = Vec::new();
    for mode in MODES {
        all.push(run_in(workspace, mode)?.0);
    }
    Ok(Report::of_all(all))
}

/// Runs it on the driver of this name, where that is here; what it printed, or why it did not, stands beside.
pub(crate) fn run_on(workspace: &Workspace, driver: &str) -> anyhow::Result<(Report, String)> {
    run_in(workspace, &format!("{BACKEND}{driver}"))
}

fn run_in(workspace: &Workspace, mode: &str) -> anyhow::Result<(Report, String)> {
    if let Some(driver) = mode.strip_prefix(BACKEND)
        && let Some(absence) = absence(workspace, driver)?
    {
        let text = format!("skipped: {absence}\n");
        print!("{text}");
        return Ok((Report::skipped(absence), text));
    }
    let folder = workspace.target_for("demo");
    std::fs::create_dir_all(&folder)?;
    let page = folder.join("piton-report.html");
    remove_if_there(&page)?;
    let demo = Invocation::cargo(&format!("run --release --quiet -- demo --json {mode}"))
        .argument("--output")
        .argument(page.to_string_lossy());
    let demo = if mode == OPENCL {
        // Two devices of pocl, if that is the driver, and its compiler's cache out of the home folder.
        demo.variable("POCL_DEVICES", "pthread pthread")
            .path_variable("POCL_CACHE_DIR", &folder)
    } else {
        demo
    };
    let ran = demo.run(workspace.root())?;
    let answer = serde_json::from_str(&ran.stdout).unwrap_or(Value::Null);
    let mut tally = Tally::default();
    let mut broken = failed_checks(&answer, &mut tally);
    if !ran.success && broken.is_empty() {
        broken.push("the command".to_owned());
    }
    if !is_page(&page) {
        broken.push("the page".to_owned());
    }
    let outcome = if broken.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed(format!("not as it must be: {}", broken.join("; ")))
    };
    Ok((Report { outcome, tally }, ran.stdout))
}

/// Why this driver is not here, as `piton info` says; nothing where it is.
fn absence(workspace: &Workspace, driver: &str) -> anyhow::Result<Option<String>> {
    let info =
        Invocation::cargo("run --release --quiet -- info --json").answer(workspace.root())?;
    let drivers: Value = serde_json::from_slice(&info)?;
    let drivers = drivers.as_array().map_or(&[][..], Vec::as_slice);
    let known = drivers.iter().find(|known| known["name"] == driver);
    let absence = known.and_then(|known| known["absent"].as_str());
    Ok(absence.map(str::to_owned))
}

fn remove_if_there(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Counts the checks in the answer and names those that did not pass. An answer without checks is one failure.
fn failed_checks(answer: &Value, tally: &mut Tally) -> Vec<String> {
    let checks = answer["checks"].as_array().map_or(&[][..], Vec::as_slice);
    if checks.is_empty() {
        tally.failed += 1;
        return vec!["the answer has no checks".to_owned()];
    }
    let mut failed = Vec::new();
    for check in checks {
        if check["passed"] == Value::Bool(true) {
            tally.passed += 1;
        } else {
            tally.failed += 1;
            failed.push(check["name"].as_str().unwrap_or("unnamed").to_owned());
        }
    }
    failed
}

fn is_page(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|page| page.trim_end().ends_with("</html>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(answer: &str) -> (Vec<String>, Tally) {
        let mut tally = Tally::default();
        let answer = serde_json::from_str(answer).unwrap_or(Value::Null);
        (failed_checks(&answer, &mut tally), tally)
    }

    #[test]
    fn each_check_is_a_test_and_those_that_fail_are_named() {
        let (failed, tally) = failed(
            r#"{ "checks": [{ "name": "learned", "passed": true }, { "name": "agrees", "passed": false }] }"#,
        );
        assert_eq!(failed, ["agrees"]);
        assert_eq!((tally.passed, tally.failed), (1, 1));
    }

    #[test]
    fn an_answer_that_is_none_fails() {
        assert_eq!(failed("panicked").0.len(), 1);
        assert_eq!(failed(r#"{ "checks": [] }"#).1.failed, 1);
    }

    #[test]
    fn a_page_that_was_cut_short_is_none() {
        let path = std::env::temp_dir().join(format!("xtask-page-{}.html", std::process::id()));
        std::fs::write(&path, "<html><body>").unwrap();
        assert!(!is_page(&path));
        std::fs::write(&path, "<html></html>\n").unwrap();
        assert!(is_page(&path));
        remove_if_there(&path).unwrap();
        assert!(!is_page(&path));
        remove_if_there(&path).unwrap();
    }
}
