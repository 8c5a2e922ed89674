//! piton's own file format: what is refused, and that nothing makes the reader panic.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

use piton_topology::{BuildError, CaptureError, LinkKind, MAX_CAPTURE_BYTES, Machine};
use proptest::prelude::*;

fn json() -> String {
    let machine = Machine::linked_pairs(4, LinkKind::Hccs, 1).unwrap();
    machine.to_json().unwrap()
}

/// The example with one piece replaced.
fn changed(from: &str, to: &str) -> Result<Machine, CaptureError> {
    let json = json();
    assert!(json.contains(from), "{from} is not in {json}");
    Machine::from_json(&json.replacen(from, to, 1))
}

#[test]
fn a_file_from_the_future_is_refused_by_its_version() {
    assert!(matches!(
        changed("\"piton_machine\": 1", "\"piton_machine\": 2, \"new\": 0"),
        Err(CaptureError::Version {
            found: 2,
            supported: 1
        })
    ));
}

#[test]
fn a_word_that_is_not_known_is_refused_with_its_line() {
    let error = changed("\"lanes\"", "\"lane\"").unwrap_err();
    assert!(error.to_string().contains("line "), "{error}");
}

#[test]
fn a_machine_that_cannot_be_is_refused() {
    let no_rate = changed("\"up\": 163840000000", "\"up\": 0");
    assert!(matches!(
        no_rate,
        Err(CaptureError::Build(BuildError::NoBandwidth { up: 0, .. }))
    ));
    assert!(matches!(
        changed("\"device\": 0", "\"device\": 1"),
        Err(CaptureError::Build(BuildError::DeviceMismatch { .. }))
    ));
    assert!(matches!(
        changed("\"id\": 1", "\"id\": 0"),
        Err(CaptureError::Build(BuildError::NumaMismatch { .. }))
    ));
}

#[test]
fn too_much_text_is_refused_before_it_is_read() {
    let text = " ".repeat(MAX_CAPTURE_BYTES + 1);
    assert!(matches!(
        Machine::from_json(&text),
        Err(CaptureError::TooLarge { .. })
    ));
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow_of_the_stack() {
    assert!(Machine::from_json(&"[".repeat(100_000)).is_err());
    let nested = format!("{{\"piton_machine\": 1, \"nodes\": {}", "[".repeat(100_000));
    assert!(Machine::from_json(&nested).is_err());
}

proptest! {
    #[test]
    fn a_file_cut_short_is_refused(at: prop::sample::Index) {
        let json = json();
        let cut = json.trim_end();
        prop_assert!(Machine::from_json(&cut[..at.index(cut.len())]).is_err());
    }

    #[test]
    fn a_file_with_a_changed_byte_gives_an_answer(at: prop::sample::Index, byte in 0x20..0x7f_u8) {
        let mut bytes = json().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let text = String::from_utf8(bytes).unwrap();
        if let Ok(machine) = Machine::from_json(&text) {
            // Whatever was accepted can be worked with.
            prop_assert!(machine.distances().side() == machine.device_count());
        }
    }

    #[test]
    fn any_text_gives_an_answer(text: String) {
        prop_assert!(Machine::from_json(&text).is_err());
    }
}
