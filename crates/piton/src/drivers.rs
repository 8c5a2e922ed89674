//! Which drivers there are, and why others are absent.

use piton_driver::{DeviceId, DeviceInfo, Driver, DriverError};

/// What was found of one driver.
#[derive(Clone, Debug)]
pub struct DriverReport {
    /// Its name.
    pub name: String,
    /// Its devices, or why each could not be opened.
    pub devices: Vec<Result<DeviceInfo, DriverError>>,
}

/// Opens every device of a driver and says what it found.
pub fn report(driver: &dyn Driver) -> DriverReport {
    let open = |id| {
        driver
            .open(DeviceId(id))
            .map(|device| device.info().clone())
    };
    DriverReport {
        name: driver.name().to_owned(),
        devices: (0..driver.device_count()).map(open).collect(),
    }
}
