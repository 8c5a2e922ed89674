//! Variants that real tools write now and then: each is read, or refused with the line and what was wrong there.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_topology::{DeviceId, Distance, Machine, PeerAccess, Router, ToolMatrix, Warning};

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

/// What `npu-smi` prints of so many devices in pairs of dies.
fn npus(count: usize) -> String {
    let name = |at: usize| format!("NPU{at}");
    let mut text = format!("{:11}", "");
    text.extend((0..count).map(|at| format!("{:11}", name(at))));
    for row in 0..count {
        let word = |column: usize| match (row == column, row / 2 == column / 2) {
            (true, _) => "X",
            (_, true) => "SIO",
            _ => "HCCS_SW",
        };
        text.push_str(&format!("\n{:11}", name(row)));
        text.extend((0..count).map(|column| format!("{:11}", word(column))));
    }
    text
}

#[test]
fn a_matrix_of_many_devices_may_come_from_a_terminal_of_windows_with_a_legend_in_any_language() {
    let plain = matrix(&npus(16)).unwrap();
    assert_eq!(plain.device_count(), 16);
    let distances = plain.distances();
    assert_eq!(distances.get(10, 11), Some(&Distance::Package));
    assert_eq!(distances.get(1, 10), Some(&Distance::LinkSwitch));
    let coloured = npus(16).replace("SIO", "\u{1b}[1;32mSIO\u{1b}[0m");
    let legend = "\n图例:\n  X    = 自身\n  SIO  = 同一封装\n";
    let odd = format!("\u{feff}{coloured}{legend}").replace('\n', "\r\n");
    assert_eq!(matrix(&odd).unwrap().distances(), distances);
}

/// What was printed of the first pair.
fn printed(text: &str) -> Distance {
    let matrix = ToolMatrix::parse(text).unwrap();
    matrix.cells.get(0, 1).unwrap().unwrap().distance
}

#[test]
fn what_nobody_knows_of_a_pair_is_unknown_and_the_devices_are_there_still() {
    let text = "           NPU0       NPU1\nNPU0       X          NA\nNPU1       NA         X\n";
    assert_eq!(printed(text), Distance::Unknown);
    let machine = matrix(text).unwrap();
    let router = Router::new(&machine, &PeerAccess::none());
    let [a, b] = [0, 1].map(DeviceId::new);
    assert!(router.route(a, b, 1 << 20).is_ok());
}

/// The text as a terminal of so many columns shows it, with the blanks in front of a break or without them.
fn in_columns(text: &str, columns: usize, keeps_blanks: bool) -> String {
    let broken = text.lines().map(|line| {
        let letters: Vec<char> = line.chars().collect();
        let pieces = letters.chunks(columns).map(|piece| {
            let piece: String = piece.iter().collect();
            if keeps_blanks {
                piece
            } else {
                piece.trim_end().to_owned()
            }
        });
        pieces.collect::<Vec<_>>().join("\n")
    });
    broken.collect::<Vec<_>>().join("\n")
}

/// What `nvidia-smi` prints of sixteen devices and two controllers, tabs shown as blanks.
fn wide() -> String {
    let names: Vec<String> = (0..16)
        .map(|at| format!("GPU{at}"))
        .chain((9..11).map(|at| format!("mlx5_{at}")))
        .collect();
    let cell = |text: &str| format!("{text:<8}");
    let mut text = cell("") + &names.iter().map(|name| cell(name)).collect::<String>();
    text += "CPU Affinity    NUMA Affinity   GPU NUMA ID\n";
    for (row, name) in names.iter().enumerate() {
        text += &cell(name);
        for column in 0..names.len() {
            let word = match (row, column) {
                _ if row == column => " X ",
                (16.., _) | (_, 16..) => "NODE",
                _ if row / 2 == column / 2 => "NV12",
                _ if row / 8 == column / 8 => "PXB",
                _ => "SYS",
            };
            text += &cell(word);
        }
        if row < 16 {
            let numa = row / 8;
            text += &format!(
                "{:<16}{numa:<16}N/A",
                if numa == 0 {
                    "0-23,48-71"
                } else {
                    "24-47,72-95"
                }
            );
        }
        text += "\n";
    }
    text + "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_9\n"
}

#[test]
fn rows_that_a_terminal_broke_are_put_together_whatever_its_width() {
    for text in [wide(), npus(16)] {
        let whole = ToolMatrix::parse(&text).unwrap();
        let mut refused = Vec::new();
        for columns in 40..200 {
            for keeps_blanks in [true, false] {
                let broken = in_columns(&text, columns, keeps_blanks);
                match ToolMatrix::parse(&broken) {
                    Ok(found) => assert!(found == whole, "{columns} columns:\n{broken}"),
                    // What can be read in two ways is not guessed at.
                    Err(error) => refused.push((columns, keeps_blanks, error)),
                }
            }
        }
        assert!(refused.is_empty(), "{refused:?}");
    }
}

#[test]
fn one_break_anywhere_changes_nothing_or_is_refused() {
    for text in [wide(), npus(16)] {
        let whole = ToolMatrix::parse(&text).unwrap();
        let end = text.find("Legend").unwrap_or(text.len());
        let mut refused = 0;
        for at in 0..end {
            let broken = format!("{}\n{}", &text[..at], &text[at..]);
            match ToolMatrix::parse(&broken) {
                Ok(found) => assert!(found == whole, "{at}:\n{broken}"),
                Err(_) => refused += 1,
            }
        }
        // Names of rows that are broken, most of them.
        assert!(refused < 50, "{refused}");
    }
}

