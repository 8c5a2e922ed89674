//! `piton info`: which drivers there are, and why others are not.

use std::fs;
use std::process::Command;

use super::{json, opencl_absence, piton};

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
    assert!(text.starts_with("2 devices"), "{text}");
    let lack = "no virtual memory: the library has no cuMemMap";
    assert!(text.contains(lack), "{text}");
    let abilities = "host memory, host functions, semaphores, semaphore sharing, peers";
    assert!(text.contains(abilities), "{text}");
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
    assert!(text.starts_with("2 devices"), "{text}");
    let lack = "no virtual memory: the library has no aclrtMapMem";
    assert!(text.contains(lack), "{text}");
}
