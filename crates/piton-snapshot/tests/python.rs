//! Snapshots before those whose format it is: Python's own `pickle`, and `torch.cuda._memory_viz` where torch is
//! installed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use piton_snapshot::pickle::Limits;
use piton_snapshot::{Action, Block, BlockState, Event, Segment, Snapshot};

/// A segment of which 3000 of 4096 bytes are asked for, and the event that shows it.
fn example() -> Snapshot {
    let address = 0x7f00_0000_0000;
    let block = |bytes, requested_bytes, state| Block {
        bytes,
        requested_bytes,
        state,
    };
    let event = Event {
        action: Action::Allocate,
        address,
        bytes: 3000,
        stream: 0,
        time_us: 1,
    };
    let segment = Segment {
        device: 0,
        address,
        bytes: 32 << 20,
        stream: 0,
        is_expandable: false,
        blocks: vec![
            block(4096, 3000, BlockState::Allocated),
            block((32 << 20) - 4096, 0, BlockState::Free),
        ],
    };
    Snapshot {
        segments: vec![segment],
        device_events: vec![vec![event]],
    }
}

/// Runs a script with the path of a file as its argument, if there is a Python.
fn python(script: &str, file: &Path) -> Option<Output> {
    Command::new("python3")
        .arg("-c")
        .arg(script)
        .arg(file)
        .output()
        .ok()
}

fn write(snapshot: &Snapshot) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), snapshot.to_pickle()).unwrap();
    file
}

#[test]
fn python_reads_what_is_written_and_writes_what_is_read() {
    let file = write(&example());
    // Each protocol in turn, from Python's own hand.
    let script = "import pickle, sys\n\
        data = pickle.load(open(sys.argv[1], 'rb'))\n\
        for p in range(pickle.HIGHEST_PROTOCOL + 1): open(sys.argv[1] + str(p), 'wb').write(pickle.dumps(data, p))\n\
        print(pickle.HIGHEST_PROTOCOL)";
    let Some(output) = python(script, file.path()) else {
        println!("skipped: no python3");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let highest: u8 = String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    for protocol in 0..=highest.min(5) {
        let path = format!("{}{protocol}", file.path().display());
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let read = Snapshot::from_pickle(&bytes, &Limits::default());
        assert_eq!(read, Ok(example()), "protocol {protocol}");
    }
}

#[test]
fn the_viewer_of_torch_accounts_for_every_byte() {
    let file = write(&example());
    let script = "import importlib.util, pickle, sys\n\
        if importlib.util.find_spec('torch') is None: print('no torch'); sys.exit(0)\n\
        from torch.cuda import _memory_viz as viz\n\
        data = pickle.load(open(sys.argv[1], 'rb'))\n\
        print(viz.segsum(data)); print(viz.trace(data)); viz.trace_plot(data); viz.segment_plot(data)";
    let Some(output) = python(script, file.path()) else {
        println!("skipped: no python3");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let shown = String::from_utf8(output.stdout).unwrap();
    if shown.trim() == "no torch" {
        println!("skipped: python3 has no torch");
        return;
    }
    assert!(shown.contains("total_reserved: 32.0MiB"), "{shown}");
    assert!(shown.contains("1 entries"), "{shown}");
}
