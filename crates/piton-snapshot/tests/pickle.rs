//! Pickles as Python writes them, what is refused, and where.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use piton_snapshot::pickle::{Limits, PickleErrorKind, Value, read};

/// A value in one line, four levels deep at most: values may contain themselves.
fn show(value: Value<'_, '_>, depth: usize) -> String {
    if depth == 0 {
        return "...".to_owned();
    }
    let show_all = |items: &mut dyn Iterator<Item = Value<'_, '_>>| {
        let shown: Vec<String> = items.map(|item| show(item, depth - 1)).collect();
        shown.join(" ")
    };
    if let Some(number) = value.as_integer() {
        number.to_string()
    } else if let Some(text) = value.as_text() {
        format!("{text:?}")
    } else if let Some(bytes) = value.as_bytes() {
        format!("b{bytes:?}")
    } else if let Some(value) = value.as_bool() {
        value.to_string()
    } else if let Some(number) = value.as_float() {
        number.to_string()
    } else if let Some(mut items) = value.items() {
        format!("[{}]", show_all(&mut items))
    } else if let Some(pairs) = value.pairs() {
        let shown = pairs
            .map(|(key, value)| format!("{}:{}", show(key, depth - 1), show(value, depth - 1)));
        format!("{{{}}}", shown.collect::<Vec<_>>().join(" "))
    } else {
        assert!(value.is_none());
        "none".to_owned()
    }
}

#[track_caller]
fn check(pickle: &[u8], expected: &str) {
    let document = read(pickle, &Limits::default()).unwrap();
    assert_eq!(show(document.root(), 4), expected);
}

#[track_caller]
fn check_refused(pickle: &[u8], offset: usize, kind: PickleErrorKind) {
    let error = read(pickle, &Limits::default()).unwrap_err();
    assert_eq!((error.offset, error.kind), (offset, kind));
    assert!(!error.to_string().is_empty());
}

#[test]
fn every_protocol_says_the_same() {
    // pickle.dumps({"a": [1, -2, 70000, 1 << 40], "b": (None, True, 0.5), "c": {}}, protocol=p)
    let expected = r#"{"a":[1 -2 70000 1099511627776] "b":[none true 0.5] "c":{}}"#;
    check(b"(dp0\nVa\np1\n(lp2\nI1\naI-2\naI70000\naL1099511627776L\nasVb\np3\n(NI01\nF0.5\ntp4\nsVc\np5\n(dp6\ns.", expected);
    check(
        b"}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xffJp\x11\x01\x00L1099511627776L\neX\x01\x00\x00\x00bq\x03(NI01\nG?\xe0\x00\x00\x00\x00\x00\x00tq\x04X\x01\x00\x00\x00cq\x05}q\x06u.",
        expected,
    );
    check(
        b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xffJp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01eX\x01\x00\x00\x00bq\x03N\x88G?\xe0\x00\x00\x00\x00\x00\x00\x87q\x04X\x01\x00\x00\x00cq\x05}q\x06u.",
        expected,
    );
    check(
        b"\x80\x04\x95=\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xffJp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01e\x8c\x01b\x94N\x88G?\xe0\x00\x00\x00\x00\x00\x00\x87\x94\x8c\x01c\x94}\x94u.",
        expected,
    );
}