#[test]
fn a_text_of_lines_without_end_that_are_no_rows_is_refused_soon() {
    let header = "GPU0  GPU1\n";
    for text in [
        format!("{header}{}", "GPU2\n".repeat(200_000)),
        format!("{header}GPU0  X\n{}", "N\n".repeat(1 << 20)),
        format!("{}\n", "GPU1 ".repeat(500_000)),
    ] {
        assert!(matrix(&text).is_err());
    }
}

#[test]
fn a_broken_row_that_is_none_or_two_is_named_with_its_line() {
    let wrong = npus(3).replacen("SIO        HCCS_SW", "SIO\n   HCCS_XX", 1);
    let wrong = matrix(&wrong).unwrap_err();
    assert!(wrong.starts_with("line 2"), "{wrong}");
    // Processors 0 to 15 and no node, or processors 0 and 1 and node 5.
    let two = "GPU0  GPU1  CPU Affinity  NUMA Affinity  GPU NUMA ID\n\
        GPU0   X    NV4   0-1\n5\nGPU1  NV4    X    0-1  0  N/A\n";
    let two = matrix(two).unwrap_err();
    assert!(
        two.starts_with("line 2") && two.contains("one way"),
        "{two}"
    );
}

#[test]
fn a_matrix_is_found_behind_a_prompt_and_names_may_fill_their_columns_but_for_one_blank() {
    let text = "node01 $ nvidia-smi topo -m\n        GPU0    GPU1    mlx5_10 mlx5_11 roceport CPU Affinity\n\
        GPU0     X      NV4     PIX     PXB     NODE    0-3\n\
        GPU1    NV4      X      PXB     PIX     NODE    0-3\n\
        mlx5_10 PIX     PXB      X      PXB     NODE\n\
        mlx5_11 PXB     PIX     PXB      X      NODE\n\
        roceport NODE   NODE    NODE    NODE     X\n";
    let machine = matrix(text).unwrap();
    assert_eq!((machine.device_count(), machine.endpoints().len()), (2, 5));
    assert_eq!(apart(&machine), Distance::Link);
}

/// What `rocm-smi` prints of so many devices, each pair joined by a link of this type and of this weight.
fn rocm(count: usize, weight: &str, link: &str) -> String {
    let block = |title: &str, own: &str, other: &str| {
        let mut text = format!("======= {title} between two GPUs =======\n       ");
        text.extend((0..count).map(|at| format!("{:13}", format!("GPU{at}"))));
        for row in 0..count {
            text.push_str(&format!("\n{:7}", format!("GPU{row}")));
            let word = |column| if row == column { own } else { other };
            text.extend((0..count).map(|column| format!("{:13}", word(column))));
        }
        text + "\n\n"
    };
    let numa = (0..count).map(|at| format!("GPU[{at}]\t\t: (Topology) Numa Node: -1\n"));
    let blocks = [
        block("Weight", "0", weight),
        block("Hops", "0", "1"),
        block("Link Type", "0", link),
    ];
    blocks.concat() + "======= Numa Nodes =======\n" + &numa.collect::<String>()
}

#[test]
fn a_listing_in_blocks_may_have_many_devices_and_come_from_a_terminal() {
    let text = rocm(12, "15", "XGMI").replace("XGMI", "\u{1b}[32mXGMI\u{1b}[m");
    let machine = matrix(&text.replace('\n', "\r\n")).unwrap();
    assert_eq!(machine.device_count(), 12);
    assert_eq!(machine.distances().get(9, 11), Some(&Distance::Link));
}

#[test]
fn a_listing_in_blocks_may_come_from_a_narrow_terminal() {
    let mut refused = Vec::new();
    for (count, weight, link) in [(2, "40", "PCIE"), (8, "15", "XGMI"), (16, "72", "PCIE")] {
        // Titles as long as the tool makes them.
        let text = rocm(count, weight, link).replace("=======", &"=".repeat(28));
        let whole = ToolMatrix::parse(&text).unwrap();
        for columns in 45..200 {
            for keeps_blanks in [true, false] {
                let broken = in_columns(&text, columns, keeps_blanks);
                match ToolMatrix::parse(&broken) {
                    Ok(found) => assert!(found == whole, "{columns} columns:\n{broken}"),
                    Err(error) => refused.push((count, columns, keeps_blanks, error)),
                }
            }
        }
    }
    // Where two cells of a row may each be two: what can be read in two ways is not guessed at.
    assert!(refused.len() <= 2, "{refused:?}");
}

#[test]
fn a_broken_row_of_a_block_that_is_none_or_two_is_named_with_its_line() {
    let text = rocm(4, "15", "XGMI");
    let first = format!("GPU0   {:13}{:13}{:13}{:13}", "0", "15", "15", "15");
    assert!(text.contains(&first));
    let read = |row: &str| matrix(&text.replace(&first, row)).map_err(|error| error.to_string());
    let whole = read(&first).unwrap();
    assert_eq!(read("GPU0   0   1\n5   1\n5   15"), Ok(whole));
    for wrong in [
        "GPU0   0   15\n15",
        "GPU0   0   1\n5   1\n5",
        "GPU0   15   0\n15   15",
    ] {
        assert!(read(wrong).unwrap_err().starts_with("line 3"), "{wrong}");
    }
}

#[test]
fn a_listing_in_blocks_may_not_know_the_weight_nor_the_type_of_a_link() {
    let text = rocm(2, "N/A", "XXXX");
    let weights = ToolMatrix::parse(&text).unwrap().weights.unwrap();
    assert_eq!(weights.get(0, 1), Some(&None));
    assert_eq!(printed(&text), Distance::Unknown);
    assert_eq!(matrix(&text).unwrap().device_count(), 2);
    let wrong = matrix(&rocm(2, "15", "YYYY")).unwrap_err();
    assert!(wrong.contains("column 2"), "{wrong}");
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
