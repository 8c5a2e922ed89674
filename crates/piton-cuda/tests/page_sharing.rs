//! Pages that go from one process to another through the stand-in, each of which has devices of its own.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "../../piton-sim/tests/child/passed.rs"]
mod passed;

use piton_cuda::{Ability, CudaConfig, CudaDriver, MissingAbility};
use piton_driver::{DeviceId, Driver, ErrorKind, VendorCode};
use piton_fakecuda::library;
use piton_standin::trial::Own;

fn open(own: &Own) -> CudaDriver {
    CudaDriver::open(CudaConfig {
        library: Some(own.path().into()),
        ..CudaConfig::default()
    })
    .unwrap()
}

fn own() -> Own {
    Own::copy_of(&library::stand_in().unwrap(), "libcuda.so.1", "fakecuda")
}

#[test]
fn a_process_maps_what_another_sent_it() {
    let own = own();
    let device = Driver::open(&open(&own), DeviceId(0)).unwrap();
    let test = "a_process_maps_what_another_sent_it";
    passed::pages_pass_to_another_process_and_back(test, &*device);
}

#[test]
fn what_the_library_refuses_changes_nothing() {
    let own = own();
    let device = Driver::open(&open(&own), DeviceId(0)).unwrap();
    let sharing = device.page_sharing().unwrap();
    let bytes = device.virtual_memory().unwrap().granularity().minimum;
    let handle = sharing.create(bytes).unwrap();
    own.fail("cuMemExportToShareableHandle", 999);
    let error = sharing.export(handle).unwrap_err();
    assert_eq!(
        (error.kind, error.code),
        (ErrorKind::Vendor, Some(VendorCode(999)))
    );
    let exported = sharing.export(handle).unwrap();
    own.fail("cuMemImportFromShareableHandle", 304);
    let error = sharing.import(&exported, bytes).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotExported { bytes });
    sharing.import(&exported, bytes).unwrap();
}

#[test]
fn a_library_that_cannot_export_has_pages_all_the_same() {
    let symbol = "cuMemExportToShareableHandle";
    let own = Own::made("fakecuda", |folder| library::without(symbol, folder));
    let driver = open(&own);
    let ability = Ability::PageSharing;
    assert!(
        driver
            .missing()
            .contains(&MissingAbility { ability, symbol })
    );
    let device = Driver::open(&driver, DeviceId(0)).unwrap();
    assert!(device.page_sharing().is_none());
    assert!(device.virtual_memory().is_some());
}
