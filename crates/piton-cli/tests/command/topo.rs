//! `piton topo`: machines read, routes explained, captures read back.

use std::path::Path;

use super::{check_refused, file, json, piton};

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
