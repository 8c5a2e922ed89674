//! What calls for device memory cost: how many there were, and the time they would take on a real device.
//!
//! The times are a model, of round numbers between those that drivers are reported to take: handles and mappings of pages
//! take tens of microseconds, plain allocations some hundred, since they may stop the device. They tell a hundred calls from a
//! hundred thousand and nothing finer.

use piton_driver::Operation;
use piton_sim::SimDriver;

/// Each kind of call, with its microseconds in the model.
const COSTS: [(Operation, f64); 8] = [
    (Operation::AllocateMemory, 300.0),
    (Operation::FreeMemory, 300.0),
    (Operation::ReserveAddresses, 20.0),
    (Operation::ReleaseAddresses, 20.0),
    (Operation::CreatePhysical, 40.0),
    (Operation::DestroyPhysical, 40.0),
    (Operation::Map, 40.0),
    (Operation::Unmap, 40.0),
];

/// Calls for device memory of either kind.
pub(super) fn calls(driver: &SimDriver) -> u64 {
    counted(driver).map(|(calls, _)| calls).sum()
}

/// Seconds that they take in the model.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub(super) fn seconds(driver: &SimDriver) -> f64 {
    let microseconds: f64 = counted(driver)
        .map(|(calls, each)| calls as f64 * each)
        .sum();
    microseconds * 1e-6
}

fn counted(driver: &SimDriver) -> impl Iterator<Item = (u64, f64)> {
    let calls = driver.calls();
    COSTS
        .into_iter()
        .map(move |(operation, each)| (calls.get(&operation).copied().unwrap_or(0), each))
}
