//! A queue's parameter ring: where launches keep their packed arguments until they have ended.
//!
//! Space is given out in order in blocks of 64 bytes and reclaimed in order, by the end position that each
//! launch carries. A reservation never wraps around: the rest of the ring is skipped instead.
//!
//! # Invariants
//! `read <= written <= read + RING_BYTES`; both only grow.

/// Bytes of arguments a queue holds at once.
pub(crate) const RING_BYTES: usize = 64 << 10;
/// Most bytes of arguments in one launch, as in CUDA before version 12.1.
pub(crate) const MAX_ARGUMENT_BYTES: u32 = 4096;
const BLOCK: usize = 64;

/// Where a launch's arguments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    offset: usize,
    bytes: usize,
    /// What `read` becomes when the launch has ended.
    pub(crate) end: u64,
}

/// The ring.
#[derive(Debug)]
pub(crate) struct ParameterRing {
    bytes: Box<[u8]>,
    read: u64,
    written: u64,
}

impl ParameterRing {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; RING_BYTES].into_boxed_slice(),
            read: 0,
            written: 0,
        }
    }

    /// Copies `arguments` and, behind them, `extents` in; `None` where there is no room and nothing has changed.
    pub(crate) fn push(&mut self, arguments: &[u8], extents: &[u64]) -> Option<Reservation> {
        let bytes = arguments.len() + size_of_val(extents);
        let needed = bytes.next_multiple_of(BLOCK);
        let ring = RING_BYTES as u64;
        let mut start = self.written;
        let at = usize::try_from(start % ring).ok()?;
        if at + needed > RING_BYTES {
            start += (RING_BYTES - at) as u64;
        }
        let end = start.checked_add(needed as u64)?;
        if end - self.read > ring {
            return None;
        }
        let offset = usize::try_from(start % ring).ok()?;
        let (packed, behind) = self
            .bytes
            .get_mut(offset..offset + bytes)?
            .split_at_mut(arguments.len());
        packed.copy_from_slice(arguments);
        behind.copy_from_slice(bytemuck::cast_slice(extents));
        self.written = end;
        Some(Reservation { offset, bytes, end })
    }

    pub(crate) fn get(&self, reservation: Reservation) -> &[u8] {
        let Reservation { offset, bytes, .. } = reservation;
        self.bytes.get(offset..offset + bytes).unwrap_or_default()
    }

    /// Everything up to `end` may be overwritten.
    pub(crate) fn reclaim(&mut self, end: u64) {
        self.read = self.read.max(end);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_ring_does_not_change_before_it_is_reclaimed() {
        let mut ring = ParameterRing::new();
        let mut held = std::collections::VecDeque::new();
        for n in 0..5_000_u32 {
            let arguments = vec![n.to_le_bytes()[0]; (n as usize * 37) % 4096];
            loop {
                match ring.push(&arguments, &[7]) {
                    Some(reservation) => break held.push_back((reservation, arguments)),
                    None => {
                        let (oldest, expected) = held.pop_front().unwrap();
                        let (packed, behind) = ring.get(oldest).split_at(expected.len());
                        assert_eq!(packed, expected);
                        assert_eq!(behind, 7_u64.to_ne_bytes());
                        ring.reclaim(oldest.end);
                    }
                }
            }
        }
    }

    #[test]
    fn a_refused_push_changes_nothing() {
        let mut ring = ParameterRing::new();
        while ring.push(&[1; 4096], &[]).is_some() {}
        let before = ring.written;
        assert_eq!(ring.push(&[2; 64], &[]), None);
        assert_eq!(ring.written, before);
    }
}
