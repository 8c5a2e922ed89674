//! One function of the PCI bus, as several sources have it.

use super::{MergedField, Note, Origin};
use crate::pci::{PciAddress, PciIdentity};
use crate::sysfs::{LinkStatus, PciFunction};

/// What sources say of one function, the one to be believed first in front.
pub(super) type Views<'p> = Vec<(Origin, &'p PciFunction)>;

/// The function with the first answer to each question, and a note for each field that anybody filled.
pub(super) fn function(
    address: PciAddress,
    views: &Views<'_>,
    is_bridge: impl Fn(PciAddress) -> bool,
) -> (PciFunction, Vec<Note>) {
    let mut noted = Noted {
        address,
        notes: Vec::new(),
    };
    let says = |what: fn(&PciFunction) -> Option<LinkStatus>| {
        views
            .iter()
            .filter_map(move |(origin, view)| Some((*origin, what(view)?)))
    };
    let link = |status: &LinkStatus| *status;
    noted.first(
        MergedField::Link,
        says(|view| Some(view.max).filter(|status| *status != LinkStatus::default())),
        |a, b| contradicts(link(a), link(b)),
    );
    let numa = views
        .iter()
        .filter_map(|(origin, view)| Some((*origin, view.numa?)));
    let numa = noted.first(MergedField::Numa, numa, |a, b| a != b);
    let function = PciFunction {
        address,
        identity: noted.identity(views),
        ancestors: noted.place(views, is_bridge),
        numa,
        buses: views.iter().find_map(|(_, view)| view.buses),
        port: views.iter().find_map(|(_, view)| view.port),
        local_cpus: views.iter().find_map(|(_, view)| view.local_cpus.clone()),
        current: status(views, |view| view.current),
        max: status(views, |view| view.max),
        names: views
            .iter()
            .map(|(_, view)| &view.names)
            .find(|names| !names.is_empty())
            .cloned()
            .unwrap_or_default(),
    };
    (function, noted.notes)
}

struct Noted {
    address: PciAddress,
    notes: Vec<Note>,
}

impl Noted {
    /// The first answer; noted, with the first who gives another.
    fn first<T>(
        &mut self,
        field: MergedField,
        mut answers: impl Iterator<Item = (Origin, T)>,
        differ: impl Fn(&T, &T) -> bool,
    ) -> Option<T> {
        let (origin, taken) = answers.next()?;
        let other = answers.find(|(_, other)| differ(&taken, other));
        self.note(field, origin, other.map(|(origin, _)| origin));
        Some(taken)
    }

    fn note(&mut self, field: MergedField, origin: Origin, overruled: Option<Origin>) {
        self.notes.push(Note {
            address: self.address,
            field,
            origin,
            overruled,
        });
    }

    /// The first class; vendor and device by whoever names them, which templates do not.
    fn identity(&mut self, views: &Views<'_>) -> Option<PciIdentity> {
        let said = || {
            views
                .iter()
                .filter_map(|(origin, view)| Some((*origin, view.identity?)))
        };
        let first = self.first(MergedField::Identity, said(), |a, b| {
            let is_other = |a: u16, b: u16| a != 0 && b != 0 && a != b;
            a.class != b.class || is_other(a.vendor, b.vendor) || is_other(a.device, b.device)
        })?;
        let named = said().map(|(_, id)| id).find(|id| id.vendor != 0);
        let named = named.filter(|_| first.vendor == 0).unwrap_or(first);
        Some(PciIdentity {
            vendor: named.vendor,
            device: named.device,
            ..first
        })
    }

    /// The first way up, or one that names all of its bridges and more.
    fn place(
        &mut self,
        views: &Views<'_>,
        is_bridge: impl Fn(PciAddress) -> bool,
    ) -> Option<Vec<PciAddress>> {
        let mut said = views
            .iter()
            .filter_map(|(origin, view)| Some((*origin, view.ancestors.as_ref()?)));
        let (mut origin, mut taken) = said.next()?;
        let mut overruled = None;
        for (other, way) in said {
            let bridges = |way: &Vec<PciAddress>| -> Vec<PciAddress> {
                way.iter().copied().filter(|at| is_bridge(*at)).collect()
            };
            if is_within(&bridges(taken), way) {
                (origin, taken) = (other, way);
            } else if !is_within(&bridges(way), taken) {
                overruled = overruled.or(Some(other));
            }
        }
        self.note(MergedField::Place, origin, overruled);
        Some(taken.clone())
    }
}

/// Whether all of `some` are in `way`, in their order.
fn is_within(some: &[PciAddress], way: &[PciAddress]) -> bool {
    let mut way = way.iter();
    some.iter().all(|at| way.any(|other| other == at))
}

fn contradicts(a: LinkStatus, b: LinkStatus) -> bool {
    let differ = |a: Option<u32>, b: Option<u32>| a.zip(b).is_some_and(|(a, b)| a != b);
    differ(a.megatransfers, b.megatransfers)
        || differ(a.width.map(u32::from), b.width.map(u32::from))
}

fn status(views: &Views<'_>, what: impl Fn(&PciFunction) -> LinkStatus) -> LinkStatus {
    let mut said = views.iter().map(|(_, view)| what(view));
    let first = said.next().unwrap_or_default();
    said.fold(first, |taken, next| LinkStatus {
        megatransfers: taken.megatransfers.or(next.megatransfers),
        width: taken.width.or(next.width),
    })
}
