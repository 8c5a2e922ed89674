//! Heap allocations an operation makes, on the submitting thread and on all threads until the work has ended.

#![expect(
    unsafe_code,
    reason = "copies, fills and replays are unsafe: the memory here is held until they have ended"
)]

use crate::{
    HEAP,
    device::{Rig, launch, must},
    replay,
    report::{Sheet, figure},
    session::Session,
};
use piton_driver::{FillPattern, HostMemoryOptions, Locking};
use piton_stream::Stream;
use std::hint::black_box;

const OPERATIONS: u64 = 512;
const BYTES: u64 = 4096;

pub(crate) fn measure(session: &mut Session) {
    session.fill("heap allocations an operation", sheet);
}

fn sheet(rig: &Rig) -> Sheet {
    let (stream, other) = (rig.stream(), rig.stream());
    let event = other.record();
    let mut rows = vec![
        row("launch, no arguments", &stream, || {
            launch(&stream, &rig.empty, &[])
        }),
        row("launch, 16 B", &stream, || {
            launch(&stream, &rig.takes_16, &[7; 16])
        }),
        row("launch, 256 B", &stream, || {
            launch(&stream, &rig.takes_256, &[7; 256])
        }),
        row("record, a timepoint", &stream, || stream.now()),
        row("record, an event", &stream, || stream.record()),
        row("record, a timed event", &stream, || {
            must(stream.record_timed())
        }),
        row("query", &stream, || must(event.query())),
        row("wait, elided", &stream, || must(stream.wait(&event))),
        row("launch + wait for it", &stream, || {
            launch(&other, &rig.empty, &[]);
            must(stream.wait(&other.record()));
        }),
        row("launch + synchronize", &stream, || {
            launch(&stream, &rig.empty, &[]);
            must(stream.synchronize());
        }),
    ];
    let mut graph = replay::instantiate(rig);
    rows.push(row("replay of 100 nodes", &stream, || {
        // SAFETY: the graph's kernels take no buffers.
        must(unsafe { graph.launch(&stream) })
    }));
    rows.extend(copies(rig, &stream));
    Sheet {
        columns: vec!["operation", "submitting thread", "all threads"],
        rows,
        ..Sheet::default()
    }
}

fn copies(rig: &Rig, stream: &Stream) -> Vec<Vec<String>> {
    let memory = rig.device.memory();
    let (a, b) = (must(memory.allocate(BYTES)), must(memory.allocate(BYTES)));
    let mut rows = vec![
        row("fill, 4 KiB", stream, || {
            // SAFETY: the memory is freed after `row` has waited, and nobody else uses it.
            must(unsafe { stream.fill(a, FillPattern::Byte(1), BYTES) })
        }),
        row("copy on the device, 4 KiB", stream, || {
            // SAFETY: as above.
            must(unsafe { stream.copy_on_device(b, a, BYTES) })
        }),
    ];
    if let Some(host) = rig.device.host_memory() {
        let options = HostMemoryOptions {
            locking: Locking::Preferred,
            numa_node: None,
        };
        let pinned = must(host.allocate(4096, options));
        let start = pinned.start;
        rows.push(row("copy to the device, 4 KiB", stream, || {
            // SAFETY: as above, for both ends.
            must(unsafe { stream.copy_to_device(a, start, BYTES) })
        }));
        rows.push(row("copy to the host, 4 KiB", stream, || {
            // SAFETY: as above, for both ends.
            must(unsafe { stream.copy_to_host(start, a, BYTES) })
        }));
        // SAFETY: `row` has waited for every copy.
        must(unsafe { host.free(pinned) });
    }
    for block in [a, b] {
        // SAFETY: `row` has waited for everything that used it.
        must(unsafe { memory.free(block) });
    }
    rows
}

/// Counts in the second of two equal runs: the first grows what grows once.
fn row<T>(name: &str, stream: &Stream, mut operation: impl FnMut() -> T) -> Vec<String> {
    let mut run = || {
        let submitting = HEAP.during(|| {
            for _ in 0..OPERATIONS {
                black_box(operation());
            }
        });
        (submitting.1, HEAP.during(|| must(stream.synchronize())).1)
    };
    run();
    let (submitting, rest) = run();
    let each = |count: u64| {
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        figure(count as f64 / OPERATIONS as f64)
    };
    vec![
        name.to_owned(),
        each(submitting.own),
        each(submitting.allocations + rest.allocations),
    ]
}
