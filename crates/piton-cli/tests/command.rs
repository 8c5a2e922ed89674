//! The `piton` command as a process: what it prints and how it ends.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn piton(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_piton"))
        .args(arguments)
        .output()
        .unwrap()
}

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

#[track_caller]
fn json(arguments: &[&str]) -> serde_json::Value {
    let output = piton(arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The command ends with exit code 2 and says `expected`.
#[track_caller]
fn check_refused(arguments: &[&str], expected: &str) {
    let output = piton(arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains(expected), "{message}");
    assert!(output.stdout.is_empty());
}

fn file(folder: &Path, name: &str, bytes: &[u8]) -> (PathBuf, String) {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    let text = path.to_str().unwrap().to_owned();
    (path, text)
}

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
    assert!(text.contains("All rows: MemoryPoolConfig"), "{text}");
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
        "All rows: MemoryPoolConfig",
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
    refused("empty.csv", b"", "empty.csv:0: holds no events");
    refused("unknown.csv", b"f,7,0\n", "unknown.csv:1: ");
    refused("zero.csv", b"a,0,0,0\n", "zero.csv:1: ");
    refused("words.csv", b"allocate\n", "words.csv:1: ");
    refused(
        "cut.pickle",
        b"\x80\x04\x95",
        "cut.pickle:0: no memory snapshot",
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
        "no/such/file.csv.gz:0: cannot be read",
    );
}

#[test]
fn wrong_options_are_refused() {
    let trace = trace(TRACES[0]);
    check_refused(&["replay"], "TRACE");
    check_refused(&["replay", &trace, "--capacity", "0"], "out of range");
    check_refused(&["replay", &trace, "--capacity", "3TiB"], "2 TiB");
    check_refused(&["replay", &trace, "--capacity", "some"], "whole number");
    check_refused(&["replay", &trace, "--lag", "x"], "--lag");
    check_refused(
        &["replay", &trace, "--output", "no/such/folder/x.html"],
        "cannot be written",
    );
    check_refused(&["nonsense"], "unrecognized subcommand");
}

/// Two devices below one host bridge.
const TWO_DEVICES: &str = r#"<system version="1"><cpu numaid="0" affinity="00000000,000000ff" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">
    <pci busid="0000:01:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"><gpu dev="0" sm="80" rank="0" gdr="1"/></pci>
    <pci busid="0000:02:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"><gpu dev="1" sm="80" rank="1" gdr="1"/></pci>
    </cpu></system>"#;

#[test]
fn topo_reads_back_what_it_captured() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("machine.json");
    let capture = capture.to_str().unwrap();
    let (_, source) = file(folder.path(), "machine.xml", TWO_DEVICES.as_bytes());
    let first = json(&["topo", "--json", &source, "--capture", capture]);
    assert_eq!(first["machine"]["devices"].as_array().unwrap().len(), 2);
    assert_eq!(json(&["topo", "--json", capture]), first);
    let text = String::from_utf8(piton(&["topo", capture]).stdout).unwrap();
    assert!(text.contains("chosen"), "{text}");
}

/// Four devices in a ring of links, with one opposite each, under one host bridge.
fn ring(folder: &Path) -> String {
    let link = |from: u16| {
        let ends = [(from + 1) % 4, (from + 3) % 4];
        ends.map(|end| {
            format!("<nvlink target=\"0000:0{end}:00.0\" count=\"4\" tclass=\"0x030200\"/>")
        })
        .concat()
    };
    let gpu = |number: u16| {
        format!(
            "<pci busid=\"0000:0{number}:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\">\
             <gpu dev=\"{number}\" sm=\"80\">{}</gpu></pci>",
            link(number)
        )
    };
    let gpus: String = (0..4).map(gpu).collect();
    let xml =
        format!("<system version=\"1\"><cpu numaid=\"0\" affinity=\"ff\">{gpus}</cpu></system>");
    file(folder, "ring.xml", xml.as_bytes()).1
}

