//! Pages of a device that another process maps: it is started with the descriptor as its input.

#![expect(unsafe_code, reason = "maps pages, and submits commands")]

use piton_driver::{
    Device, ErrorKind, ExportedPages, FillPattern, HostMemoryOptions, Locking, PhysicalHandle,
    QueueOptions,
};
use std::{
    env,
    io::stdin,
    os::fd::AsFd,
    process::{Command, Stdio},
};

/// Set in the other process.
const CHILD: &str = "PITON_PAGES_CHILD";

/// Maps a page, says what is in it, and fills it with something else.
pub(crate) fn exchange(device: &dyn Device, handle: PhysicalHandle, word: u32) -> u32 {
    let pages = device.virtual_memory().unwrap();
    let range = pages.reserve(pages.granularity().minimum).unwrap();
    // SAFETY: nothing names the addresses yet.
    unsafe { pages.map(range.start, handle) }.unwrap();
    let options = HostMemoryOptions {
        locking: Locking::Preferred,
        numa_node: None,
    };
    let memory = device.host_memory().unwrap();
    let host = memory.allocate(4, options).unwrap();
    let queue = device.queues().create(&QueueOptions::default()).unwrap();
    // SAFETY: all live, of these sizes; the other process waits for this one meanwhile.
    let _fetched = unsafe { queue.copy_to_host(host.start, range.start, 4) }.unwrap();
    // SAFETY: as above.
    let _filled = unsafe { queue.fill(range.start, FillPattern::Word(word), range.bytes) }.unwrap();
    let _reached = queue.wait(queue.submitted(), None).unwrap();
    assert_eq!(queue.failure(), None);
    // SAFETY: the copy has ended.
    let seen = unsafe { host.start.cast::<u32>().read() };
    // SAFETY: as above; nothing refers to it any more.
    unsafe { memory.free(host) }.unwrap();
    // SAFETY: all commands have ended.
    unsafe { pages.unmap(range) }.unwrap();
    // SAFETY: as above.
    unsafe { pages.release(range) }.unwrap();
    seen
}

/// The test of this name, which calls this on a device of its own: in another process too.
pub(crate) fn pages_pass_to_another_process_and_back(test: &str, device: &dyn Device) {
    let sharing = device.page_sharing().unwrap();
    let pages = device.virtual_memory().unwrap();
    let bytes = pages.granularity().minimum;
    if env::var_os(CHILD).is_some() {
        let sent = stdin().as_fd().try_clone_to_owned().unwrap();
        let sent = ExportedPages::Descriptor(sent);
        let other = sharing.import(&sent, bytes + bytes).map(drop);
        if let Err(error) = other {
            assert!(matches!(error.kind, ErrorKind::NotExported { .. }));
        }
        let handle = sharing.import(&sent, bytes).unwrap();
        assert_eq!(exchange(device, handle, 22), 11);
        pages.destroy(handle).unwrap();
        return;
    }
    let handle = sharing.create(bytes).unwrap();
    exchange(device, handle, 11);
    let ExportedPages::Descriptor(descriptor) = sharing.export(handle).unwrap() else {
        panic!("another kind of export");
    };
    let ended = Command::new(env::current_exe().unwrap())
        .args([test, "--exact"])
        .env(CHILD, "1")
        .stdin(Stdio::from(descriptor))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{printed}");
    assert!(printed.contains("1 passed"), "{printed}");
    assert_eq!(exchange(device, handle, 33), 22);
    pages.destroy(handle).unwrap();
}
