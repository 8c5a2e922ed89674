//! Several sources that each know a part of one machine, put together.
//!
//! Captured files are not part of this repository: without them the tests of them say so and pass.

#![expect(
    clippy::print_stdout,
    reason = "a skipped test says so, and a run says how much agrees"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

mod shared_files;

use piton_topology::sysfs::{LinkStatus, NumaFacts, PciFunction, SysfsTree};
use piton_topology::{
    BytesPerSec, CpuList, DeviceId, Distance, LinkKind, Machine, MergeError, MergedField, NumaId,
    Origin, Partial, PciAddress, PciIdentity, Provenance, merge,
};
use shared_files::shared_files;

const NVIDIA: u16 = 0x10de;

fn at(text: &str) -> PciAddress {
    text.parse().unwrap()
}

/// A function right below a host bridge, of this class and vendor.
fn function(address: &str, class: u16, vendor: u16) -> PciFunction {
    let (address, device) = (at(address), 1);
    PciFunction {
        identity: Some(PciIdentity {
            vendor,
            device,
            class,
        }),
        ancestors: Some(Vec::new()),
        ..PciFunction::unknown(address)
    }
}

/// What a virtual machine shows: devices side by side, no NUMA node, no speed; and a display adapter of another maker.
fn flat(devices: usize) -> SysfsTree {
    let gpus = (0..devices).map(|n| function(&format!("0000:00:1{n}.0"), 0x0302, NVIDIA));
    let display = function("0000:00:02.0", 0x0300, 0x1a03);
    let mut functions: Vec<PciFunction> = gpus.chain([display]).collect();
    functions.sort_by_key(|function| function.address);
    SysfsTree {
        has_pci_bus: true,
        functions,
        numa: vec![NumaFacts {
            id: NumaId::new(0),
            cpus: "0-7".parse::<CpuList>().unwrap(),
        }],
    }
}

/// As clouds hand them out: invented switches, no vendor, no device fabric for the first two.
const TEMPLATE: &str = r#"<system version="1">
  <cpu numaid="0" affinity="0000000f">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0000:00:10.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0000:00:11.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="000000f0">
    <pci busid="0000:00:12.0"/>
    <pci busid="0000:00:13.0"/>
  </cpu>
</system>"#;

const LINKED: &str = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV4\tSYS\tSYS\t0-3\t0
GPU1\tNV4\t X \tSYS\tSYS\t0-3\t0
GPU2\tSYS\tSYS\t X \tNV2\t4-7\t0
GPU3\tSYS\tSYS\tNV2\t X \t4-7\t0
";

fn parts() -> Vec<Partial> {
    vec![
        Partial::of_sysfs(flat(4)),
        Partial::of_tool_matrix(LINKED).unwrap(),
        Partial::of_nccl_xml(TEMPLATE).unwrap(),
    ]
}

fn relation(machine: &Machine, a: &str, b: &str) -> String {
    let node = |address: &str| {
        let device = machine.device_at(at(address)).unwrap();
        machine.device_node(device).unwrap()
    };
    let relations = machine.relations(&[node(a), node(b)]);
    relations.get(0, 1).unwrap().to_string()
}

#[test]
fn each_source_adds_what_the_others_do_not_know() {
    let machine = merge(&parts()).unwrap().machine;
    // Sysfs: the display adapter. The template: the rest of the bus. The tool: the fabric.
    assert_eq!(machine.device_count(), 5);
    assert_eq!(
        relation(&machine, "0000:00:10.0", "0000:00:11.0"),
        "NV4",
        "{:?}",
        machine.links()
    );
    assert_eq!(relation(&machine, "0000:00:12.0", "0000:00:13.0"), "NV2");
    assert_eq!(relation(&machine, "0000:00:10.0", "0000:00:12.0"), "SYS");
    let device = machine.device_at(at("0000:00:13.0")).unwrap();
    assert_eq!(machine.numa_affinity(device), Some(NumaId::new(1)));
    let identity = machine.device(device).unwrap().identity.unwrap();
    assert_eq!((identity.vendor, identity.class), (NVIDIA, 0x0302));
    let upper = machine.links().iter().find(|link| {
        let (a, b) = (machine.node(link.a), machine.node(link.b));
        let is_switch = |name: &str| name == "ffff:ff:01.0";
        is_switch(&a.unwrap().name) || is_switch(&b.unwrap().name)
    });
    assert_eq!(upper.unwrap().provenance, Provenance::Declared);
}

