//! What is said where there is no CUDA, or something else in its place.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_cuda::{CudaConfig, CudaDriver, OpenError};

fn absence(library: &str) -> OpenError {
    let config = CudaConfig {
        library: Some(library.into()),
        ..CudaConfig::default()
    };
    CudaDriver::open(config).unwrap_err()
}

#[test]
fn a_library_that_is_not_there_is_named_with_the_loaders_words() {
    let name = "no/such/libcuda.so.1";
    let error = absence(name);
    let OpenError::NoLibrary { searched } = &error else {
        panic!("{error}");
    };
    assert_eq!(searched.len(), 1);
    assert_eq!(searched[0].name, name);
    assert!(!searched[0].answer.is_empty());
    assert!(error.to_string().contains(name), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_of_something_else_lacks_the_first_function() {
    let error = absence("libc.so.6");
    let library = "libc.so.6".to_owned();
    let symbol = "cuInit";
    assert_eq!(error, OpenError::NoSymbol { library, symbol });
}
