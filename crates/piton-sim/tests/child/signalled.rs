//! Queues of two processes that order each other by a semaphore, and where pages are shared too, what they write. The other process
//! finds descriptors where the system shows those of the first.

#![expect(unsafe_code, reason = "maps pages, and submits commands")]

use piton_driver::{
    Admission, Device, DeviceRange, ExportedPages, ExportedSemaphore, FillPattern, HostAllocation,
    HostMemoryOptions, Locking, PhysicalHandle, Queue, QueueOptions, Semaphore,
};
use std::{
    env,
    fs::OpenOptions,
    os::fd::{AsRawFd, OwnedFd},
    process::{self, Child, Command, Stdio},
    sync::Arc,
};

/// Where the other process finds the semaphore, and the page.
const SEMAPHORE: &str = "PITON_SEMAPHORE_SENT";
const PAGE: &str = "PITON_PAGE_SENT";

/// Turns that each process takes.
const TURNS: u64 = 20;

fn place_of(descriptor: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", process::id(), descriptor.as_raw_fd())
}

/// What the first process sent, in the second.
fn sent(name: &str) -> Option<OwnedFd> {
    let place = env::var_os(name)?;
    let file = OpenOptions::new().read(true).write(true).open(place);
    Some(file.unwrap().into())
}

/// This test in a process of its own.
fn start(test: &str, sent: &[(&str, &OwnedFd)]) -> Child {
    let places = sent.iter().map(|(name, file)| (name, place_of(file)));
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([test, "--exact"]).envs(places);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// The other process has run its part of the test.
fn ended(child: Child) {
    let ended = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{printed}");
    assert!(printed.contains("1 passed"), "{printed}");
}

fn queue_of(device: &dyn Device) -> Arc<dyn Queue> {
    device.queues().create(&QueueOptions::default()).unwrap()
}

fn is_in(admission: Result<Admission, piton_driver::DriverError>) {
    assert!(matches!(admission, Ok(Admission::Accepted(_))));
}

fn finish(queue: &dyn Queue) {
    let _reached = queue.wait(queue.submitted(), None).unwrap();
    assert_eq!(queue.failure(), None);
}

fn semaphore_sent(device: &dyn Device) -> Option<Arc<dyn Semaphore>> {
    let sent = ExportedSemaphore::Descriptor(sent(SEMAPHORE)?);
    let sharing = device.semaphore_sharing().unwrap();
    Some(sharing.import(&sent).unwrap())
}

/// A semaphore of this process's, and what is sent of it.
fn semaphore(device: &dyn Device) -> (Arc<dyn Semaphore>, OwnedFd) {
    let sharing = device.semaphore_sharing().unwrap();
    let own = sharing.create(0).unwrap();
    let ExportedSemaphore::Descriptor(descriptor) = sharing.export(&*own).unwrap() else {
        panic!("another kind of export");
    };
    (own, descriptor)
}

/// The test of this name, which calls this on a device of its own: in another process too. All commands of both are submitted
/// before the first of them may run.
pub(crate) fn queues_of_two_processes_take_turns(test: &str, device: &dyn Device) {
    let queue = queue_of(device);
    if let Some(semaphore) = semaphore_sent(device) {
        for turn in 0..TURNS {
            is_in(queue.wait_semaphore(&semaphore, 2 * turn + 2));
            is_in(queue.signal_semaphore(&semaphore, 2 * turn + 3));
        }
        semaphore.signal(1).unwrap();
        return finish(&*queue);
    }
    let (semaphore, descriptor) = semaphore(device);
    for turn in 0..TURNS {
        is_in(queue.wait_semaphore(&semaphore, 2 * turn + 1));
        is_in(queue.signal_semaphore(&semaphore, 2 * turn + 2));
    }
    ended(start(test, &[(SEMAPHORE, &descriptor)]));
    finish(&*queue);
    assert_eq!(semaphore.value(), 2 * TURNS + 1);
}

/// A page that both processes map, and a place on the host.
struct Shown<'a> {
    device: &'a dyn Device,
    range: DeviceRange,
    host: HostAllocation,
}

impl<'a> Shown<'a> {
    fn new(device: &'a dyn Device, handle: PhysicalHandle) -> Self {
        let pages = device.virtual_memory().unwrap();
        let range = pages.reserve(pages.granularity().minimum).unwrap();
        // SAFETY: nothing names the addresses yet.
        unsafe { pages.map(range.start, handle) }.unwrap();
        let options = HostMemoryOptions {
            locking: Locking::Preferred,
            numa_node: None,
        };
        let host = device.host_memory().unwrap().allocate(4, options).unwrap();
        Self {
            device,
            range,
            host,
        }
    }

    fn fill(&self, queue: &dyn Queue, word: u32) {
        let (start, bytes) = (self.range.start, self.range.bytes);
        // SAFETY: mapped until `end`; the semaphore orders the other process.
        is_in(unsafe { queue.fill(start, FillPattern::Word(word), bytes) });
    }

    fn fetch(&self, queue: &dyn Queue) {
        // SAFETY: as in `fill`.
        is_in(unsafe { queue.copy_to_host(self.host.start, self.range.start, 4) });
    }

    /// What was fetched. All commands have ended.
    fn end(self) -> u32 {
        // SAFETY: the copy has ended.
        let seen = unsafe { self.host.start.cast::<u32>().read() };
        // SAFETY: as above; nothing refers to it any more.
        unsafe { self.device.host_memory().unwrap().free(self.host) }.unwrap();
        let pages = self.device.virtual_memory().unwrap();
        // SAFETY: all commands have ended.
        unsafe { pages.unmap(self.range) }.unwrap();
        // SAFETY: as above.
        unsafe { pages.release(self.range) }.unwrap();
        seen
    }
}

/// As above: what one process's queue wrote into a page that both map, the other's reads when the semaphore says so, and no host
/// is in between.
pub(crate) fn what_one_process_wrote_another_reads(test: &str, device: &dyn Device) {
    let (queue, sharing) = (queue_of(device), device.page_sharing().unwrap());
    let bytes = device.virtual_memory().unwrap().granularity().minimum;
    if let (Some(semaphore), Some(page)) = (semaphore_sent(device), sent(PAGE)) {
        let page = sharing.import(&ExportedPages::Descriptor(page), bytes);
        let shown = Shown::new(device, page.unwrap());
        is_in(queue.wait_semaphore(&semaphore, 2));
        shown.fetch(&*queue);
        shown.fill(&*queue, 22);
        is_in(queue.signal_semaphore(&semaphore, 3));
        semaphore.signal(1).unwrap();
        finish(&*queue);
        assert_eq!(shown.end(), 11);
        return;
    }
    let (semaphore, descriptor) = semaphore(device);
    let handle = sharing.create(bytes).unwrap();
    let ExportedPages::Descriptor(page) = sharing.export(handle).unwrap() else {
        panic!("another kind of export");
    };
    let shown = Shown::new(device, handle);
    is_in(queue.wait_semaphore(&semaphore, 1));
    shown.fill(&*queue, 11);
    is_in(queue.signal_semaphore(&semaphore, 2));
    is_in(queue.wait_semaphore(&semaphore, 3));
    shown.fetch(&*queue);
    ended(start(test, &[(SEMAPHORE, &descriptor), (PAGE, &page)]));
    finish(&*queue);
    assert_eq!(shown.end(), 22);
}
