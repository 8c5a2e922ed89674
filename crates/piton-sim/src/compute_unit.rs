//! The device's cores: how many threads run a launch's blocks at once.

use crate::device::SimDevice;
use piton_driver::{ComputeUnitKind, ComputeUnitSet, ComputeUnits, ErrorKind};

impl SimDevice {
    /// Whether a queue may be limited to these cores: at least one, and no other than the device has.
    pub(crate) fn check_units(&self, units: Option<ComputeUnitSet>) -> Result<(), ErrorKind> {
        let Some(ComputeUnitSet(given)) = units else {
            return Ok(());
        };
        let limit = u64::from(self.core().config.compute_units);
        if given == 0 || given & !self.all().0 != 0 {
            let index = u64::from(63_u32.saturating_sub(given.leading_zeros()));
            return Err(ErrorKind::InvalidIndex { index, limit });
        }
        Ok(())
    }
}

impl ComputeUnits for SimDevice {
    fn counts(&self) -> &[(ComputeUnitKind, u32)] {
        &self.core().unit_counts
    }

    fn all(&self) -> ComputeUnitSet {
        let cores = self.core().config.compute_units;
        ComputeUnitSet(u64::MAX >> (64 - cores.clamp(1, 64)))
    }
}
