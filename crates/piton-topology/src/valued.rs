//! Values of pairs with where they come from.
//!
//! A pair's value is as well known as the worst known of the links it was made of.

use serde::Serialize;

use crate::id::{DeviceId, LinkId, NumaId};
use crate::link::{Link, Provenance};
use crate::machine::Machine;
use crate::matrix::Matrix;
use crate::path::{Medium, Path, Paths, Transit};
use crate::quantity::{BytesPerSec, Nanos};

/// A value and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Valued<T> {
    /// The value.
    pub value: T,
    /// Where it comes from; of several sources the weakest.
    pub provenance: Provenance,
}

impl Machine {
    /// As [`Machine::bandwidths`], each with where it comes from: the weakest source of its narrowest links.
    #[must_use]
    pub fn valued_bandwidths(&self, transit: Transit) -> Matrix<Option<Valued<BytesPerSec>>> {
        let devices = self.devices();
        Matrix::by_rows(
            devices.len(),
            |row| {
                let paths = Paths::new(self, devices[row], Medium::Any, transit).widest(devices);
                (devices[row], paths)
            },
            |(_, paths), column| {
                let path = paths[column].as_ref()?;
                let is_narrowest = |link: &Link| link.up.min(link.down) <= path.bottleneck;
                let narrowest = |link: &&Link| is_narrowest(link);
                let of = self.links_of(path).filter(narrowest);
                Some(Valued {
                    value: path.bottleneck,
                    provenance: weakest(of.map(|link| link.provenance)),
                })
            },
        )
    }

    /// As [`Machine::latencies`], each with where it comes from: the weakest source of its links. Time inside switches and
    /// bridges is a default always, so only a pair with one link between them is better known.
    #[must_use]
    pub fn valued_latencies(&self, transit: Transit) -> Matrix<Option<Valued<Nanos>>> {
        let devices = self.devices();
        Matrix::by_rows(
            devices.len(),
            |row| Paths::new(self, devices[row], Medium::Any, transit).quickest(devices),
            |paths, column| {
                let path = paths[column].as_ref()?;
                let of = self.links_of(path).map(|link| link.latency_provenance);
                let provenance = if path.links.len() > 1 {
                    Provenance::Default
                } else {
                    weakest(of)
                };
                Some(Valued {
                    value: path.latency,
                    provenance,
                })
            },
        )
    }

    /// As [`Machine::numa_affinity`], with where it comes from: a default where the machine showed no NUMA nodes.
    #[must_use]
    pub fn valued_numa_affinity(&self, device: DeviceId) -> Option<Valued<NumaId>> {
        let value = self.numa_affinity(device)?;
        let is_stand_in = |warning: &crate::Warning| match warning {
            crate::Warning::NoNumaNodes => true,
            crate::Warning::StandInNuma { numa, .. } => *numa == value,
            _ => false,
        };
        let provenance = if self.warnings().iter().any(is_stand_in) {
            Provenance::Default
        } else {
            Provenance::Declared
        };
        Some(Valued { value, provenance })
    }

    fn links_of(&self, path: &Path) -> impl Iterator<Item = &Link> {
        path.links.iter().filter_map(|id: &LinkId| self.link(*id))
    }
}

/// The weakest of several; a way of no links is the machine's own.
fn weakest(provenances: impl Iterator<Item = Provenance>) -> Provenance {
    provenances.max().unwrap_or(Provenance::Declared)
}
