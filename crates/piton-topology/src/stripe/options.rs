//! How copies are split.

use crate::defaults;
use crate::path::Transit;
use crate::quantity::BytesPerSec;
use crate::route::CostModel;

/// Copy engines of a device, one of which each part of a copy keeps busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEngines {
    /// How many a device has for copies to others; at least 1.
    pub count: u16,
    /// What one carries.
    pub rate: BytesPerSec,
}

/// How copies are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeOptions {
    /// Whether parts may go through other devices.
    pub transit: Transit,
    /// What a copy costs beside its time on the wire.
    pub costs: CostModel,
    /// Copies of fewer bytes than this take one route.
    pub floor: u64,
    /// Parts but for one are multiples of this many bytes; a power of two.
    pub align: u64,
    /// Whether each leg of a part must be what one command can carry: from one device to another only the way that
    /// the driver takes, and any other way through host memory. For code that carries plans out and can choose in
    /// which memory a copy stops, but not which links it takes.
    pub by_commands: bool,
    /// The engines of each device. `None` if there may be as many parts as routes.
    pub engines: Option<CopyEngines>,
}

impl Default for StripeOptions {
    fn default() -> Self {
        Self {
            transit: Transit::Devices,
            costs: CostModel {
                // A relay waits for a whole chunk, so chunks are short where there may be several relays.
                chunk_bytes: defaults::STAGING_CHUNK_BYTES / 4,
                ..CostModel::default()
            },
            floor: 4 << 20,
            align: 256,
            by_commands: false,
            engines: None,
        }
    }
}
