//! The devices of a driver that are open, each once.

use piton_driver::{DeviceId, DriverError, ErrorKind, Operation};
use piton_sync::Mutex;
use std::sync::{Arc, Weak};

/// A place for each device of a driver, which holds it as long as somebody else does.
#[derive(Debug)]
pub struct Opened<D>(Mutex<Vec<Weak<D>>>);

impl<D> Opened<D> {
    /// Places for so many devices.
    pub fn new(devices: usize) -> Self {
        Self(Mutex::new((0..devices).map(|_| Weak::new()).collect()))
    }

    /// The device, opened by `open` if it is not yet.
    ///
    /// # Errors
    /// [`InvalidIndex`](ErrorKind::InvalidIndex); and those of `open`.
    pub fn open(
        &self,
        id: DeviceId,
        open: impl FnOnce() -> Result<Arc<D>, DriverError>,
    ) -> Result<Arc<D>, DriverError> {
        let mut opened = self.0.lock();
        let invalid = ErrorKind::InvalidIndex {
            index: id.0.into(),
            limit: opened.len() as u64,
        };
        let slot = opened.get_mut(id.0 as usize);
        let slot = slot.ok_or_else(|| DriverError::new(invalid, Operation::Open, id))?;
        if let Some(device) = slot.upgrade() {
            return Ok(device);
        }
        // Under the lock, so that nobody opens it a second time meanwhile, though opening may take long.
        let device = open()?;
        *slot = Arc::downgrade(&device);
        Ok(device)
    }

    /// The device, if it is open.
    pub fn get(&self, device: DeviceId) -> Option<Arc<D>> {
        self.0.lock().get(device.0 as usize)?.upgrade()
    }

    /// All that are open.
    pub fn all(&self) -> Vec<Arc<D>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_opened_once_and_again_when_nobody_has_it() {
        let opened = Opened::new(2);
        let id = DeviceId(1);
        let first = opened.open(id, || Ok(Arc::new(1))).unwrap();
        let again = opened.open(id, || Ok(Arc::new(2))).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(opened.all(), [Arc::clone(&first)]);
        drop((first, again));
        assert_eq!(opened.get(id), None);
        assert_eq!(*opened.open(id, || Ok(Arc::new(3))).unwrap(), 3);
        let error = opened.open(DeviceId(2), || Ok(Arc::new(4))).unwrap_err();
        let invalid = ErrorKind::InvalidIndex { index: 2, limit: 2 };
        assert_eq!(error.kind, invalid);
    }
}
