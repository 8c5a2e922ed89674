//! The trace reader on whole files: good, compressed, cut off, damaged.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{self, Read, Write};
use std::path::Path;

use flate2::{Compression, write::GzEncoder};
use piton_cli::trace::error::{HistoryError, LineError};
use piton_cli::trace::event::MAX_LINE_BYTES;
use piton_cli::trace::{CheckedEvent, TraceError, TraceErrorKind, TraceEvent, TraceReader};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<CheckedEvent>, TraceError> {
    TraceReader::new(bytes, Path::new("some.csv"))?.collect()
}

#[track_caller]
fn refused(bytes: &[u8]) -> (u64, TraceErrorKind) {
    let error = read(bytes).unwrap_err();
    assert_eq!(error.file, Path::new("some.csv"));
    (error.line, error.kind)
}

const GOOD: &[u8] = b"a,0,512,0\na,1,1024,1\nu,1,0\nf,0,0\nf,1,1\n";

#[test]
fn plain_and_compressed_say_the_same() {
    let plain = read(GOOD).unwrap();
    assert_eq!(plain.len(), 5);
    assert_eq!(read(&gzip(GOOD)).unwrap(), plain);
    assert_eq!(read(GOOD.strip_suffix(b"\n").unwrap()).unwrap(), plain);
    let (first, second) = GOOD.split_at(17);
    let members = [gzip(first), gzip(second)].concat();
    assert_eq!(read(&members).unwrap(), plain);
}

#[test]
fn errors_name_file_and_line() {
    let error = read(b"a,0,512,0\nf,0,0\nf,0,0\n").unwrap_err();
    assert_eq!(error.to_string(), "some.csv:3: id 0 is freed twice");
    assert!(matches!(
        error.kind,
        TraceErrorKind::History(HistoryError::FreedTwice { id: 0 })
    ));
    let (line, kind) = refused(b"a,0,512,0\n\nf,0,0\n");
    assert!(matches!(
        (line, kind),
        (2, TraceErrorKind::Line(LineError::Empty))
    ));
}

#[test]
fn reading_ends_with_the_first_error() {
    let mut reader =
        TraceReader::new(&b"a,0,512,0\nrubbish\nf,0,0\n"[..], Path::new("some.csv")).unwrap();
    assert!(reader.next().unwrap().is_ok());
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn empty_files_are_refused() {
    assert!(matches!(refused(b""), (0, TraceErrorKind::Empty)));
    assert!(matches!(refused(&gzip(b"")), (0, TraceErrorKind::Empty)));
}

#[test]
fn gzip_cut_off_anywhere_is_noticed() {
    let whole = gzip(GOOD);
    for length in 1..whole.len() {
        let (_, kind) = refused(&whole[..length]);
        assert!(
            matches!(kind, TraceErrorKind::TruncatedGzip { .. }),
            "{length}: {kind:?}"
        );
    }
}

#[test]
fn damaged_gzip_is_noticed() {
    let mut damaged = gzip(GOOD);
    let checksum = damaged.len() - 6;
    damaged[checksum] ^= 1;
    assert!(matches!(
        refused(&damaged),
        (5, TraceErrorKind::CorruptGzip { lines: 5 })
    ));
    let trailing = [gzip(GOOD), b"not gzip, whatever it is".to_vec()].concat();
    assert!(matches!(
        refused(&trailing),
        (_, TraceErrorKind::CorruptGzip { .. })
    ));
}

#[test]
fn a_line_without_end_is_refused_without_being_held() {
    let (line, kind) = refused(&b"a".repeat(1 << 20));
    assert!(matches!(
        (line, kind),
        (
            1,
            TraceErrorKind::OverlongLine {
                limit: MAX_LINE_BYTES
            }
        )
    ));
}

#[test]
fn missing_files_and_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in [
        folder.path().to_owned(),
        folder.path().join("missing.csv.gz"),
    ] {
        let error = TraceReader::open(&path).unwrap_err();
        assert!(matches!(error.kind, TraceErrorKind::Io(_)), "{error}");
        assert_eq!(error.file, path);
    }
}