#[test]
fn text_and_bytes_are_read_in_all_their_forms() {
    check(b"Vgr\\u00fcn \\U0001f600 \\n\n.", r#""grün 😀 \\n""#);
    check(b"S'it\\'s \\x41\\n'\n.", r#""it's A\n""#);
    check(b"U\x02ab.", r#""ab""#);
    check(b"\x8d\x02\x00\x00\x00\x00\x00\x00\x00ab.", r#""ab""#);
    check(b"C\x02\x00\xff.", "b[0, 255]");
    check(b"\x96\x01\x00\x00\x00\x00\x00\x00\x00\x07.", "b[7]");
}

#[test]
fn integers_are_read_up_to_128_bits() {
    check(b"\x8a\x00.", "0");
    check(b"\x8a\x01\xff.", "-1");
    check(
        b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.",
        &u64::MAX.to_string(),
    );
    check_refused(
        &[&b"\x8a\x11"[..], &[1; 17], b"."].concat(),
        0,
        PickleErrorKind::IntegerTooLong,
    );
}

#[test]
fn values_that_are_named_again_are_the_same_value() {
    check(
        b"]q\x00(K\x01h\x00h\x00e.",
        "[1 [1 [1 [... ... ...] [... ... ...]] [1 [... ... ...] [... ... ...]]] [1 [1 [... ... ...] [... ... ...]] [1 [... ... ...] [... ... ...]]]]",
    );
    // Each list is the last one twice: unfolded, it would be 2^64 values.
    let mut doubling = b"]\x94".to_vec();
    for index in 0..64_u8 {
        doubling.extend([b']', 0x94, b'(', b'h', index, b'h', index, b'e']);
    }
    doubling.push(b'.');
    assert_eq!(read(&doubling, &Limits::default()).unwrap().len(), 65);
}

#[test]
fn nesting_as_deep_as_the_file_is_long_is_no_trouble() {
    let mut deep = vec![b']'; 200_000];
    deep.extend(vec![b'a'; 199_999]);
    deep.push(b'.');
    assert_eq!(read(&deep, &Limits::default()).unwrap().len(), 200_000);
    let mut marks = vec![b'('; 200_000];
    marks.extend(vec![b't'; 199_999]);
    marks.extend(b"t.");
    assert_eq!(read(&marks, &Limits::default()).unwrap().len(), 200_000);
}

#[test]
fn whatever_is_not_plain_data_is_refused_by_name_and_place() {
    let refused: &[u8] = b"PQRbcio\x81\x82\x83\x84\x8f\x90\x91\x92\x93\x97\x98";
    for &code in refused {
        check_refused(
            &[b"\x80\x04N", &[code][..]].concat(),
            3,
            PickleErrorKind::Refused { code },
        );
    }
    let error = read(b"\x80\x04c", &Limits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 2: GLOBAL (0x63) is not plain data and is refused"
    );
    check_refused(b"N\xffN.", 1, PickleErrorKind::Unknown { code: 0xff });
    check_refused(b"\x80\x06N.", 0, PickleErrorKind::Protocol { version: 6 });
}

#[test]
fn malformed_pickles_are_refused_by_kind() {
    check_refused(b"", 0, PickleErrorKind::Truncated);
    check_refused(b"N", 1, PickleErrorKind::Truncated);
    check_refused(b"X\xff\xff\xff\xffab", 0, PickleErrorKind::Truncated);
    check_refused(
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffab",
        0,
        PickleErrorKind::Truncated,
    );
    check_refused(b"I12", 0, PickleErrorKind::Truncated);
    check_refused(b"I1x\n.", 0, PickleErrorKind::Number);
    check_refused(b"U\x01\xff.", 0, PickleErrorKind::Text);
    check_refused(b"S'a\n.", 0, PickleErrorKind::Text);
    check_refused(b"V\\ud800\n.", 0, PickleErrorKind::Text);
    check_refused(b".", 0, PickleErrorKind::Missing);
    check_refused(b"t", 0, PickleErrorKind::Missing);
    check_refused(b"(0.", 2, PickleErrorKind::Missing);
    check_refused(b"N(\x85.", 2, PickleErrorKind::Missing);
    check_refused(b"NNa.", 2, PickleErrorKind::NotAList);
    check_refused(b"NNNs.", 3, PickleErrorKind::NotADict);
    check_refused(b"}(Nu.", 3, PickleErrorKind::OddItems);
    check_refused(b"h\x07.", 0, PickleErrorKind::NotRemembered { index: 7 });
}

#[test]
fn limits_are_kept() {
    let limits = Limits {
        bytes: 4,
        values: 2,
    };
    assert!(read(b"NN0.", &limits).is_ok());
    let kind = |pickle: &[u8]| read(pickle, &limits).map(|_| ()).unwrap_err().kind;
    assert_eq!(kind(b"NNNN"), PickleErrorKind::TooManyValues { limit: 2 });
    assert_eq!(
        kind(b"NN00."),
        PickleErrorKind::TooManyBytes { bytes: 5, limit: 4 }
    );
}
