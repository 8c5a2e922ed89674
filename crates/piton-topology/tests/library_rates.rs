//! Bandwidths of real topology files, with the library's constants, against the library's own answers.
//!
//! The files are not part of this repository: without them the tests say so and pass.

#![expect(
    clippy::print_stdout,
    reason = "a skipped test says so, and a run says how much agrees"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

mod shared_files;

use std::path::PathBuf;

use piton_topology::{BytesPerSec, Link, LinkKind, Machine, NcclRates, NodeId, NvLinkVersion};
use serde_json::Value;

use shared_files::shared_files;

fn machines() -> Vec<(PathBuf, Machine, Value)> {
    shared_files("nccl_xml", ".xml")
        .into_iter()
        .filter_map(read)
        .collect()
}

fn read(file: PathBuf) -> Option<(PathBuf, Machine, Value)> {
    let expected = std::fs::read_to_string(file.with_extension("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let machine = Machine::from_nccl_xml_with(&text, NcclRates::Library).ok()?;
    let Value::Object(filled) = &expected["filled"] else {
        return expected["found"]
            .is_object()
            .then(|| (file, machine, expected["found"].clone()));
    };
    let machine = with_switch(
        &machine,
        filled["nvlinks_to_switch"].as_u64().unwrap(),
        filled["sm"].as_u64().unwrap(),
    );
    Some((file, machine, filled["found"].clone()))
}

/// What the library fills in: links of each device to a switch, at its rate for the compute capability.
fn with_switch(machine: &Machine, lanes: u64, compute: u64) -> Machine {
    let mut builder = machine.to_builder();
    if lanes > 0 {
        let switch = builder.link_switch("NVSwitch").unwrap();
        let rate = if compute >= 90 { 20_600 } else { 20_000 };
        for device in machine.devices() {
            let kind = LinkKind::NvLink(NvLinkVersion::V3);
            let rate = BytesPerSec::from_mb(rate * lanes);
            let link = Link::with_defaults(*device, switch, kind, u16::try_from(lanes).unwrap());
            builder
                .link(Link {
                    up: rate,
                    down: rate,
                    ..link
                })
                .unwrap();
        }
    }
    builder.build().unwrap()
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    let row = |row: &Value| {
        row.as_str()
            .unwrap()
            .split(' ')
            .map(|cell| cell.parse().unwrap())
            .collect()
    };
    value.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn the_nearest_path_of_each_pair_is_as_wide_as_the_library_says() {
    let (mut count, mut pairs) = (0, 0);
    for (file, machine, found) in machines() {
        let gpus = found["gpus"].as_array().unwrap();
        let node = |gpu: &Value| {
            let device = machine
                .device_at(gpu.as_str().unwrap().parse().unwrap())
                .unwrap();
            machine.device_node(device).unwrap()
        };
        let mut nodes: Vec<NodeId> = gpus.iter().map(node).collect();
        let memories = machine.numa().iter().map(|numa| numa.node);
        nodes.extend(memories);
        let paths = machine.nearest_paths(&nodes);
        for (table, shift) in [("gpu_gpu_gbytes_s", 0), ("gpu_cpu_gbytes_s", gpus.len())] {
            for (row, stated) in rows(&found[table]).into_iter().enumerate() {
                for (column, stated) in stated.into_iter().enumerate() {
                    let Some(path) = paths.get(row, column + shift).unwrap() else {
                        assert_eq!((row, shift), (column, 0));
                        continue;
                    };
                    let rate = path.bottleneck.get() as f64 / 1e9;
                    let place = format!("{} {table}: {row} to {column}", file.display());
                    assert!((rate - stated).abs() < 0.06, "{place}: {rate} for {stated}");
                    pairs += 1;
                }
            }
        }
        count += 1;
    }
    println!("{count} machines, {pairs} pairs agree");
}
