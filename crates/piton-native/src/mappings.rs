//! What is reserved and what is mapped where: the books of virtual memory.
//!
//! The contract says exactly which calls are refused; vendors' answers are coarser, and commands are checked against these
//! books besides. Nothing here calls a vendor.
//!
//! # Invariants
//! 1. Reservations are disjoint, and so are the mappings in one; a mapping lies wholly in its reservation.
//! 2. A mapping that is not *ready* is being made or undone by somebody: no command may name it, and nobody else touches it.
//! 3. Physical memory is the caller's to give back to the vendor once it is both struck out and mapped nowhere, and is handed
//!    out for that exactly once: not all vendors take it back earlier.

use piton_driver::{DevicePtr, DeviceRange, ErrorKind};
use piton_sync::Mutex;
use std::collections::{BTreeMap, HashMap};

/// The books of one device, whose physical memory has vendor's handles of type `H`.
#[derive(Debug)]
pub struct Mappings<H>(Mutex<Layout<H>>);

#[derive(Debug)]
struct Layout<H> {
    reservations: BTreeMap<u64, Reservation>,
    handles: HashMap<u64, Handle<H>>,
    last_handle: u64,
}

#[derive(Debug)]
struct Handle<H> {
    pages: Pages<H>,
    mappings: usize,
    is_struck_out: bool,
}

impl<H> Default for Mappings<H> {
    fn default() -> Self {
        Self(Mutex::new(Layout {
            reservations: BTreeMap::new(),
            handles: HashMap::new(),
            last_handle: 0,
        }))
    }
}

#[derive(Debug, Default)]
struct Reservation {
    bytes: u64,
    mapped: BTreeMap<u64, Mapping>,
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    bytes: u64,
    handle: u64,
    is_ready: bool,
}

/// Physical memory: the vendor's handle, and how much it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages<H> {
    pub(crate) raw: H,
    pub(crate) bytes: u64,
    /// Whether it was made to be exported.
    pub(crate) is_exportable: bool,
}

const fn unknown(range: DeviceRange) -> ErrorKind {
    ErrorKind::UnknownAddress {
        address: range.start,
        bytes: range.bytes,
    }
}

const fn mapped(range: DeviceRange) -> ErrorKind {
    ErrorKind::AlreadyMapped {
        address: range.start,
        bytes: range.bytes,
    }
}

const fn range(start: u64, bytes: u64) -> DeviceRange {
    DeviceRange {
        start: DevicePtr::new(start),
        bytes,
    }
}

impl<H: Copy> Layout<H> {
    /// A mapping of the handle is gone, or the handle itself: the memory, if it was the last that kept it.
    fn unkept(&mut self, handle: u64) -> Option<Pages<H>> {
        let is_kept = |known: &Handle<H>| known.mappings > 0 || !known.is_struck_out;
        if self.handles.get(&handle).is_none_or(is_kept) {
            return None;
        }
        self.handles.remove(&handle).map(|known| known.pages)
    }

    /// The reservation that holds all of a range.
    fn around(&mut self, within: DeviceRange) -> Option<&mut Reservation> {
        let before = self.reservations.range_mut(..=within.start.address());
        let (start, reservation) = before.last()?;
        range(*start, reservation.bytes)
            .contains(within)
            .then_some(reservation)
    }
}

impl Reservation {
    /// Mappings that share a byte with a range.
    fn within(&self, wanted: DeviceRange) -> impl Iterator<Item = DeviceRange> {
        let all = self.mapped.iter();
        let ranges = all.map(|(start, mapping)| range(*start, mapping.bytes));
        ranges.filter(move |mapping| mapping.overlaps(wanted))
    }
}

impl<H: Copy> Mappings<H> {
    /// Notes a reservation.
    pub(crate) fn reserve(&self, reserved: DeviceRange) {
        let reservation = Reservation {
            bytes: reserved.bytes,
            mapped: BTreeMap::new(),
        };
        let start = reserved.start.address();
        self.0.lock().reservations.insert(start, reservation);
    }

    /// Strikes a reservation out, which must be empty.
    pub(crate) fn release(&self, reserved: DeviceRange) -> Result<(), ErrorKind> {
        let mut layout = self.0.lock();
        let start = reserved.start.address();
        let known = layout.reservations.get(&start);
        let known = known.filter(|known| known.bytes == reserved.bytes);
        let known = known.ok_or_else(|| unknown(reserved))?;
        if !known.mapped.is_empty() {
            return Err(mapped(reserved));
        }
        layout.reservations.remove(&start);
        Ok(())
    }

