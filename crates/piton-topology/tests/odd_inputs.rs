//! Variants that real tools write now and then: each is read, or refused with the line and what was wrong there.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_topology::{Distance, Machine, Warning};

fn matrix(text: &str) -> Result<Machine, String> {
    Machine::from_tool_matrix(text).map_err(|error| error.to_string())
}

fn apart(machine: &Machine) -> Distance {
    *machine.distances().get(0, 1).unwrap()
}

#[test]
fn a_matrix_may_lack_affinities_and_legend_and_have_rows_of_controllers() {
    let bare = matrix("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n").unwrap();
    assert_eq!(apart(&bare), Distance::Link);
    let controllers = "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity\n\
        GPU0\t X \tPHB\tNODE\t0-63\tN/A\nGPU1\tPHB\t X \tNODE\t0-63\tN/A\nmlx5_0\tNODE\tNODE\t X \n";
    let machine = matrix(controllers).unwrap();
    assert_eq!((machine.device_count(), machine.endpoints().len()), (2, 3));
    assert_eq!(apart(&machine), Distance::Phb);
}

#[test]
fn a_matrix_with_two_answers_for_a_pair_is_read_and_says_so() {
    let machine = matrix("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tPIX\t X \n").unwrap();
    let is_said = |warning: &Warning| warning.to_string().contains("in one direction");
    assert!(
        machine.warnings().iter().any(is_said),
        "{:?}",
        machine.warnings()
    );
}

#[test]
fn a_word_that_is_none_and_an_affinity_that_is_none_are_named_with_their_line() {
    let word = matrix("\tGPU0\tGPU1\nGPU0\t X \tFOO\nGPU1\tFOO\t X \n").unwrap_err();
    assert!(word.starts_with("line 2, column 2"), "{word}");
    let list = "\t\u{1b}[4mGPU0\tGPU1\tCPU Affinity\u{1b}[0m\n\
        GPU0\t X \tNV4\t0-3\nGPU1\tNV4\t X \t0-3,8-x\n";
    let list = matrix(list).unwrap_err();
    assert!(list.starts_with("line 3"), "{list}");
}

/// An hwloc file of a version, whose one device has this address and link speed, and four processors of which the third is
/// not there.
fn hwloc(version: &str, address: &str, speed: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<topology{version}>\n\
         <object type=\"Machine\" os_index=\"0\" cpuset=\"0x0000000b\" complete_cpuset=\"0x000000ff\" nodeset=\"0x1\">\n\
         <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x0000000b\" nodeset=\"0x1\" local_memory=\"1024\"/>\n\
         <object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"10000:[00-ff]\">\n\
         <object type=\"PCIDev\" pci_busid=\"{address}\" pci_type=\"0302 [10de:2330] [10de:1658] a1\" \
         pci_link_speed=\"{speed}\"/>\n</object>\n</object>\n</topology>\n"
    )
}

#[test]
fn hwloc_files_of_each_version_have_holes_between_processors_and_wide_domains() {
    for version in ["", " version=\"2.0\"", " version=\"3.0\""] {
        for speed in ["31.5", "0.0"] {
            let text = hwloc(version, "10000:01:00.0", speed);
            let machine = Machine::from_hwloc_xml(&text).unwrap();
            let address = "10000:01:00.0".parse().unwrap();
            assert!(machine.device_at(address).is_some(), "{version}");
            assert_eq!(machine.numa()[0].cpus.to_string(), "0-1,3");
        }
    }
}

#[test]
fn hwloc_files_that_cannot_be_read_are_refused_by_line_and_attribute() {
    let refused = |text: &str| Machine::from_hwloc_xml(text).unwrap_err().to_string();
    let version = refused(&hwloc(" version=\"4.0\"", "0000:01:00.0", "31.5"));
    assert!(
        version.starts_with("line 2") && version.contains("4.0"),
        "{version}"
    );
    let speed = refused(&hwloc(" version=\"2.0\"", "0000:01:00.0", "fast"));
    assert!(
        speed.starts_with("line 6") && speed.contains("pci_link_speed"),
        "{speed}"
    );
    let address = refused(&hwloc(" version=\"2.0\"", "0000:0g:00.0", "31.5"));
    assert!(address.contains("pci_busid"), "{address}");
}

fn rccl(version: &str, domain: &str, count: &str) -> String {
    let gpu = |bus: &str, other: &str| {
        format!(
            "<pci busid=\"{domain}:{bus}:00.0\" class=\"0x038000\" link_speed=\"Unknown\" link_width=\"0\">\n\
             <gpu dev=\"0\" sm=\"94\" gcn=\"gfx942\">\n\
             <xgmi target=\"{domain}:{other}:00.0\" count=\"{count}\" tclass=\"0x038000\"/>\n</gpu>\n</pci>\n"
        )
    };
    format!(
        "<system version=\"{version}\">\n<cpu numaid=\"0\" affinity=\"0000ffff\" arch=\"x86_64\" \
         vendor=\"AuthenticAMD\" familyid=\"175\" modelid=\"17\">\n{}{}</cpu>\n</system>\n",
        gpu("03", "26"),
        gpu("26", "03")
    )
}

#[test]
fn rccl_files_have_links_without_a_known_speed_and_wide_domains() {
    for domain in ["0000", "10000"] {
        let machine = Machine::from_nccl_xml(&rccl("2", domain, "1")).unwrap();
        assert_eq!(apart(&machine), Distance::Link);
    }
    let version = Machine::from_nccl_xml(&rccl("3", "0000", "1"))
        .unwrap_err()
        .to_string();
    assert!(
        version.starts_with("line 1") && version.contains("version 3"),
        "{version}"
    );
    let count = Machine::from_nccl_xml(&rccl("2", "0000", "x"))
        .unwrap_err()
        .to_string();
    assert!(
        count.starts_with("line 5") && count.contains("count"),
        "{count}"
    );
}