#[test]
fn topo_explains_one_copy_with_its_relays_and_parts() {
    let folder = tempfile::tempdir().unwrap();
    let source = ring(folder.path());
    let asked = [
        "topo", &source, "--from", "0", "--to", "GPU2", "--size", "1GiB",
    ];
    let text = String::from_utf8(piton(&asked).stdout).unwrap();
    assert!(
        text.contains("device 0 to device 2 over device 1: chosen"),
        "{text}"
    );
    assert!(text.contains("over 3 routes at once"), "{text}");
    assert!(!text.contains("device 1 to device 0"), "{text}");
    let all = [&asked[..], &["--json"]].concat();
    let json = json(&all);
    assert_eq!(json["matrix"]["distances"][0][1], "NV4");
    let striped = json["striped"].as_array().unwrap();
    assert_eq!(striped.len(), 1);
    let parts = striped[0]["plan"]["stripes"].as_array().unwrap();
    let bytes: u64 = parts
        .iter()
        .map(|part| part["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(bytes, 1 << 30);
    check_refused(
        &["topo", &source, "--from", "GPU9"],
        "none of the machine's 4 devices",
    );
}

#[test]
fn the_page_of_a_copy_says_of_its_only_route_what_the_text_says() {
    let folder = tempfile::tempdir().unwrap();
    let (_, source) = file(folder.path(), "machine.xml", TWO_DEVICES.as_bytes());
    let page = folder.path().join("page.html");
    let output = page.to_str().unwrap();
    let asked = [
        "topo", &source, "--from", "0", "--to", "1", "--output", output,
    ];
    let text = String::from_utf8(piton(&asked).stdout).unwrap();
    let (_, chosen) = text.split_once("chosen, 67108864 bytes in ").unwrap();
    let (time, rate) = chosen.split_once(" at ").unwrap();
    let rate = rate.lines().next().unwrap();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("to device 1 in {time}")), "{time}");
    assert!(page.contains(&format!("at {rate}")), "{rate}");
}

#[test]
fn topo_reads_what_tools_print_and_writes_what_a_library_reads() {
    let folder = tempfile::tempdir().unwrap();
    let source = ring(folder.path());
    let capture = folder.path().join("again.xml");
    let capture = capture.to_str().unwrap();
    let first = json(&["topo", "--json", &source, "--capture", capture]);
    let again = json(&["topo", "--json", capture]);
    assert_eq!(again["matrix"]["distances"], first["matrix"]["distances"]);
    let printed = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPXB\t0-3\nGPU1\tPXB\t X \t0-3\n";
    let (_, matrix) = file(folder.path(), "topo.txt", printed.as_bytes());
    assert_eq!(
        json(&["topo", "--json", &matrix])["matrix"]["distances"][1][0],
        "PXB"
    );
    let hwloc = "<topology version=\"9.0\"/>";
    let (_, hwloc) = file(folder.path(), "lstopo.xml", hwloc.as_bytes());
    check_refused(&["topo", &hwloc], "line 1: hwloc XML version 9.0");
}

#[test]
fn topo_puts_several_sources_together() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bus) = file(folder.path(), "bus.xml", TWO_DEVICES.as_bytes());
    let printed = "\tGPU0\tGPU1\tNUMA Affinity\nGPU0\t X \tNV4\t0\nGPU1\tNV4\t X \t0\n";
    let (_, fabric) = file(folder.path(), "topo.txt", printed.as_bytes());
    for sources in [[&bus, &fabric], [&fabric, &bus]] {
        let both = json(&["topo", "--json", sources[0], sources[1]]);
        assert_eq!(both["matrix"]["distances"][0][1], "NV4");
        assert_eq!(both["machine"]["devices"].as_array().unwrap().len(), 2);
    }
    let three =
        "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tSYS\tSYS\nGPU1\tSYS\t X \tSYS\nGPU2\tSYS\tSYS\t X \n";
    let (_, three) = file(folder.path(), "three.txt", three.as_bytes());
    check_refused(
        &["topo", &bus, &three],
        "3 devices are known by number alone",
    );
}

#[test]
fn topo_shows_what_was_measured_beside_what_is_modelled() {
    let folder = tempfile::tempdir().unwrap();
    let source = ring(folder.path());
    let text = String::from_utf8(piton(&["topo", &source, "--measure"]).stdout).unwrap();
    let pairs = text.lines().filter(|line| line.contains(": measured "));
    let pairs: Vec<&str> = pairs.collect();
    assert_eq!(pairs.len(), 12, "{text}");
    assert!(pairs[0].ends_with("100 % of the model"), "{}", pairs[0]);
    let capture = folder.path().join("measured.json");
    let capture = capture.to_str().unwrap();
    let measured = json(&["topo", "--json", &source, "--measure", "--capture", capture]);
    assert_eq!(measured["measured"].as_array().unwrap().len(), 12);
    let again = json(&["topo", "--json", capture]);
    assert_eq!(
        again["matrix"]["bandwidths"][0][1]["provenance"],
        "measured"
    );
    assert_eq!(
        measured["matrix"]["bandwidths"][0][1]["provenance"],
        "declared"
    );
}

#[test]
fn topo_says_how_copies_between_more_devices_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let source = ring(folder.path());
    let text = String::from_utf8(piton(&["topo", &source, "--scaling"]).stdout).unwrap();
    let (_, scaling) = text.split_once("scaling, ").unwrap();
    // Two devices and four, four patterns each.
    assert_eq!(scaling.matches(" of linear, ").count(), 8, "{scaling}");
    assert!(scaling.contains("neighbour") && scaling.contains("the cut"));
}