    /// Notes physical memory, by a number that no other had.
    pub(crate) fn note_pages(&self, pages: Pages<H>) -> u64 {
        let mut layout = self.0.lock();
        layout.last_handle += 1;
        let handle = layout.last_handle;
        let known = Handle {
            pages,
            mappings: 0,
            is_struck_out: false,
        };
        layout.handles.insert(handle, known);
        handle
    }

    /// Strikes physical memory out, which is handed out to be given back if it is mapped nowhere.
    pub(crate) fn take_pages(&self, handle: u64) -> Result<Option<Pages<H>>, ErrorKind> {
        let mut layout = self.0.lock();
        let known = layout.handles.get_mut(&handle);
        let known = known.filter(|known| !known.is_struck_out);
        let known = known.ok_or(ErrorKind::UnknownHandle { handle })?;
        known.is_struck_out = true;
        Ok(layout.unkept(handle))
    }

    /// Keeps physical memory from being given back until [`let_go`](Self::let_go), as a mapping would.
    pub(crate) fn hold(&self, handle: u64) -> Result<Pages<H>, ErrorKind> {
        let mut layout = self.0.lock();
        let known = layout.handles.get_mut(&handle);
        let known = known.filter(|known| !known.is_struck_out);
        let known = known.ok_or(ErrorKind::UnknownHandle { handle })?;
        known.mappings += 1;
        Ok(known.pages)
    }

    /// What was held is needed no more; what nothing keeps any more is handed out to be given back.
    pub(crate) fn let_go(&self, handle: u64) -> Option<Pages<H>> {
        let mut layout = self.0.lock();
        layout.handles.get_mut(&handle)?.mappings -= 1;
        layout.unkept(handle)
    }

    /// Takes the place of a mapping, which is not ready until [`end_map`](Self::end_map).
    pub(crate) fn begin_map(
        &self,
        at: DevicePtr,
        handle: u64,
        alignment: u64,
    ) -> Result<Pages<H>, ErrorKind> {
        let mut layout = self.0.lock();
        let known = layout.handles.get(&handle);
        let known = known.filter(|known| !known.is_struck_out);
        let pages = known.ok_or(ErrorKind::UnknownHandle { handle })?.pages;
        if !at.is_aligned_to(alignment) {
            let value = at.address();
            return Err(ErrorKind::Misaligned { value, alignment });
        }
        let place = range(at.address(), pages.bytes);
        let reservation = layout.around(place).ok_or_else(|| unknown(place))?;
        if reservation.within(place).next().is_some() {
            return Err(mapped(place));
        }
        let mapping = Mapping {
            bytes: pages.bytes,
            handle,
            is_ready: false,
        };
        reservation.mapped.insert(at.address(), mapping);
        if let Some(known) = layout.handles.get_mut(&handle) {
            known.mappings += 1;
        }
        Ok(pages)
    }

    /// The mapping is made, or was not; then, what nothing keeps any more is handed out to be given back.
    pub(crate) fn end_map(&self, made: DeviceRange, is_there: bool) -> Option<Pages<H>> {
        let mut layout = self.0.lock();
        let reservation = layout.around(made)?;
        let start = made.start.address();
        if is_there {
            reservation.mapped.get_mut(&start)?.is_ready = true;
            return None;
        }
        let handle = reservation.mapped.remove(&start)?.handle;
        layout.handles.get_mut(&handle)?.mappings -= 1;
        layout.unkept(handle)
    }

    /// Takes mappings out of use, which stay until [`end_unmap`](Self::end_unmap). The range covers whole ones.
    pub(crate) fn begin_unmap(&self, wanted: DeviceRange) -> Result<Vec<DeviceRange>, ErrorKind> {
        let mut layout = self.0.lock();
        let reservation = layout.around(wanted).ok_or_else(|| unknown(wanted))?;
        let found: Vec<_> = reservation.within(wanted).collect();
        let is_whole = |found: &DeviceRange| {
            let mapping = reservation.mapped.get(&found.start.address());
            wanted.contains(*found) && mapping.is_some_and(|mapping| mapping.is_ready)
        };
        if found.is_empty() || !found.iter().all(is_whole) {
            return Err(unknown(wanted));
        }
        for gone in &found {
            if let Some(mapping) = reservation.mapped.get_mut(&gone.start.address()) {
                mapping.is_ready = false;
            }
        }
        Ok(found)
    }

    /// A mapping is undone, or was not: as [`end_map`](Self::end_map).
    pub(crate) fn end_unmap(&self, undone: DeviceRange, is_gone: bool) -> Option<Pages<H>> {
        self.end_map(undone, !is_gone)
    }

    /// What is mapped and ready.
    pub fn ready(&self) -> Vec<DeviceRange> {
        let layout = self.0.lock();
        let mappings = layout.reservations.values().flat_map(|r| &r.mapped);
        mappings
            .filter(|(_, mapping)| mapping.is_ready)
            .map(|(start, mapping)| range(*start, mapping.bytes))
            .collect()
    }

