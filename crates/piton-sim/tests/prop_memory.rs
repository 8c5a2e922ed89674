//! The address space against a plain model: what is held, what is where, what each page holds.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton_driver::{
    Device, DevicePtr, DeviceRange, DriverError, ErrorKind, PhysicalHandle, Queue, WaitOutcome,
};
use piton_sim::{DeviceConfig, ScheduleOrder, SimConfig, SimDevice};
use proptest::{collection::vec, prelude::*, sample::Index};
use std::{collections::BTreeMap, sync::Arc};
use support::{Pinned, accepted, fill, free, machine, map, queue, release, unmap};

const PAGE: u64 = 4096;
const CAPACITY: u64 = 16;

/// One call, with sizes in pages; `Index` chooses among what exists.
#[derive(Clone, Debug)]
enum Call {
    Allocate(u64),
    Free(Index),
    Reserve(u64),
    Release(Index),
    Create(u64),
    Destroy(Index),
    Map(Index, Index, u64),
    Unmap(Index, u64, u64),
    Write(Index, u64, u32),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let index = any::<Index>;
    vec(
        prop_oneof![
            2 => (1..6_u64).prop_map(Call::Allocate),
            2 => index().prop_map(Call::Free),
            2 => (1..9_u64).prop_map(Call::Reserve),
            1 => index().prop_map(Call::Release),
            4 => (1..4_u64).prop_map(Call::Create),
            2 => index().prop_map(Call::Destroy),
            8 => (index(), index(), 0..8_u64).prop_map(|(h, r, page)| Call::Map(h, r, page)),
            4 => (index(), 0..4_u64, 1..9_u64).prop_map(|(r, from, pages)| Call::Unmap(r, from, pages)),
            6 => (index(), 0..8_u64, any::<u32>()).prop_map(|(m, page, word)| Call::Write(m, page, word)),
        ],
        1..80,
    )
}

/// Content by page: `None` is undefined.
type Pages = Vec<Option<u32>>;

#[derive(Debug)]
struct Handle {
    pages: Pages,
    is_destroyed: bool,
    mappings: u32,
}

/// What there should be. Addresses are the device's own answers.
#[derive(Debug, Default)]
struct Model {
    /// Reserved bytes by start.
    reservations: BTreeMap<u64, u64>,
    handles: BTreeMap<u64, Handle>,
    /// Handle by start of mapping.
    mappings: BTreeMap<u64, u64>,
    allocations: BTreeMap<u64, Pages>,
}

impl Model {
    fn held(&self) -> u64 {
        let handles = self.handles.values().map(|handle| &handle.pages);
        handles
            .chain(self.allocations.values())
            .map(|pages| pages.len() as u64)
            .sum()
    }

    fn mapping_bytes(&self, start: u64) -> u64 {
        self.handles[&self.mappings[&start]].pages.len() as u64 * PAGE
    }

    fn is_mapped(&self, start: u64, bytes: u64) -> bool {
        self.mappings
            .keys()
            .any(|at| *at < start + bytes && start < at + self.mapping_bytes(*at))
    }

    fn collect(&mut self) {
        self.handles
            .retain(|_, handle| !handle.is_destroyed || handle.mappings > 0);
    }

    /// Every page that commands may name, with its content.
    fn visible(&self) -> Vec<(u64, Option<u32>)> {
        let mapped = self
            .mappings
            .iter()
            .map(|(at, handle)| (at, &self.handles[handle].pages));
        let areas = mapped.chain(&self.allocations);
        areas
            .flat_map(|(at, pages)| {
                (0..)
                    .zip(pages)
                    .map(move |(n, page)| (at + n * PAGE, *page))
            })
            .collect()
    }
}

/// One of the keys, or an address or handle that is none.
fn pick<V>(map: &BTreeMap<u64, V>, index: Index) -> u64 {
    let keys: Vec<u64> = map.keys().copied().collect();
    if keys.is_empty() {
        77 * PAGE
    } else {
        *index.get(&keys)
    }
}

struct Subject {
    device: Arc<dyn Device>,
    books: SimDevice,
    queue: Arc<dyn Queue>,
    host: Pinned,
    model: Model,
}

impl Subject {
    fn new() -> (piton_sim::SimDriver, Self) {
        let device = DeviceConfig {
            memory_bytes: CAPACITY * PAGE,
            page_bytes: PAGE,
            poison: Some(0xa5),
            ..DeviceConfig::default()
        };
        let config = SimConfig::uniform(1, &device).in_virtual_time(0, ScheduleOrder::ByTime);
        let (driver, device) = machine(config);
        let books = driver.device(piton_driver::DeviceId(0)).unwrap();
        let (queue, host) = (queue(&device), Pinned::new(&device, &[0]));
        let subject = Self {
            device,
            books,
            queue,
            host,
            model: Model::default(),
        };
        (driver, subject)
    }