#[test]
fn a_file_is_believed_before_the_driver_and_that_before_the_system() {
    let mut parts = parts();
    parts[0].tree.functions[1].numa = Some(NumaId::new(0));
    parts[1].numbered[2].numa = Some(NumaId::new(0));
    let merged = merge(&parts).unwrap();
    let note = |address: &str, field: MergedField| {
        let of = |note: &&piton_topology::Note| note.address == at(address) && note.field == field;
        *merged.notes.iter().find(of).unwrap()
    };
    let numa = note("0000:00:12.0", MergedField::Numa);
    assert_eq!(
        (numa.origin, numa.overruled),
        (Origin::File, Some(Origin::Driver))
    );
    let place = note("0000:00:10.0", MergedField::Place);
    assert_eq!(place.origin, Origin::File);
    let identity = note("0000:00:02.0", MergedField::Identity);
    assert_eq!(
        (identity.origin, identity.overruled),
        (Origin::System, None)
    );
    assert_eq!(
        numa.to_string(),
        "0000:00:12.0: NUMA node as the file has it; the driver says otherwise"
    );
    // Which comes first in the list does not matter.
    parts.reverse();
    assert_eq!(merge(&parts).unwrap(), merged);
}

#[test]
fn a_way_up_that_says_the_same_in_more_detail_is_taken() {
    // The file has the switch once; sysfs its two ports and the root port as well.
    let (root, up, down) = (at("0000:80:01.0"), at("0000:81:00.0"), at("0000:82:00.0"));
    let bridge = |address: PciAddress, above: &[PciAddress]| PciFunction {
        ancestors: Some(above.to_vec()),
        ..function(&address.to_string(), 0x0604, 0x1000)
    };
    let gpu = PciFunction {
        ancestors: Some(vec![down, up, root]),
        ..function("0000:83:00.0", 0x0302, NVIDIA)
    };
    let functions = vec![
        bridge(root, &[]),
        bridge(up, &[root]),
        bridge(down, &[up, root]),
        gpu,
    ];
    let system = SysfsTree {
        functions,
        ..flat(0)
    };
    let text = r#"<system version="1"><cpu numaid="0">
        <pci busid="0000:81:00.0" class="0x060400"><pci busid="0000:83:00.0" class="0x030200"/></pci>
        </cpu></system>"#;
    let parts = [
        Partial::of_nccl_xml(text).unwrap(),
        Partial::of_sysfs(system),
    ];
    let merged = merge(&parts).unwrap();
    let note = merged
        .notes
        .iter()
        .find(|note| note.address == at("0000:83:00.0") && note.field == MergedField::Place);
    assert_eq!(note.unwrap().origin, Origin::System);
    assert_eq!(note.unwrap().overruled, None);
    let bridges = merged.machine.nodes().iter().map(|node| &*node.name);
    assert!(
        bridges.clone().any(|name| name == "0000:80"),
        "{:?}",
        bridges.collect::<Vec<_>>()
    );
}

#[test]
fn numbers_that_fit_no_devices_are_refused() {
    let parts = [
        Partial::of_sysfs(flat(3)),
        Partial::of_tool_matrix(LINKED).unwrap(),
    ];
    // Three devices and a display adapter: four, and none of them the tool's.
    assert!(merge(&parts).is_ok());
    let parts = [
        Partial::of_sysfs(flat(2)),
        Partial::of_tool_matrix(LINKED).unwrap(),
    ];
    let refused = merge(&parts).unwrap_err();
    assert_eq!(
        refused,
        MergeError::Unplaced {
            numbered: 4,
            addressed: 3
        }
    );
}

#[test]
fn a_source_beside_itself_says_nothing_new() {
    for partial in parts()
        .into_iter()
        .filter(|partial| partial.numbered.is_empty())
    {
        let once = merge(std::slice::from_ref(&partial)).unwrap();
        let twice = merge(&[partial.clone(), partial]).unwrap();
        assert_eq!(once, twice);
        assert!(once.notes.iter().all(|note| note.overruled.is_none()));
    }
}

#[test]
fn a_machine_taken_apart_is_put_together_again() {
    let machine = merge(&parts()).unwrap().machine;
    let again = merge(&[Partial::of_machine(Origin::File, &machine)]).unwrap();
    assert_eq!(again.machine.distances(), machine.distances());
    let affinity = |machine: &Machine| -> Vec<Option<NumaId>> {
        let ids = machine.device_ids();
        ids.map(|id| machine.numa_affinity(id)).collect()
    };
    assert_eq!(affinity(&again.machine), affinity(&machine));
    let transit = piton_topology::Transit::HostOnly;
    assert_eq!(
        again.machine.bandwidths(transit),
        machine.bandwidths(transit)
    );
}

