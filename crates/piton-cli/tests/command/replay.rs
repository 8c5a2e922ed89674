//! `piton replay`: traces in, figures, pages and snapshots out.

use std::fs;
use std::path::Path;

use super::{check_refused, file, json, piton};

fn trace(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data/traces")
        .join(name);
    path.to_str().unwrap().to_owned()
}

const TRACES: [&str; 3] = [
    "resnet50-two-steps.csv.gz",
    "bert-ddp-one-step.csv.gz",
    "llama2-fsdp-start.csv.gz",
];

#[test]
fn shipped_traces_replay_verified_at_every_lag() {
    let paths = TRACES.map(trace);
    for lag in ["0", "1", "100", "5000"] {
        let mut arguments = vec!["replay", "--json", "--check", "--repeat", "1", "--lag", lag];
        arguments.extend(paths.iter().map(String::as_str));
        let results = json(&arguments);
        let traces = results["traces"].as_array().unwrap();
        let peaks: Vec<u64> = traces
            .iter()
            .map(|trace| trace["peak_live"].as_u64().unwrap())
            .collect();
        assert_eq!(peaks, [4_994_988_816, 25_034_058_792, 7_202_167_824]);
        for trace in traces {
            assert_eq!(trace["out_of_memory"], 0);
            let ratio = trace["ratio"].as_f64().unwrap();
            assert!((1.0..2.0).contains(&ratio), "{ratio}");
        }
    }
}

#[test]
fn replay_prints_a_table_and_writes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let (first, second) = (trace(TRACES[0]), trace(TRACES[1]));
    let output = piton(&[
        "replay",
        &first,
        &second,
        "--repeat",
        "1",
        "--output",
        page.to_str().unwrap(),
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("resnet50-two-steps") && text.contains("geometric mean"),
        "{text}"
    );
    // What the figures mean, and the one configuration of all rows.
    assert!(text.contains("fits on 192 GiB; the pool held"), "{text}");
    assert!(text.contains("best fit in one range"), "{text}");
    assert!(
        text.contains("Pool configuration of all rows: MemoryPoolConfig"),
        "{text}"
    );
    assert!(
        fs::read_to_string(page)
            .unwrap()
            .contains("bert-ddp-one-step")
    );
}

#[test]
fn the_smallest_device_is_found_for_both_placements() {
    for placement in ["virtual", "blocks"] {
        let results = json(&[
            "replay",
            "--json",
            "--repeat",
            "0",
            "--capacity",
            "min",
            "--placement",
            placement,
            &trace(TRACES[0]),
        ]);
        assert_eq!(results["placement"], placement);
        let trace = &results["traces"][0];
        let minimum = &trace["minimum"];
        let least = minimum["capacity"].as_u64().unwrap();
        let peak = trace["peak_live"].as_u64().unwrap();
        assert!((peak..peak / 4 * 5).contains(&least), "{least} for {peak}");
        let curve = minimum["curve"].as_array().unwrap();
        assert_eq!(curve.len(), 4);
        assert_eq!(curve[0]["capacity"], least);
        assert_eq!(curve[0]["out_of_memory"], 0);
        assert!(curve[0]["modelled_seconds"].as_f64().unwrap() > 0.0);
        let verdict = results["verdicts"][0].as_str().unwrap();
        assert!(
            verdict.contains("The smallest device that runs it has"),
            "{verdict}"
        );
    }
}

#[test]
fn all_there_is_to_tell_of_a_folder_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let two_streams = "a,0,4194304,0\nu,0,1\na,1,1000,1\nf,0,0\na,2,3000000,0\nf,2,0\n";
    file(folder.path(), "one.csv", b"a,0,5000000,0\n");
    file(folder.path(), "two.csv", two_streams.as_bytes());
    file(folder.path(), "notes.txt", b"no trace");
    let path = folder.path().to_str().unwrap();
    let output = piton(&["replay", "--all", "--repeat", "1", path]);
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "smallest, virtual",
        "worst, peak of 2 GiB or more",
        "pages moved",
        "held / at once, no stealing",
        "waits forbidden",
        "step, worst",
        "p99.9",
        "best fit",
        "Virtual: one: fits on 192 GiB",
        "Blocks: two: fits on 192 GiB",
        "Pool configuration of all rows: MemoryPoolConfig",
    ] {
        assert!(text.contains(expected), "no {expected} in {text}");
    }
    let surveyed = json(&["replay", "--all", "--json", "--repeat", "0", path]);
    let two = &surveyed[1]["placements"][0];
    assert_eq!(two["result"]["trace"], "two");
    assert_eq!(two["lagging"]["lag"], 10_000);
    assert!(two["result"]["minimum"]["failing_above"].is_u64());
    assert_eq!(
        surveyed[0]["placements"][1]["lagging"],
        serde_json::Value::Null
    );
}

#[test]
fn a_call_that_fails_costs_a_trace_one_request_at_most() {
    let path = trace(TRACES[2]);
    let calls = |faults: &str| {
        let met = json(&["replay", faults, "--json", "--capacity", "16GiB", &path]);
        assert!(met[0]["most_refused"].as_u64().unwrap() <= 1);
        ["calls", "plays"].map(|count| met[0][count].as_u64().unwrap())
    };
    let [failed, plays] = calls("--faults");
    assert!(failed > 3);
    assert_eq!(plays, failed, "each in a play of its own");
    let [failed, plays] = calls("--faults=3");
    assert_eq!(plays, 3);
    assert!(failed > 3, "more than one in a play");
}

