//! Any bytes read as a pickle: a document no larger than its file, or an error that names a byte of it. What is a memory
//! snapshot is written again and read as the same, and its history makes sense.

#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use piton_snapshot::pickle::{Limits, read};
use piton_snapshot::{Request, Snapshot};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    match read(bytes, &limits) {
        Ok(document) => assert!(document.len() <= bytes.len()),
        Err(error) => {
            assert!(error.offset <= bytes.len());
            assert!(!error.to_string().is_empty());
        }
    }
    let Ok(snapshot) = Snapshot::from_pickle(bytes, &limits) else {
        return;
    };
    assert_eq!(
        Snapshot::from_pickle(&snapshot.to_pickle(), &limits),
        Ok(snapshot.clone())
    );
    for device in 0..snapshot.device_events.len() {
        let history = snapshot.history(device).expect("the device is there");
        check(&history.requests);
    }
});

/// Each block is allocated once, before it is used or freed, and freed at most once.
fn check(requests: &[Request]) {
    let mut live = HashSet::new();
    let mut next = 0;
    for request in requests {
        match request {
            Request::Allocate { id, bytes, .. } => {
                assert_eq!((*id, *bytes > 0), (next, true));
                next += 1;
                live.insert(*id);
            }
            Request::Free { id, .. } => assert!(live.remove(id)),
            Request::Use { id, .. } => assert!(live.contains(id)),
        }
    }
}
