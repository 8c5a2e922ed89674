//! `piton demo`, on each backend that it runs on.

use std::fs;
use std::process::Command;

use super::{check_refused, json, opencl_absence, piton, piton_on_opencl};

#[test]
fn the_demonstration_on_opencl_reads_digits_as_well() {
    if let Some(absence) = opencl_absence() {
        println!("skipped: {absence}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let page = page.to_str().unwrap();
    let output = piton_on_opencl(&["demo", "--backend", "opencl", "--json", "--output", page]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = answer["checks"].as_array().unwrap();
    assert!(checks.len() >= 4 && checks.iter().all(|check| check["passed"] == true));
    assert!(answer["accuracy"].as_f64().unwrap() >= 0.95);
    assert!(fs::read_to_string(page).unwrap().contains("OpenCL devices"));
}

#[test]
fn the_demonstration_on_the_stand_in_for_cuda_reads_digits_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let stand_in = piton_fakecuda::library::stand_in().unwrap();
    fs::copy(stand_in, folder.path().join("libcuda.so.1")).unwrap();
    let page = folder.path().join("report.html");
    let page = page.to_str().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_piton"))
        .args(["demo", "--backend", "cuda", "--json", "--output", page])
        .env("LD_LIBRARY_PATH", folder.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["devices"], 2);
    let checks = answer["checks"].as_array().unwrap();
    assert!(checks.len() >= 4 && checks.iter().all(|check| check["passed"] == true));
    assert!(answer["accuracy"].as_f64().unwrap() >= 0.95);
    assert!(fs::read_to_string(page).unwrap().contains("CUDA devices"));
}

#[test]
fn what_only_simulated_devices_can_do_is_refused_on_opencl() {
    let refused = |more: &[&str]| {
        let arguments = [&["demo", "--backend", "opencl"], more].concat();
        check_refused(&arguments, "simulated devices");
    };
    refused(&["--deterministic"]);
}

#[test]
fn the_report_tells_page_locked_memory_by_pool_by_size_and_by_thread() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    json(&[
        "demo",
        "--steps",
        "2",
        "--json",
        "--output",
        page.to_str().unwrap(),
    ]);
    let report = fs::read_to_string(page).unwrap();
    for title in ["memory pools", "memory by size class", "memory by thread"] {
        let title = format!("Page-locked host {title}");
        let (_, table) = report.split_once(&title).unwrap();
        let (table, _) = table.split_once("</table>").unwrap();
        assert!(table.contains("device 0"), "{title}: {table}");
    }
}

#[test]
fn no_subcommand_is_the_demonstration() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let page = page.to_str().unwrap();
    let output = piton(&["--steps", "5", "--devices", "2", "--output", page]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for word in [
        "accuracy",
        "launches",
        "between devices",
        "device pools",
        page,
    ] {
        assert!(text.contains(word), "{word} in {text}");
    }
    assert!(fs::read_to_string(page).unwrap().contains("timeline-data"));
}

#[test]
fn demo_writes_a_trace_with_a_process_a_device_and_arrows_that_pair_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (page, trace) = (path("report.html"), path("trace.json"));
    let options = ["--steps", "3", "--devices", "2", "--deterministic"];
    let files = ["--output", &page, "--trace", &trace];
    let output = piton(&[&["demo"], &options[..], &files[..]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains(&trace), "{text}");
    let written: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&trace).unwrap()).unwrap();
    let events = written["traceEvents"].as_array().unwrap();
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    let processes = events
        .iter()
        .filter(|event| event["name"] == "process_name");
    assert_eq!(processes.count(), 2);
    assert!(count("X") > 100);
    assert!(count("s") > 0);
    assert_eq!(count("s"), count("f"));
    let refused = piton(&[
        "demo",
        "--steps",
        "1",
        "--trace",
        "/no/such/folder/trace.json",
    ]);
    assert!(!refused.status.success());
}

#[test]
fn demo_answers_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let page = page.to_str().unwrap();
    let result = json(&[
        "demo",
        "--json",
        "--steps",
        "5",
        "--deterministic",
        "--seed",
        "7",
        "--output",
        page,
    ]);
    assert_eq!(result["devices"], 4);
    assert_eq!(result["loss"].as_array().unwrap().len(), 5);
    assert!(
        result["checks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|check| check["passed"] == true)
    );
}

#[test]
fn demo_measures_copies_where_it_is_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let page = page.to_str().unwrap();
    let few = ["--devices", "1", "--steps", "1", "--output", page];
    let asked = json(&[&["demo", "--json", "--copies"], &few[..]].concat());
    assert_eq!(asked["copying"]["bytes"], 64 << 20);
    for way in ["straight_of_memcpy", "staged_of_memcpy"] {
        assert!(asked["copying"][way].as_f64().unwrap() > 0.0, "{way}");
    }
    let report = fs::read_to_string(page).unwrap();
    assert!(report.contains("of the memcpy"));
    let usual = json(&[&["demo", "--json"], &few[..]].concat());
    assert!(usual["copying"].is_null());
}

#[test]
fn demo_refuses_what_makes_no_sense() {
    check_refused(
        &["demo", "--devices", "17"],
        "17 devices asked for, possible are 1 to 16",
    );
    check_refused(&["--steps", "0"], "0 steps asked for");
    check_refused(&["demo", "--batch", "0"], "0 images per device");
    check_refused(
        &["demo", "--topology", "no/such/machine"],
        "no/such/machine",
    );
    check_refused(&["--steps", "many"], "invalid value");
    check_refused(
        &["--json", "--output", "no/such/folder/x.html"],
        "cannot be written",
    );
}

#[test]
fn the_demonstration_on_cuda_says_what_it_looked_for_where_there_is_none() {
    let output = piton(&["info", "--json"]);
    let drivers: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let drivers = drivers.as_array().unwrap();
    let cuda = drivers.iter().find(|driver| driver["name"] == "cuda");
    if cuda.unwrap()["absent"].is_null() {
        println!("skipped: there is a CUDA device here");
        return;
    }
    check_refused(&["demo", "--backend", "cuda"], "libcuda.so.1");
}
