//! The trace reader against random bytes and against a plain model of the history.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use piton_cli::trace::event::{MAX_BYTES, MAX_STREAM};
use piton_cli::trace::{TraceErrorKind, TraceEvent, TraceReader, parse_line};
use proptest::prelude::*;

fn any_event() -> impl Strategy<Value = TraceEvent> {
    let stream = 0..=MAX_STREAM;
    prop_oneof![
        (any::<u64>(), 1..=MAX_BYTES, stream.clone())
            .prop_map(|(id, bytes, stream)| TraceEvent::Allocate { id, bytes, stream }),
        (any::<u64>(), stream.clone()).prop_map(|(id, stream)| TraceEvent::Free { id, stream }),
        (any::<u64>(), stream).prop_map(|(id, stream)| TraceEvent::Use { id, stream }),
    ]
}

/// Events over few ids and streams, so that right and wrong histories are both common.
fn crowded_event() -> impl Strategy<Value = TraceEvent> {
    prop_oneof![
        (0_u64..6, 1_u64..9, 0_u16..2).prop_map(|(id, bytes, stream)| TraceEvent::Allocate {
            id,
            bytes,
            stream
        }),
        (0_u64..6, 0_u16..2).prop_map(|(id, stream)| TraceEvent::Free { id, stream }),
        (0_u64..6, 0_u16..2).prop_map(|(id, stream)| TraceEvent::Use { id, stream }),
    ]
}

/// Where each block is in its life: absent, live on a stream with its bytes, or over.
#[derive(Default)]
struct Model {
    blocks: BTreeMap<u64, Option<(u16, u64)>>,
}

impl Model {
    fn accepts(&mut self, event: TraceEvent) -> bool {
        match event {
            TraceEvent::Allocate { id, bytes, stream } => {
                let is_new = !self.blocks.contains_key(&id);
                if is_new {
                    self.blocks.insert(id, Some((stream, bytes)));
                }
                is_new
            }
            TraceEvent::Free { id, stream } => {
                let is_live_here =
                    matches!(self.blocks.get(&id), Some(Some((on, _))) if *on == stream);
                if is_live_here {
                    self.blocks.insert(id, None);
                }
                is_live_here
            }
            TraceEvent::Use { id, stream } => {
                matches!(self.blocks.get(&id), Some(Some((on, _))) if *on != stream)
            }
        }
    }

    fn live_bytes(&self) -> u64 {
        self.blocks.values().flatten().map(|(_, bytes)| bytes).sum()
    }
}

proptest! {
    #[test]
    fn written_events_are_read_back(event in any_event()) {
        prop_assert_eq!(parse_line(event.to_string().as_bytes()), Ok(event));
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse_line(&bytes);
        if let Ok(reader) = TraceReader::new(&bytes[..], Path::new("random")) {
            reader.for_each(drop);
        }
    }

    #[test]
    fn random_lines_of_the_right_letters_never_panic(text in "([afu0-9,\n\r-]){0,200}") {
        if let Ok(reader) = TraceReader::new(text.as_bytes(), Path::new("random")) {
            reader.for_each(drop);
        }
    }

    #[test]
    fn history_agrees_with_a_plain_model(events in prop::collection::vec(crowded_event(), 1..60)) {
        let mut text = String::new();
        events.iter().for_each(|event| writeln!(text, "{event}").unwrap());
        let mut model = Model::default();
        let mut reader = TraceReader::new(text.as_bytes(), Path::new("model")).unwrap();
        for (index, event) in events.into_iter().enumerate() {
            let read = reader.next().unwrap();
            prop_assert!(reader.ledger().check());
            prop_assert_eq!(reader.ledger().live_bytes(), if read.is_ok() {
                prop_assert!(model.accepts(event));
                model.live_bytes()
            } else {
                model.live_bytes()
            });
            if let Err(error) = read {
                prop_assert!(!model.accepts(event), "{}", error);
                prop_assert!(matches!(error.kind, TraceErrorKind::History(_)));
                prop_assert_eq!(error.line, index as u64 + 1);
                break;
            }
        }
    }
}