#[test]
fn read_errors_of_the_system_are_handed_on() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
    let source = GOOD.chain(Broken);
    let last = TraceReader::new(source, Path::new("some.csv"))
        .unwrap()
        .last()
        .unwrap();
    let error = last.unwrap_err();
    assert!(matches!(
        (error.line, error.kind),
        (5, TraceErrorKind::Io(_))
    ));
}

/// Reads a shipped trace and gives what its README says of it: events, uses, peak and last live bytes.
fn shipped(name: &str) -> (u64, usize, u64, u64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data/traces")
        .join(name);
    let mut reader = TraceReader::open(&path).unwrap();
    let (mut uses, mut peak) = (0, 0);
    while let Some(event) = reader.next() {
        uses += usize::from(matches!(event.unwrap().event, TraceEvent::Use { .. }));
        peak = peak.max(reader.ledger().live_bytes());
    }
    assert!(reader.ledger().check());
    (
        reader.line_number(),
        uses,
        peak,
        reader.ledger().live_bytes(),
    )
}

#[test]
fn shipped_traces_are_what_their_readme_says() {
    assert_eq!(
        shipped("resnet50-two-steps.csv.gz"),
        (3745, 0, 4_994_988_816, 204_669_160)
    );
    assert_eq!(
        shipped("bert-ddp-one-step.csv.gz"),
        (7573, 431, 25_034_058_792, 4_022_101_688)
    );
    assert_eq!(
        shipped("llama2-fsdp-start.csv.gz"),
        (5000, 51, 7_202_167_824, 6_982_334_664)
    );
}

#[test]
fn a_shipped_memory_snapshot_is_read_like_a_trace() {
    assert_eq!(
        shipped("bert-ddp-snapshot.pickle"),
        (548, 6, 3_139_166_440, 318_537_728)
    );
}

#[test]
fn a_snapshot_may_be_compressed_and_of_any_protocol() {
    // {'segments': [], 'device_traces': [[{'action': 'alloc', 'addr': 4096, 'size': 1024, 'stream': 0}]]}
    let protocol_0 = b"(dVsegments\n(lsVdevice_traces\n(l(l(dVaction\nValloc\nsVaddr\nI4096\nsVsize\nI1024\nsVstream\nI0\nsaas.";
    let protocol_1 = b"}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00device_traces](](}(X\x06\x00\x00\x00actionX\x05\x00\x00\x00alloc\
        X\x04\x00\x00\x00addrM\x00\x10X\x04\x00\x00\x00sizeM\x00\x04X\x06\x00\x00\x00streamK\x00ueeu.";
    for pickle in [&protocol_0[..], &protocol_1[..]] {
        let events = read(pickle).unwrap();
        assert!(matches!(events[..], [CheckedEvent { bytes: 1024, .. }]));
        assert_eq!(read(&gzip(pickle)).unwrap(), events);
        let cut = gzip(pickle);
        let (_, kind) = refused(&cut[..cut.len() / 2]);
        assert!(
            matches!(kind, TraceErrorKind::TruncatedGzip { .. }),
            "{kind}"
        );
    }
}

#[test]
fn a_memory_snapshot_that_is_none_is_refused_with_its_reason() {
    let reason = |bytes: &[u8]| {
        let (line, kind) = refused(bytes);
        assert_eq!(line, 0);
        kind.to_string()
    };
    let call = reason(b"\x80\x04cos\nsystem\n(Vtrue\ntR.");
    assert_eq!(
        call,
        "not a memory snapshot: byte 2: GLOBAL (0x63) is not plain data and is refused"
    );
    assert!(reason(b"\x80\x04]").contains("byte 3: the pickle is cut off"));
    assert!(reason(b"\x80\x04].").contains("not of a memory snapshot"));
    let empty = piton_snapshot::Snapshot::default().to_pickle();
    assert!(matches!(refused(&empty).1, TraceErrorKind::Empty));
}
