//! Steady rates on real machines, against another fluid model's answers.
//!
//! The files are not part of this repository: without them the test says so and passes.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

use std::path::Path;

use piton_fluid::{FlowSpec, Network, Pattern, Summary, fair_rates};
use piton_topology::{Machine, NcclRates};
use serde_json::Value;

/// The rates if each copy of a pattern takes its nearest path.
fn nearest(machine: &Machine, pattern: Pattern) -> Summary {
    let network = Network::new(machine);
    let paths = machine.nearest_paths(machine.devices());
    let devices = u16::try_from(machine.device_count()).unwrap();
    let flows = pattern.pairs(devices).into_iter().map(|(from, to)| {
        let path = paths
            .get(from.index(), to.index())
            .unwrap()
            .as_ref()
            .unwrap();
        let source = machine.device_node(from).unwrap();
        FlowSpec::new(network.uses(machine, source, &path.links), 1)
    });
    let flows: Vec<FlowSpec> = flows.collect();
    Summary::of(&fair_rates(network.capacities(), &flows))
}

#[test]
fn patterns_over_nearest_paths_have_the_rates_of_another_model() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/topologies/nccl_xml");
    let Ok(text) = std::fs::read_to_string(folder.join("fluid.expected.json")) else {
        println!("skipped: no shared/topologies/nccl_xml/fluid.expected.json");
        return;
    };
    let expected: Value = serde_json::from_str(&text).unwrap();
    let mut agree = 0;
    for (file, patterns) in expected["machines"].as_object().unwrap() {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let machine = Machine::from_nccl_xml_with(&text, NcclRates::Library).unwrap();
        for pattern in Pattern::ALL {
            let stated = &patterns[pattern.word()];
            let found = nearest(&machine, pattern);
            assert_eq!(found.copies as u64, stated["copies"].as_u64().unwrap());
            for (what, found) in [
                ("slowest", found.slowest as f64 / 1e9),
                ("fastest", found.fastest as f64 / 1e9),
                ("aggregate", found.aggregate as f64 / 1e9),
                ("jain", found.fairness),
            ] {
                let stated = stated[what].as_f64().unwrap();
                let place = format!("{file} {} {what}", pattern.word());
                assert!(
                    (found - stated).abs() <= 0.01 * stated,
                    "{place}: {found} for {stated}"
                );
                agree += 1;
            }
        }
    }
    println!("{agree} numbers agree");
}