    /// Whether mappings of one reservation, without a hole between them, hold all of these bytes.
    pub fn holds(&self, start: u64, bytes: u64) -> bool {
        let Some(end) = start.checked_add(bytes) else {
            return false;
        };
        let mut layout = self.0.lock();
        let Some(reservation) = layout.around(range(start, bytes)) else {
            return false;
        };
        let mut reached = start;
        let first = reservation.mapped.range(..=start).next_back();
        let rest = reservation.mapped.range(start.saturating_add(1)..);
        for (at, mapping) in first.into_iter().chain(rest) {
            if reached >= end {
                break;
            }
            // No overflow: the mapping lies in a reservation, which has an end.
            let is_next = *at <= reached && reached < at + mapping.bytes;
            if !is_next || !mapping.is_ready {
                return false;
            }
            reached = at + mapping.bytes;
        }
        reached >= end
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 0x1000;

    /// Pages that the model knows of: two reservations side by side, from page 16 on, of eight each.
    const FIRST: u64 = 16;
    const PAGES: u64 = 16;

    /// What is mapped at each page: the number of its mapping, which a neighbour does not share.
    type Model = Vec<Option<usize>>;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Map { page: u64, long: bool },
        Unmap { page: u64, pages: u64 },
        Ask { page: u64, pages: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let page = || FIRST - 1..FIRST + PAGES + 1;
        let long = proptest::bool::ANY;
        prop_oneof![
            (page(), long).prop_map(|(page, long)| Step::Map { page, long }),
            (page(), 1..6_u64).prop_map(|(page, pages)| Step::Unmap { page, pages }),
            (page(), 1..6_u64).prop_map(|(page, pages)| Step::Ask { page, pages }),
        ]
    }

    /// The model's places of a run that lies in one reservation.
    fn places(page: u64, pages: u64) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(page.checked_sub(FIRST)?).ok()?;
        let end = start + usize::try_from(pages).ok()?;
        let is_inside = end <= 8 || (start >= 8 && end <= 16);
        is_inside.then_some(start..end)
    }

    fn try_map(
        books: &Mappings<u64>,
        model: &mut Model,
        id: usize,
        page: u64,
        pages: u64,
        handle: u64,
    ) {
        let place = range(page * PAGE, pages * PAGE);
        let free = places(page, pages);
        let free = free.filter(|at| model[at.clone()].iter().all(Option::is_none));
        let begun = books.begin_map(place.start, handle, PAGE);
        assert_eq!(begun.is_ok(), free.is_some(), "mapping at page {page}");
        if let Some(at) = free {
            books.end_map(place, true);
            model[at].fill(Some(id));
        }
    }

    fn try_unmap(books: &Mappings<u64>, model: &mut Model, page: u64, pages: u64) {
        let wanted = range(page * PAGE, pages * PAGE);
        let inside = places(page, pages);
        let whole = inside.filter(|at| {
            let ids: Vec<_> = model[at.clone()].iter().flatten().collect();
            let outside = |id: &&&usize| {
                let count =
                    |ids: &[Option<usize>]| ids.iter().flatten().filter(|x| x == *id).count();
                count(model) != count(&model[at.clone()])
            };
            !ids.is_empty() && !ids.iter().any(|id| outside(&id))
        });
        let found = books.begin_unmap(wanted);
        assert_eq!(
            found.is_ok(),
            whole.is_some(),
            "unmapping {pages} at page {page}"
        );
        for mapping in found.into_iter().flatten() {
            books.end_unmap(mapping, true);
        }
        if let Some(at) = whole {
            model[at].fill(None);
        }
    }