#[test]
fn what_somebody_measured_of_a_fabric_comes_along() {
    let machine = Machine::linked_pairs(2, LinkKind::Hccs, 2).unwrap();
    let mut builder = machine.to_builder();
    builder.retain_links(|_, link| link.kind != LinkKind::Hccs);
    let [a, b] = machine.devices() else {
        panic!("two devices")
    };
    let mut link = piton_topology::Link::with_defaults(*a, *b, LinkKind::Hccs, 2);
    (link.up, link.down) = (BytesPerSec::from_mb(40_000), BytesPerSec::from_mb(20_000));
    builder.link(link).unwrap();
    let partial = Partial::of_machine(Origin::Driver, &builder.build().unwrap());
    let merged = merge(&[
        Partial::of_sysfs(SysfsTree {
            functions: vec![
                function("0000:01:00.0", 0x1200, 0x19e5),
                function("0000:02:00.0", 0x1200, 0x19e5),
            ],
            ..flat(0)
        }),
        partial,
    ]);
    let machine = merged.unwrap().machine;
    let fabric = machine
        .links()
        .iter()
        .find(|link| link.kind == LinkKind::Hccs);
    let fabric = fabric.unwrap();
    assert_eq!(
        [fabric.up, fabric.down],
        [40_000, 20_000].map(BytesPerSec::from_mb)
    );
}

#[test]
fn devices_can_be_numbered_as_a_driver_numbers_them() {
    let machine = merge(&parts()).unwrap().machine;
    let order = [4, 2].map(DeviceId::new);
    let turned = machine.with_devices_in_order(&order).unwrap();
    let address = |machine: &Machine, id: u16| machine.device(DeviceId::new(id)).unwrap().pci;
    assert_eq!(address(&turned, 0), address(&machine, 4));
    assert_eq!(address(&turned, 1), address(&machine, 2));
    assert_eq!(turned.device_count(), machine.device_count());
    let near = |machine: &Machine, a: u16, b: u16| {
        let [a, b] = [a, b].map(usize::from);
        machine.distances().get(a, b).copied()
    };
    assert_eq!(near(&turned, 0, 1), near(&machine, 4, 2));
    assert_eq!(near(&turned, 0, 1), Some(Distance::Sys));
}

#[test]
fn a_link_that_a_template_slows_down_is_slow() {
    let mut tree = flat(1);
    tree.functions[1].max = LinkStatus {
        megatransfers: Some(32_000),
        width: Some(16),
    };
    let text = r#"<system version="1"><cpu numaid="0">
        <pci busid="0000:00:10.0" class="0x030200" link_speed="8 GT/s" link_width="8"/>
        </cpu></system>"#;
    let parts = [Partial::of_sysfs(tree), Partial::of_nccl_xml(text).unwrap()];
    let merged = merge(&parts).unwrap();
    let note = merged
        .notes
        .iter()
        .find(|note| note.field == MergedField::Link);
    assert_eq!(note.unwrap().overruled, Some(Origin::System));
    let kinds: Vec<String> = merged
        .machine
        .links()
        .iter()
        .map(|link| format!("{} x{}", link.kind, link.lanes))
        .collect();
    assert!(
        kinds.contains(&"PCIe Gen3 x8".to_owned()),
        "the template's eight lanes: {kinds:?}"
    );
}

#[test]
fn a_topology_file_alone_gives_the_distances_of_the_machine_read_from_it() {
    let mut files = 0;
    for path in shared_files("nccl_xml", ".xml") {
        let text = std::fs::read_to_string(&path).unwrap();
        let Ok(whole) = Machine::from_nccl_xml(&text) else {
            // Refused for what it leaves out; as a part it is taken.
            let part = Partial::of_nccl_xml(&text).unwrap();
            assert!(merge(&[part]).is_ok(), "{}", path.display());
            continue;
        };
        let is_repeated = |warning: &piton_topology::Warning| {
            matches!(warning, piton_topology::Warning::RepeatedSwitch { .. })
        };
        // The library takes a switch that is there several times for several; by address it is one.
        if whole.warnings().iter().any(is_repeated) {
            continue;
        }
        let merged = merge(&[Partial::of_nccl_xml(&text).unwrap()])
            .unwrap()
            .machine;
        assert_eq!(
            merged.device_count(),
            whole.device_count(),
            "{}",
            path.display()
        );
        let nodes = |machine: &Machine| -> Vec<_> {
            let addresses = whole
                .devices()
                .iter()
                .map(|node| whole.node(*node).unwrap().pci.unwrap());
            let devices = addresses.map(|at| machine.device_at(at).unwrap());
            devices.map(|id| machine.device_node(id).unwrap()).collect()
        };
        let words = |machine: &Machine| machine.relations(&nodes(machine)).map(ToString::to_string);
        assert_eq!(words(&merged), words(&whole), "{}", path.display());
        files += 1;
    }
    println!("{files} files agree");
}
