//! Any bytes read as a recorded allocation history, plain or gzip'd: events that balance, or one error that names its
//! line, and then nothing more.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use piton_cli::trace::TraceReader;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = TraceReader::new(bytes, Path::new("trace")) else {
        return;
    };
    while let Some(event) = reader.next() {
        if let Err(error) = event {
            assert!(error.line <= reader.line_number());
            assert!(!error.to_string().is_empty());
            assert!(reader.next().is_none(), "reading ends with the first error");
        }
    }
    assert!(reader.ledger().check());
});