    proptest! {
        #[test]
        fn the_books_say_what_a_list_of_pages_says(steps in prop::collection::vec(step(), 1..60)) {
            let books = Mappings::default();
            books.reserve(range(FIRST * PAGE, 8 * PAGE));
            books.reserve(range((FIRST + 8) * PAGE, 8 * PAGE));
            let short = books.note_pages(pages(1, PAGE));
            let long = books.note_pages(pages(2, 3 * PAGE));
            let mut model = vec![None; 16];
            for (id, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Map { page, long: true } => try_map(&books, &mut model, id, page, 3, long),
                    Step::Map { page, .. } => try_map(&books, &mut model, id, page, 1, short),
                    Step::Unmap { page, pages } => try_unmap(&books, &mut model, page, pages),
                    Step::Ask { page, pages } => {
                        let at = places(page, pages);
                        let held = at.is_some_and(|at| model[at].iter().all(Option::is_some));
                        prop_assert_eq!(books.holds(page * PAGE, pages * PAGE), held);
                    }
                }
                let ready: u64 = books.ready().iter().map(|range| range.bytes).sum();
                prop_assert_eq!(ready, model.iter().flatten().count() as u64 * PAGE);
            }
        }
    }

    fn pages(raw: u64, bytes: u64) -> Pages<u64> {
        Pages {
            raw,
            bytes,
            is_exportable: false,
        }
    }

    /// A reservation of eight pages at page 16, and two handles of one page.
    fn books() -> (Mappings<u64>, u64, u64) {
        let books = Mappings::default();
        books.reserve(range(16 * PAGE, 8 * PAGE));
        let note = |raw| books.note_pages(pages(raw, PAGE));
        let (a, b) = (note(1), note(2));
        (books, a, b)
    }

    fn map(books: &Mappings<u64>, page: u64, handle: u64) -> Result<Pages<u64>, ErrorKind> {
        let at = DevicePtr::new(page * PAGE);
        let pages = books.begin_map(at, handle, PAGE)?;
        books.end_map(range(page * PAGE, pages.bytes), true);
        Ok(pages)
    }

    #[test]
    fn neighbours_that_are_mapped_are_one_run_and_a_hole_ends_it() {
        let (books, a, b) = books();
        map(&books, 16, a).unwrap();
        map(&books, 17, b).unwrap();
        map(&books, 19, b).unwrap();
        assert!(books.holds(16 * PAGE, 2 * PAGE));
        assert!(books.holds(17 * PAGE - 1, 2));
        assert!(!books.holds(17 * PAGE, PAGE + 1));
        assert!(!books.holds(18 * PAGE, 1));
        assert!(!books.holds(15 * PAGE, 2 * PAGE));
        assert!(!books.holds(19 * PAGE, u64::MAX));
    }

    #[test]
    fn what_is_not_ready_holds_nothing() {
        let (books, a, _) = books();
        let place = range(16 * PAGE, PAGE);
        books.begin_map(place.start, a, PAGE).unwrap();
        assert!(!books.holds(16 * PAGE, 1));
        assert!(books.begin_unmap(place).is_err(), "somebody makes it");
        books.end_map(place, true);
        assert!(books.holds(16 * PAGE, 1));
        assert_eq!(books.begin_unmap(place).unwrap(), [place]);
        assert!(!books.holds(16 * PAGE, 1));
        assert!(books.begin_unmap(place).is_err(), "somebody undoes it");
        assert!(books.release(range(16 * PAGE, 8 * PAGE)).is_err());
        books.end_unmap(place, true);
        books.release(range(16 * PAGE, 8 * PAGE)).unwrap();
    }

    #[test]
    fn memory_struck_out_is_handed_out_once_when_its_last_mapping_goes() {
        let (books, a, _) = books();
        map(&books, 16, a).unwrap();
        map(&books, 18, a).unwrap();
        assert_eq!(books.take_pages(a), Ok(None), "it is mapped");
        assert!(books.take_pages(a).is_err(), "twice");
        let unmap = |page| {
            let place = range(page * PAGE, PAGE);
            books.begin_unmap(place).unwrap();
            books.end_unmap(place, true)
        };
        assert_eq!(unmap(16), None, "it is mapped elsewhere");
        let given_back = unmap(18).map(|pages| pages.raw);
        assert_eq!(given_back, Some(1));
    }

    #[test]
    fn memory_that_is_held_is_handed_out_when_it_is_let_go() {
        let (books, a, b) = books();
        assert_eq!(books.hold(a).unwrap().raw, 1);
        assert_eq!(books.take_pages(a), Ok(None), "it is held");
        assert!(matches!(
            books.hold(a),
            Err(ErrorKind::UnknownHandle { .. })
        ));
        assert_eq!(books.let_go(a).map(|pages| pages.raw), Some(1));
        books.hold(b).unwrap();
        assert_eq!(books.let_go(b), None, "nobody struck it out");
    }

    #[test]
    fn mappings_outside_over_others_or_askew_are_refused() {
        let (books, a, b) = books();
        map(&books, 20, a).unwrap();
        let kind = |page, handle| map(&books, page, handle).unwrap_err();
        assert!(matches!(kind(20, b), ErrorKind::AlreadyMapped { .. }));
        assert!(matches!(kind(24, b), ErrorKind::UnknownAddress { .. }));
        assert!(matches!(
            kind(20, 99),
            ErrorKind::UnknownHandle { handle: 99 }
        ));
        let askew = books.begin_map(DevicePtr::new(17 * PAGE + 8), b, PAGE);
        assert!(matches!(askew, Err(ErrorKind::Misaligned { .. })));
        books.take_pages(b).unwrap();
        assert!(matches!(kind(21, b), ErrorKind::UnknownHandle { .. }));
    }
}