    fn finish(&self) {
        let last = self.queue.submitted();
        assert_eq!(self.queue.wait(last, None), Ok(WaitOutcome::Reached));
        assert_eq!(self.queue.failure(), None);
    }

    fn read(&self, address: u64) -> u32 {
        self.host.fetch(&self.queue, DevicePtr::new(address));
        self.finish();
        self.host.words()[0]
    }

    fn apply(&mut self, call: &Call) {
        match *call {
            Call::Allocate(pages) => self.allocate(pages),
            Call::Free(index) => self.free(index),
            Call::Reserve(pages) => self.reserve(pages),
            Call::Release(index) => self.release(index),
            Call::Create(pages) => self.create(pages),
            Call::Destroy(index) => self.destroy(index),
            Call::Map(handle, reservation, page) => self.map(handle, reservation, page),
            Call::Unmap(reservation, from, pages) => self.unmap(reservation, from, pages),
            Call::Write(area, page, word) => self.write(area, page, word),
        }
    }

    fn out_of_memory(&self, result: Result<u64, DriverError>, pages: u64) -> Option<u64> {
        let free = (CAPACITY - self.model.held()) * PAGE;
        if pages * PAGE <= free {
            return Some(result.unwrap());
        }
        let (requested, capacity) = (pages * PAGE, CAPACITY * PAGE);
        let expected = ErrorKind::OutOfMemory {
            requested,
            free,
            capacity,
        };
        assert_eq!(result.unwrap_err().kind, expected);
        None
    }

    fn allocate(&mut self, pages: u64) {
        let result = self
            .device
            .memory()
            .allocate(pages * PAGE)
            .map(DevicePtr::address);
        if let Some(start) = self.out_of_memory(result, pages) {
            self.model
                .allocations
                .insert(start, vec![None; usize::try_from(pages).unwrap()]);
        }
    }

    fn free(&mut self, index: Index) {
        let start = pick(&self.model.allocations, index);
        let result = free(&self.device, DevicePtr::new(start));
        assert_eq!(
            result.is_ok(),
            self.model.allocations.remove(&start).is_some()
        );
    }

    fn reserve(&mut self, pages: u64) {
        let range = self
            .device
            .virtual_memory()
            .unwrap()
            .reserve(pages * PAGE)
            .unwrap();
        assert_eq!(range.bytes, pages * PAGE);
        self.model
            .reservations
            .insert(range.start.address(), range.bytes);
    }

    fn release(&mut self, index: Index) {
        let start = pick(&self.model.reservations, index);
        let known = self.model.reservations.get(&start).copied();
        let bytes = known.unwrap_or(PAGE);
        let range = DeviceRange {
            start: DevicePtr::new(start),
            bytes,
        };
        let is_empty = known.is_some() && !self.model.is_mapped(start, bytes);
        assert_eq!(release(&self.device, range).is_ok(), is_empty);
        if is_empty {
            self.model.reservations.remove(&start);
        }
    }

    fn create(&mut self, pages: u64) {
        let memory = self.device.virtual_memory().unwrap();
        let result = memory.create(pages * PAGE).map(|handle| handle.0);
        if let Some(number) = self.out_of_memory(result, pages) {
            let handle = Handle {
                pages: vec![None; usize::try_from(pages).unwrap()],
                is_destroyed: false,
                mappings: 0,
            };
            assert!(
                self.model.handles.insert(number, handle).is_none(),
                "handles have names of their own"
            );
        }
    }

    fn destroy(&mut self, index: Index) {
        let number = pick(&self.model.handles, index);
        let result = self
            .device
            .virtual_memory()
            .unwrap()
            .destroy(PhysicalHandle(number));
        let handle = self
            .model
            .handles
            .get_mut(&number)
            .filter(|handle| !handle.is_destroyed);
        assert_eq!(result.is_ok(), handle.is_some());
        if let Some(handle) = handle {
            handle.is_destroyed = true;
            self.model.collect();
        }
    }

    fn map(&mut self, handle: Index, reservation: Index, page: u64) {
        let number = pick(&self.model.handles, handle);
        let base = pick(&self.model.reservations, reservation);
        let at = base + page * PAGE;
        let result = map(&self.device, DevicePtr::new(at), PhysicalHandle(number));
        let found = self
            .model
            .handles
            .get(&number)
            .filter(|handle| !handle.is_destroyed);
        let bytes = found.map(|handle| handle.pages.len() as u64 * PAGE);
        let may = bytes.is_some_and(|bytes| {
            let mut inside = self.model.reservations.iter();
            inside.any(|(start, length)| *start <= at && at + bytes <= start + length)
                && !self.model.is_mapped(at, bytes)
        });
        assert_eq!(result.is_ok(), may, "{result:?}");
        if may {
            self.model.mappings.insert(at, number);
            self.model.handles.get_mut(&number).unwrap().mappings += 1;
        }
    }

