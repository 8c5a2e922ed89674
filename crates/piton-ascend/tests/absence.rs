//! What is said where there is no Ascend runtime, or something else in its place.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_ascend::{AscendConfig, AscendDriver, OpenError};

fn absence(library: &str) -> OpenError {
    let config = AscendConfig {
        library: Some(library.into()),
        ..AscendConfig::default()
    };
    AscendDriver::open(config).unwrap_err()
}

#[test]
fn a_library_that_is_not_there_is_named_with_the_loaders_words() {
    let name = "no/such/libascendcl.so";
    let said = absence(name).to_string();
    assert!(said.starts_with("no Ascend library: "), "{said}");
    assert!(said.contains(name), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_of_something_else_lacks_the_first_function() {
    let library = "libc.so.6".to_owned();
    let symbol = "aclInit";
    let error = absence("libc.so.6");
    assert_eq!(error, OpenError::NoSymbol { library, symbol });
}