#[test]
fn topo_refuses_what_is_no_machine() {
    let folder = tempfile::tempdir().unwrap();
    let (_, xml) = file(folder.path(), "bad.xml", b"<system");
    check_refused(&["topo", &xml], "bad.xml");
    let (_, json) = file(folder.path(), "bad.json", b"{\n  \"piton_machine\": }");
    check_refused(&["topo", &json], "line 2");
    check_refused(&["topo", folder.path().to_str().unwrap()], "no `sys` in it");
    check_refused(&["topo", "no/such/file"], "no/such/file");
}

#[test]
fn info_lists_the_simulated_device_and_what_is_absent() {
    let drivers = json(&["info", "--json"]);
    let drivers = drivers.as_array().unwrap();
    assert_eq!(drivers[0]["name"], "sim");
    assert_eq!(drivers[0]["devices"].as_array().unwrap().len(), 1);
    for driver in &drivers[1..] {
        let has_devices = !driver["devices"].as_array().unwrap().is_empty();
        assert_ne!(has_devices, driver["absent"].is_string(), "{driver}");
    }
    assert!(piton(&["info"]).status.success());
}

/// The command on two devices of pocl, if that is the driver, with its compiler's cache out of the home folder.
fn piton_on_opencl(arguments: &[&str]) -> Output {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pocl-cache");
    fs::create_dir_all(&cache).unwrap();
    Command::new(env!("CARGO_BIN_EXE_piton"))
        .args(arguments)
        .env("POCL_DEVICES", "pthread pthread")
        .env("POCL_CACHE_DIR", cache)
        .output()
        .unwrap()
}

/// Why there is no OpenCL here, if there is none.
fn opencl_absence() -> Option<String> {
    let output = piton_on_opencl(&["info", "--json"]);
    let drivers: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let drivers = drivers.as_array().unwrap();
    let opencl = drivers.iter().find(|driver| driver["name"] == "opencl");
    Some(opencl.unwrap()["absent"].as_str()?.to_owned())
}

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

#[test]
fn where_the_loader_knows_no_driver_that_is_said() {
    if opencl_absence().is_some() {
        println!("skipped: no OpenCL loader and driver to hide");
        return;
    }
    let info = |variable: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_piton"))
            .arg("info")
            .env(variable, "no/such/folder")
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let text = info("OCL_ICD_VENDORS");
    assert!(
        text.contains("opencl: absent: the OpenCL loader knows no platform"),
        "{text}"
    );
}

/// What `piton info` says of a driver where libraries are looked for in this folder first.
fn info_on(driver: &str, folder: &std::path::Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_piton"))
        .arg("info")
        .env("LD_LIBRARY_PATH", folder)
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, rest) = text.split_once(&format!("{driver}: ")).unwrap();
    rest.to_owned()
}

#[test]
fn a_cuda_library_is_found_and_what_it_lacks_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let lacks = piton_fakecuda::library::without("cuMemMap", folder.path()).unwrap();
    fs::rename(lacks, folder.path().join("libcuda.so.1")).unwrap();
    let text = info_on("cuda", folder.path());
    assert!(text.starts_with("2 device(s)"), "{text}");
    let lack = "no virtual memory: the library has no cuMemMap";
    assert!(text.contains(lack), "{text}");
    assert!(text.contains("host memory, host functions, semaphores, peers"));
}

#[test]
fn a_cuda_library_that_is_none_says_what_it_has_not() {
    let folder = tempfile::tempdir().unwrap();
    let lacks = piton_fakecuda::library::without("cuMemAlloc_v2", folder.path()).unwrap();
    fs::rename(lacks, folder.path().join("libcuda.so.1")).unwrap();
    let text = info_on("cuda", folder.path());
    let absence = "absent: libcuda.so.1 has no cuMemAlloc_v2";
    assert!(text.starts_with(absence), "{text}");
}

#[test]
fn an_ascend_library_is_looked_for_found_and_what_it_lacks_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let text = info_on("ascend", folder.path());
    let absence = "absent: no Ascend library: libascendcl.so: ";
    assert!(text.starts_with(absence), "{text}");
    let lacks = piton_fakeascend::library::without("aclrtMapMem", folder.path()).unwrap();
    fs::rename(lacks, folder.path().join("libascendcl.so")).unwrap();
    let text = info_on("ascend", folder.path());
    assert!(text.starts_with("2 device(s)"), "{text}");
    let lack = "no virtual memory: the library has no aclrtMapMem";
    assert!(text.contains(lack), "{text}");
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