    fn unmap(&mut self, reservation: Index, from: u64, pages: u64) {
        let start = pick(&self.model.reservations, reservation) + from * PAGE;
        let (end, model) = (start + pages * PAGE, &mut self.model);
        let range = DeviceRange {
            start: DevicePtr::new(start),
            bytes: pages * PAGE,
        };
        let touched: Vec<(u64, u64)> = model
            .mappings
            .keys()
            .map(|at| (*at, at + model.mapping_bytes(*at)))
            .filter(|(first, last)| *first < end && start < *last)
            .collect();
        let holds_allocation = model
            .allocations
            .iter()
            .any(|(at, pages)| *at < end && start < at + pages.len() as u64 * PAGE);
        let is_whole = touched
            .iter()
            .all(|(first, last)| start <= *first && *last <= end);
        let may = !touched.is_empty() && is_whole && !holds_allocation;
        assert_eq!(unmap(&self.device, range).is_ok(), may);
        if may {
            for (at, _) in touched {
                let number = model.mappings.remove(&at).unwrap();
                model.handles.get_mut(&number).unwrap().mappings -= 1;
            }
            model.collect();
        }
    }

    fn write(&mut self, area: Index, page: u64, word: u32) {
        let visible = self.model.visible();
        if visible.is_empty() {
            return;
        }
        let (address, _) =
            visible[(area.index(visible.len()) + usize::try_from(page).unwrap()) % visible.len()];
        accepted(fill(&self.queue, DevicePtr::new(address), word, PAGE));
        self.finish();
        let model = &mut self.model;
        for (at, number) in &model.mappings {
            let pages = &mut model.handles.get_mut(number).unwrap().pages;
            set(*at, pages, address, word);
        }
        for (at, pages) in &mut model.allocations {
            set(*at, pages, address, word);
        }
    }

    fn check(&self) {
        assert!(self.books.check(), "the books agree with themselves");
        let counters = self.books.memory_counters();
        assert_eq!(counters.held, self.model.held() * PAGE);
        let mapped = self.model.mappings.len() + self.model.allocations.len();
        assert_eq!(counters.mappings, mapped as u64);
        let mut areas: Vec<_> = self
            .model
            .reservations
            .iter()
            .map(|(at, bytes)| (*at, *bytes))
            .collect();
        areas.extend(
            self.model
                .allocations
                .iter()
                .map(|(at, pages)| (*at, pages.len() as u64 * PAGE)),
        );
        areas.sort_unstable();
        assert!(
            areas
                .windows(2)
                .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0),
            "ranges are disjoint"
        );
    }

    fn check_content(&self) {
        for (address, content) in self.model.visible() {
            let seen = self.read(address);
            assert!(
                content.is_none_or(|word| word == seen),
                "{seen} at {address:#x}, not {content:?}"
            );
        }
    }

    /// Gives everything back; then nothing is held.
    fn empty(&mut self) {
        for start in self.model.mappings.keys() {
            let bytes = self.model.mapping_bytes(*start);
            unmap(
                &self.device,
                DeviceRange {
                    start: DevicePtr::new(*start),
                    bytes,
                },
            )
            .unwrap();
        }
        for (start, bytes) in &self.model.reservations {
            release(
                &self.device,
                DeviceRange {
                    start: DevicePtr::new(*start),
                    bytes: *bytes,
                },
            )
            .unwrap();
        }
        for start in self.model.allocations.keys() {
            free(&self.device, DevicePtr::new(*start)).unwrap();
        }
        for (number, _) in self
            .model
            .handles
            .iter()
            .filter(|(_, handle)| !handle.is_destroyed)
        {
            self.device
                .virtual_memory()
                .unwrap()
                .destroy(PhysicalHandle(*number))
                .unwrap();
        }
        self.model = Model::default();
        self.check();
    }
}

fn set(start: u64, pages: &mut Pages, address: u64, word: u32) {
    let Some(page) = address.checked_sub(start).map(|offset| offset / PAGE) else {
        return;
    };
    if let Some(content) = pages.get_mut(usize::try_from(page).unwrap()) {
        *content = Some(word);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_address_space_is_what_the_model_says(calls in calls()) {
        let (_driver, mut subject) = Subject::new();
        for call in &calls {
            subject.apply(call);
            subject.check();
        }
        subject.check_content();
        subject.empty();
    }
}
