//! Pages of a simulated device that a device of another process maps too.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "child/passed.rs"]
mod passed;

use piton_driver::{Device, DeviceId, Driver, ErrorKind, ExportedPages};
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use std::{fs::File, sync::Arc};

/// A device that fills fresh memory, which tells it from what somebody has written.
fn device() -> Arc<dyn Device> {
    let config = DeviceConfig {
        poison: Some(0xa5),
        ..DeviceConfig::default()
    };
    let driver = SimDriver::new(SimConfig::uniform(1, &config)).unwrap();
    Driver::open(&driver, DeviceId(0)).unwrap()
}

#[test]
fn a_device_of_another_process_maps_what_it_was_sent() {
    let device = device();
    let test = "a_device_of_another_process_maps_what_it_was_sent";
    passed::pages_pass_to_another_process_and_back(test, &*device);
}

/// What is shown past the end of a file ends the process, so how long it is counts, and that it stays so.
#[test]
fn pages_of_another_size_and_files_that_may_shrink_are_refused() {
    let device = device();
    let sharing = device.page_sharing().unwrap();
    let bytes = device.virtual_memory().unwrap().granularity().minimum;
    let exported = sharing.export(sharing.create(2 * bytes).unwrap()).unwrap();
    for other in [bytes, 4 * bytes] {
        let refused = sharing.import(&exported, other).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::NotExported { bytes: other });
    }
    let file = rustix::fs::memfd_create("unsealed", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let file = File::from(file);
    file.set_len(bytes).unwrap();
    let unsealed = ExportedPages::Descriptor(file.into());
    let refused = sharing.import(&unsealed, bytes).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotExported { bytes });
    sharing.import(&exported, 2 * bytes).unwrap();
}

#[test]
fn what_another_has_written_is_not_fresh_to_who_maps_it_later() {
    let device = device();
    let (sharing, pages) = (
        device.page_sharing().unwrap(),
        device.virtual_memory().unwrap(),
    );
    let bytes = pages.granularity().minimum;
    let handle = sharing.create(bytes).unwrap();
    let exported = sharing.export(handle).unwrap();
    let other = sharing.import(&exported, bytes).unwrap();
    passed::exchange(&*device, other, 11);
    assert_eq!(passed::exchange(&*device, handle, 22), 11);
    assert_eq!(passed::exchange(&*device, other, 33), 22);
}
