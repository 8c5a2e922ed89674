//! What files of real machines have that no manual mentions, each made small.

use piton_topology::{BytesPerSec, Distance, LinkKind, Machine, NcclRates, Partial, Warning};
use std::fs;

/// A device of AMD's and a controller below a switch each, the switches at these addresses.
fn rccl(controller: &str, architecture: &str) -> String {
    let gpu = |bus: &str, other: &str| {
        format!(
            "<pci busid=\"0000:{bus}:00.0\" class=\"0x120000\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n\
             <gpu dev=\"0\" sm=\"94\" gcn=\"{architecture}\">\n\
             <xgmi target=\"0000:{other}:00.0\" count=\"1\" tclass=\"0x120000\"/>\n</gpu>\n</pci>\n"
        )
    };
    format!(
        "<system version=\"2\">\n<cpu numaid=\"0\" affinity=\"ff\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n\
         <pci busid=\"0000:a1:00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n\
         {}{}</pci>\n\
         <pci busid=\"{controller}\" class=\"0x020700\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n\
         <nic><net name=\"mlx5_7\" dev=\"3\" speed=\"200000\"/></nic></pci>\n</cpu>\n</system>\n",
        gpu("ae", "af"),
        gpu("af", "ae")
    )
}

fn nccl(text: &str) -> Result<Machine, String> {
    Machine::from_nccl_xml(text).map_err(|error| error.to_string())
}

#[test]
fn comments_may_be_of_hyphens_and_lines_are_counted_with_them() {
    let licence = "<!-------------------\n - Copyright -- somebody\n ------------------->\n";
    let text = rccl("0000:a2:00.0", "gfx90a");
    let (bare, licensed) = (
        nccl(&text).unwrap(),
        nccl(&format!("{licence}{text}")).unwrap(),
    );
    assert_eq!(bare, licensed);
    let wrong = text.replace("numaid=\"0\"", "numaid=\"x\"");
    assert!(
        nccl(&format!("{licence}{wrong}"))
            .unwrap_err()
            .starts_with("line 5")
    );
    assert!(
        nccl(&format!("<!-- {text}"))
            .unwrap_err()
            .starts_with("not XML")
    );
    assert!(Partial::of_nccl_xml(&format!("{licence}{text}")).is_ok());
}

#[test]
fn a_controller_at_the_address_of_a_switch_is_there_without_one() {
    let machine = nccl(&rccl("0000:a1:00.0", "gfx90a")).unwrap();
    assert_eq!(machine.endpoints().len(), 3);
    let is_told = |warning: &Warning| matches!(warning, Warning::SharedAddress { .. });
    assert_eq!(
        machine
            .warnings()
            .iter()
            .filter(|warning| is_told(warning))
            .count(),
        1
    );
    // Two devices at one address are none.
    let twice = rccl("0000:a2:00.0", "gfx90a").replace("0000:af", "0000:ae");
    assert!(nccl(&twice).unwrap_err().contains("same PCI address"));
}

#[test]
fn links_of_later_devices_are_as_wide_as_those_of_the_series_before() {
    let rate = |architecture: &str| {
        let text = rccl("0000:a2:00.0", architecture);
        let machine = Machine::from_nccl_xml_with(&text, NcclRates::Library).unwrap();
        let links = machine.links().iter();
        let fabric = links.filter(|link| matches!(link.kind, LinkKind::Xgmi(_)));
        fabric
            .map(|link| link.up.get() / 1_000_000_000)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ["gfx906", "gfx90a", "gfx942", "gfx950"].map(rate),
        [[24], [36], [48], [48]]
    );
}

#[test]
fn a_processor_joined_to_its_device_by_a_link_is_reached_over_it() {
    let text = "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ff\" arch=\"arm64\">\n\
        <pci busid=\"0009:01:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"1\">\n\
        <gpu dev=\"0\" sm=\"90\"><c2c bw=\"44712\" count=\"5\"/></gpu></pci></cpu></system>";
    let link = |rates| {
        let machine = Machine::from_nccl_xml_with(text, rates).unwrap();
        let found = machine
            .links()
            .iter()
            .find(|link| link.kind == LinkKind::C2c)
            .cloned();
        found.unwrap()
    };
    let library = link(NcclRates::Library);
    assert_eq!(
        (library.lanes, library.up),
        (5, BytesPerSec::from_mb(223_560))
    );
    assert_eq!(link(NcclRates::Copies).up.get(), 223_560_000_000 / 100 * 82);
    let merged = Machine::of_partials(&[Partial::of_nccl_xml(text).unwrap()]).unwrap();
    assert!(merged.links().iter().any(|link| link.kind == LinkKind::C2c));
    let wrong = nccl(&text.replace("44712", "fast")).unwrap_err();
    assert!(
        wrong.starts_with("line 3") && wrong.contains("bw"),
        "{wrong}"
    );
}

#[test]
fn a_captured_tree_may_have_zero_bytes_behind_lines_and_functions_that_say_their_class_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = |path: &str, text: &str| {
        let path = folder.path().join("sys").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for node in 0..2 {
        file(
            &format!("devices/system/node/node{node}/cpulist"),
            &format!("{node}\n\0"),
        );
        let function = format!("bus/pci/devices/000{node}:01:00.0");
        file(&format!("{function}/class"), "0x030000");
        file(
            &format!("{function}/local_cpus"),
            &format!("{}\n", node + 1),
        );
    }
    let machine = Machine::from_sysfs(folder.path()).unwrap();
    assert_eq!(machine.device_count(), 2);
    assert_eq!(machine.distances().get(0, 1), Some(&Distance::Sys));
    assert_eq!(machine.numa()[1].cpus.to_string(), "1");
}

#[test]
fn a_virtual_machine_of_which_the_system_says_nothing_is_read() {
    let text = r#"<system version="1">
  <cpu numaid="-1" affinity="" arch="x86_64" vendor="" familyid="143" modelid="49">
    <pci busid="10000:02:00.0" class="0x030200" vendor="" device="" link_speed="" link_width="0">
      <gpu dev="0" sm="80" rank="0" gdr="1"/>
    </pci>
    <pci busid="10000:03:00.0" class="0x030200" link_speed="Unknown" link_width="0">
      <gpu dev="1" sm="80" rank="1" gdr="1"/>
    </pci>
  </cpu>
</system>"#;
    let machine = Machine::from_nccl_xml(text).unwrap();
    assert_eq!(machine.devices().len(), 2);
    assert!(machine.numa()[0].cpus.is_empty());
}

#[test]
fn a_controller_has_the_same_name_in_a_file_that_was_written_and_read() {
    let read = nccl(&rccl("0000:a2:00.0", "gfx90a")).unwrap();
    let names = |machine: &Machine| -> Vec<String> {
        let nodes = machine.nodes().iter().map(|node| node.name.clone());
        nodes.filter(|name| name.starts_with("NIC")).collect()
    };
    assert_eq!(names(&read), ["NIC0 mlx5_7"]);
    assert_eq!(names(&nccl(&read.to_nccl_xml()).unwrap()), names(&read));
}