#[test]
fn odd_traces_end_in_figures_or_in_an_error_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, bytes: &[u8], expected: &str| {
        let (_, path) = file(folder.path(), name, bytes);
        check_refused(&["replay", "--all", &path], expected);
    };
    refused("empty.csv", b"", "empty.csv: holds no events");
    refused("unknown.csv", b"f,7,0\n", "unknown.csv:1: ");
    refused("zero.csv", b"a,0,0,0\n", "zero.csv:1: ");
    refused("words.csv", b"allocate\n", "words.csv:1: ");
    refused(
        "cut.pickle",
        b"\x80\x04\x95",
        "cut.pickle: not a memory snapshot",
    );
    check_refused(&["replay", "--all", "no/such/folder"], "cannot be read");
    let none = tempfile::tempdir().unwrap();
    check_refused(
        &["replay", "--all", none.path().to_str().unwrap()],
        "has no traces",
    );
    // What no device that can be simulated has room for has no smallest one.
    let (_, huge) = file(folder.path(), "huge.csv", b"a,0,281474976710656,0\nf,0,0\n");
    let surveyed = json(&["replay", "--all", "--json", "--repeat", "1", &huge]);
    let result = &surveyed[0]["placements"][0]["result"];
    assert_eq!(result["out_of_memory"], 1);
    assert_eq!(result["minimum"], serde_json::Value::Null);
    assert_eq!(result["peers"]["best_fit"], serde_json::Value::Null);
}

#[test]
fn a_small_device_runs_out_of_memory_and_says_so() {
    let results = json(&[
        "replay",
        "--json",
        "--check",
        "--repeat",
        "0",
        "--capacity",
        "2GiB",
        &trace(TRACES[0]),
    ]);
    let trace = &results["traces"][0];
    assert!(trace["out_of_memory"].as_u64().unwrap() > 0);
    assert!(trace["peak_held"].as_u64().unwrap() <= 2 << 30);
}

#[test]
fn bad_traces_end_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let (_, twice) = file(folder.path(), "twice.csv", b"a,0,512,0\nf,0,0\nf,0,0\n");
    check_refused(&["replay", &twice], "twice.csv:3: id 0 is freed twice");
    let (_, size) = file(
        folder.path(),
        "size.csv",
        b"a,0,512,0\na,1,281474976710657,0\n",
    );
    check_refused(
        &["replay", &size],
        "size.csv:2: allocation of 281474976710657 bytes",
    );
    let whole = fs::read(trace(TRACES[2])).unwrap();
    let (_, cut) = file(folder.path(), "cut.csv.gz", &whole[..whole.len() / 2]);
    check_refused(&["replay", &cut], "the gzip stream is cut off");
    check_refused(
        &["replay", "no/such/file.csv.gz"],
        "no/such/file.csv.gz: cannot be read",
    );
}

#[test]
fn wrong_options_are_refused() {
    let trace = trace(TRACES[0]);
    check_refused(&["replay"], "TRACE");
    check_refused(&["replay", &trace, "--capacity", "0"], "out of range");
    check_refused(&["replay", &trace, "--capacity", "3TiB"], "1 TiB");
    check_refused(&["replay", &trace, "--capacity", "some"], "whole number");
    check_refused(&["replay", &trace, "--lag", "x"], "--lag");
    check_refused(
        &["replay", &trace, "--output", "no/such/folder/x.html"],
        "cannot be written",
    );
    check_refused(&["nonsense"], "unrecognized subcommand");
}

#[test]
fn hindsight_places_shipped_traces_near_their_peak() {
    let paths = TRACES.map(trace);
    let mut arguments = vec!["replay", "--plan", "--json"];
    arguments.extend(paths.iter().map(String::as_str));
    let planned = json(&arguments);
    for trace in planned.as_array().unwrap() {
        let whole = &trace["whole"];
        assert!(whole["ratio"].as_f64().unwrap() <= 1.05, "{trace}");
        assert!(whole["height"].as_u64() >= whole["peak_live"].as_u64());
    }
    arguments.retain(|argument| *argument != "--json");
    let output = piton(&arguments);
    assert!(String::from_utf8_lossy(&output.stdout).contains("geometric mean"));
}

#[test]
fn a_snapshot_of_a_replay_is_a_trace_again() {
    let folder = tempfile::tempdir().unwrap();
    for placement in ["virtual", "blocks"] {
        let (_, snapshot) = file(folder.path(), &format!("{placement}.pickle"), b"");
        let first = trace(TRACES[0]);
        let arguments = [
            "replay",
            "--json",
            "--repeat",
            "0",
            "--placement",
            placement,
        ];
        let before = json(&[&arguments[..], &["--snapshot", &snapshot, &first]].concat());
        let again = json(&[&arguments[..], &[&snapshot]].concat());
        let of = |value: &serde_json::Value, name: &str| value["traces"][0][name].clone();
        assert!(of(&before, "peak_live").as_u64().unwrap() > 0, "{before}");
        assert_eq!(of(&before, "peak_live"), of(&again, "peak_live"));
        assert_eq!(of(&before, "peak_held"), of(&again, "peak_held"));
    }
    let two = [trace(TRACES[0]), trace(TRACES[1])];
    check_refused(
        &["replay", "--snapshot", "x.pickle", &two[0], &two[1]],
        "2 traces",
    );
}
