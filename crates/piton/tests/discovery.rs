//! Without a model, what the driver says and what `/sys` says become one machine.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton::{
    Devices, Runtime, RuntimeConfig,
    sim::{DeviceConfig, SimConfig, SimDriver},
};
use piton_driver::{LinkClass, PciAddress};
use piton_topology::{Distance, Machine};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A captured tree that goes away with the value.
struct Tree(PathBuf);

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// `/sys` of a machine with two accelerators below one bridge each, in two domains, and a display adapter.
fn tree(name: &str) -> Tree {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("discovery-{name}-{}", std::process::id()));
    let _none = fs::remove_dir_all(&root);
    let bus = root.join("sys/bus/pci/devices");
    for (address, class, numa) in [
        ("0000:03:00.0", "0x030000", "0"),
        ("0001:3b:00.0", "0x120000", "0"),
        ("10000:5e:00.0", "0x120000", "1"),
    ] {
        let folder = bus.join(address);
        fs::create_dir_all(&folder).unwrap();
        let files = [
            ("class", class),
            ("vendor", "0x19e5"),
            ("device", "0xd802"),
            ("numa_node", numa),
        ];
        for (file, text) in files {
            fs::write(folder.join(file), text).unwrap();
        }
    }
    for (node, cpus) in [("node0", "0-3"), ("node1", "4-7")] {
        let folder = root.join("sys/devices/system/node").join(node);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cpulist"), cpus).unwrap();
    }
    Tree(root)
}

/// Two devices with a link of their own, as a driver that says where they are; the one with the greater address is its first.
fn config(second: PciAddress, root: &Path) -> RuntimeConfig {
    let mut sim = SimConfig::uniform(2, &DeviceConfig::default());
    sim.devices[0].pci = Some(PciAddress {
        domain: 0x10000,
        bus: 0x5e,
        device: 0,
        function: 0,
    });
    sim.devices[1].pci = Some(second);
    for link in &mut sim.links {
        (link.class, link.bytes_per_second) = (LinkClass::Link, 25_000_000_000);
    }
    let driver = Arc::new(SimDriver::new(sim).unwrap());
    RuntimeConfig {
        system_root: Some(root.to_owned()),
        ..RuntimeConfig::on(Devices::Driver(driver))
    }
}

const SECOND: PciAddress = PciAddress {
    domain: 1,
    bus: 0x3b,
    device: 0,
    function: 0,
};

fn near(machine: &Machine) -> Vec<Option<u32>> {
    let ids = machine.device_ids().take(2);
    let numa = ids.map(|id| machine.numa_affinity(id));
    numa.map(|numa| numa.map(|id| id.get().into())).collect()
}

#[test]
fn the_drivers_devices_are_where_the_operating_system_says() {
    let tree = tree("both");
    let runtime = Runtime::new(config(SECOND, &tree.0)).unwrap();
    let machine = runtime.machine();
    // In the driver's order, and the display adapter behind them.
    assert_eq!(near(machine), [Some(1), Some(0)]);
    assert_eq!(machine.distances().get(0, 1), Some(&Distance::Link));
    let rate = machine.bandwidths(piton_topology::Transit::HostOnly);
    assert_eq!(rate.get(0, 1).unwrap().unwrap().get(), 25_000_000_000);
}

#[test]
fn where_the_operating_system_knows_not_all_of_them_the_driver_is_believed() {
    let tree = tree("other");
    let elsewhere = PciAddress {
        bus: 0x3c,
        ..SECOND
    };
    let alone = RuntimeConfig {
        system_root: None,
        ..config(SECOND, &tree.0)
    };
    for config in [
        config(elsewhere, &tree.0),
        config(SECOND, Path::new("/none")),
        alone,
    ] {
        let runtime = Runtime::new(config).unwrap();
        assert_eq!(runtime.machine().device_count(), 2);
        assert_eq!(near(runtime.machine()), [Some(0), Some(0)]);
        assert_eq!(
            runtime.machine().distances().get(0, 1),
            Some(&Distance::Link)
        );
    }
}
