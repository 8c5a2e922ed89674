//! Fills with patterns that are more than a byte.
//!
//! The runtime fills with bytes alone. A pattern of two or four bytes that differ is copied from a page of host memory that
//! is full of it, and what is there is then copied behind itself, twice as much each time: a fill of n pages is about
//! log2(n) copies within the device. The pages are kept for the next fill with the pattern.

#![expect(unsafe_code, reason = "hands commands that name memory to the device")]

use crate::ffi::{
    Called, HostPage, RawStream, StreamCore, Ticket, declarations::CopyKind, pointer, size,
};
use piton_driver::FillPattern;
use piton_sync::Mutex;
use std::{ffi::c_int, sync::Arc};

/// Bytes of a page that fills start from.
const SEED_BYTES: usize = 4096;

/// Patterns whose pages are kept.
const KEPT: usize = 4;

/// Pages full of patterns.
#[derive(Debug, Default)]
pub(crate) struct Seeds(Mutex<Vec<(FillPattern, Arc<HostPage>)>>);

impl Seeds {
    /// Fills memory.
    ///
    /// # Safety
    /// As [`piton_native::NativeQueue::fill`].
    pub(crate) unsafe fn fill(
        &self,
        stream: &Arc<StreamCore>,
        dst: u64,
        pattern: FillPattern,
        bytes: u64,
    ) -> Called<Ticket> {
        if let Some(byte) = single_byte(pattern) {
            let count = size(bytes);
            return stream.hand_over(|stream| {
                stream.call(|core, raw| {
                    // SAFETY: the caller's promise.
                    unsafe { (core.fill)(pointer(dst), count, c_int::from(byte), count, raw) }
                })
            });
        }
        let seed = self.page(stream.vendor(), pattern)?;
        // SAFETY: the caller's promise.
        let filled = stream.hand_over(|stream| unsafe { spread(stream, &seed, dst, bytes) });
        filled.map(|ticket| ticket.keeping(seed))
    }

    /// A page full of the pattern.
    fn page(&self, stream: &RawStream, pattern: FillPattern) -> Called<Arc<HostPage>> {
        let mut kept = self.0.lock();
        if let Some((_, page)) = kept.iter().find(|(of, _)| *of == pattern) {
            return Ok(Arc::clone(page));
        }
        let content: Vec<u8> = match pattern {
            FillPattern::Byte(byte) => vec![byte; SEED_BYTES],
            FillPattern::Half(half) => half.to_ne_bytes().repeat(SEED_BYTES / 2),
            FillPattern::Word(word) => word.to_ne_bytes().repeat(SEED_BYTES / 4),
        };
        let page = Arc::new(HostPage::new(&stream.context, &content)?);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((pattern, Arc::clone(&page)));
        Ok(page)
    }
}

/// The byte that a pattern consists of, if it is one.
fn single_byte(pattern: FillPattern) -> Option<u8> {
    let (first, is_single) = match pattern {
        FillPattern::Byte(byte) => (byte, true),
        FillPattern::Half(half) => {
            let [a, b] = half.to_ne_bytes();
            (a, a == b)
        }
        FillPattern::Word(word) => {
            let bytes = word.to_ne_bytes();
            (bytes[0], bytes == [bytes[0]; 4])
        }
    };
    is_single.then_some(first)
}

/// Copies the page to the start, and what is there behind itself. What the runtime refuses of the first copy is answered; of
/// a later one, the stream has failed with it, as the first is handed over.
///
/// # Safety
/// As [`Seeds::fill`]; the page stays until all is over.
unsafe fn spread(stream: &RawStream, seed: &HostPage, dst: u64, bytes: u64) -> Called<()> {
    let mut done = bytes.min(SEED_BYTES as u64);
    let start = seed.start().as_ptr().cast_const().cast();
    // SAFETY: the caller's promise, for the first `done` bytes.
    unsafe { stream.copy(pointer(dst), start, done, CopyKind::ToDevice) }?;
    while done < bytes {
        let next = done.min(bytes - done);
        let (to, from) = (pointer(dst + done), pointer(dst).cast_const());
        // SAFETY: the caller's promise; `next` is no more than lies before, so they do not overlap.
        let copied = unsafe { stream.copy(to, from, next, CopyKind::OnDevice) };
        if let Err(status) = copied {
            stream.spoil(status);
            break;
        }
        done += next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_one_byte_are_told_from_others() {
        assert_eq!(single_byte(FillPattern::Byte(7)), Some(7));
        assert_eq!(single_byte(FillPattern::Half(0x0707)), Some(7));
        assert_eq!(single_byte(FillPattern::Half(0x0708)), None);
        assert_eq!(single_byte(FillPattern::Word(0)), Some(0));
        assert_eq!(single_byte(FillPattern::Word(0x0101_0201)), None);
    }
}
