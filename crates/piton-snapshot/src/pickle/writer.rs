//! Writes plain data as a pickle of protocol 2, in the instructions that PyTorch's own writer uses and its viewer reads.
//!
//! Keys are written once and remembered. Containers are opened and closed by hand: the caller says what it writes in the
//! order in which it stands in the file.

use hashbrown::HashMap;

use super::opcode as op;

#[derive(Debug)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    /// Texts to the numbers under which they are remembered.
    memo: HashMap<&'static str, u32>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![op::PROTO, 2],
            memo: HashMap::new(),
        }
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(op::STOP);
        self.bytes
    }

    /// A list of what `items` writes.
    pub(crate) fn list(&mut self, items: impl FnOnce(&mut Self)) {
        self.bytes.extend([op::EMPTY_LIST, op::MARK]);
        items(self);
        self.bytes.push(op::APPENDS);
    }

    /// A dictionary of the keys and values that `pairs` writes.
    pub(crate) fn dict(&mut self, pairs: impl FnOnce(&mut Self)) {
        self.bytes.extend([op::EMPTY_DICT, op::MARK]);
        pairs(self);
        self.bytes.push(op::SETITEMS);
    }

    /// A tuple of what `items` writes.
    pub(crate) fn tuple(&mut self, items: impl FnOnce(&mut Self)) {
        self.bytes.push(op::MARK);
        items(self);
        self.bytes.push(op::TUPLE);
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.bytes
            .push(if value { op::NEWTRUE } else { op::NEWFALSE });
    }

    pub(crate) fn number(&mut self, value: u64) {
        match (u8::try_from(value), i32::try_from(value)) {
            (Ok(value), _) => self.bytes.extend([op::BININT1, value]),
            (_, Ok(value)) => {
                self.bytes.push(op::BININT);
                self.bytes.extend(value.to_le_bytes());
            }
            _ => {
                // Nine bytes, of which the last says that it is not negative.
                self.bytes.extend([op::LONG1, 9]);
                self.bytes.extend(value.to_le_bytes());
                self.bytes.push(0);
            }
        }
    }

    /// A text; the same again is a number in the memo.
    pub(crate) fn text(&mut self, text: &'static str) {
        if let Some(index) = self.memo.get(text).copied() {
            return self.memoized(op::BINGET, op::LONG_BINGET, index);
        }
        // Texts are names of this crate, of some ten bytes.
        let len = u32::try_from(text.len()).unwrap_or(0);
        self.bytes.push(op::BINUNICODE);
        self.bytes.extend(len.to_le_bytes());
        self.bytes.extend(text.as_bytes());
        if let Ok(index) = u32::try_from(self.memo.len()) {
            self.memo.insert(text, index);
            self.memoized(op::BINPUT, op::LONG_BINPUT, index);
        }
    }

    fn memoized(&mut self, short: u8, long: u8, index: u32) {
        if let Ok(index) = u8::try_from(index) {
            self.bytes.extend([short, index]);
        } else {
            self.bytes.push(long);
            self.bytes.extend(index.to_le_bytes());
        }
    }
}
