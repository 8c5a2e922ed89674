//! A few places of what a part carried, read back from both ends and compared.
//!
//! A link that was tried may change bytes later, and nothing tells. Where a configuration asks for it, the source's and the
//! destination's queue each read some places of the part when it has arrived, and the part counts as arrived only if they
//! are the same. A change elsewhere is not seen: what this finds is links that have gone bad, not single bytes. The places may
//! be all there are, and then there is no elsewhere.

#![expect(
    unsafe_code,
    reason = "passes the promises of whoever asks for a copy on to the streams"
)]

use crate::{
    TransferError,
    carrier::Carrier,
    config::Compared,
    end::Ends,
    way::{Leg, Share},
};
use piton_driver::{Command, PeerAddress, Priority};
use piton_pinned::PinnedBlock;
use piton_stream::Event;
use piton_timeline::Frontier;

/// Bytes of a place where every byte is looked at.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;
/// Bytes of a place.
const PLACE_BYTES: u64 = 256;

/// The places of one part.
#[derive(Debug)]
pub(crate) struct Sample {
    /// What the source has at each place, and the destination.
    blocks: [Vec<PinnedBlock>; 2],
    bytes: u64,
}

impl Sample {
    /// Reads places of a part that begins at `dst` and `src` of the whole copy: of the source behind `start`, of the
    /// destination behind `arrived`. The lanes that do so are added to `carriers`.
    ///
    /// # Safety
    /// Both ranges are live memory until the lanes have ended, and nobody writes them but the part.
    pub(crate) unsafe fn read(
        ends: &Ends,
        share: &Share,
        compared: Compared,
        [dst, src]: [PeerAddress; 2],
        (start, arrived): (&Event, &Frontier),
        carriers: &mut Vec<Carrier>,
    ) -> Result<Self, (Leg, TransferError)> {
        let leg = Leg {
            from: Some(src.device),
            to: Some(dst.device),
        };
        let failed = |error: TransferError| (leg, error);
        let places = match compared {
            Compared::Nothing => Vec::new(),
            Compared::Places(places) => places_of(share.bytes, places),
            Compared::Everything => pieces_of(share.bytes),
        };
        let mut sample = Self {
            blocks: [Vec::new(), Vec::new()],
            bytes: places.iter().map(|(_, bytes)| bytes).sum(),
        };
        for (end, blocks) in [src, dst].into_iter().zip(&mut sample.blocks) {
            let on = ends.get(end.device).map_err(failed)?;
            for (_, bytes) in &places {
                blocks.push(on.take_block(*bytes).map_err(failed)?);
            }
            let mut carrier = Carrier::on(on, leg, Priority::DEFAULT).map_err(failed)?;
            let ready = if end == src {
                carrier.lane.wait(start).map(drop)
            } else {
                carrier.lane.wait_frontier(arrived).map(drop)
            };
            // SAFETY: as the caller promised; the blocks know until when they are used.
            let read = ready.map_err(TransferError::from).and_then(|()| unsafe {
                read_places(&mut carrier, blocks, end, share.offset, &places)
            });
            carriers.push(carrier);
            read.map_err(failed)?;
        }
        Ok(sample)
    }

    /// Of the bytes looked at, how many are not the same. Asked when every lane has ended well.
    pub(crate) fn wrong(&self) -> u64 {
        let [sent, came] = &self.blocks;
        sent.iter().zip(came).map(|(a, b)| differing(a, b)).sum()
    }

    /// How many bytes were looked at.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// # Safety
/// As [`Sample::read`].
unsafe fn read_places(
    carrier: &mut Carrier,
    blocks: &mut [PinnedBlock],
    end: PeerAddress,
    offset: u64,
    places: &[(u64, u64)],
) -> Result<(), TransferError> {
    for ((place, bytes), block) in places.iter().zip(blocks) {
        let past = TransferError::PastTheEnd { bytes: *bytes };
        let src = end.ptr.checked_add(offset + place).ok_or(past)?;
        let copy = Command::CopyToHost {
            dst: block.as_ptr(),
            src,
            bytes: *bytes,
        };
        // SAFETY: as the caller promised.
        let point = unsafe { carrier.lane.submit(&copy) }?;
        carrier.reaches(point);
        block.record_write(point);
    }
    Ok(())
}

/// How many bytes of two places are not the same. Who cannot look has seen nothing wrong.
fn differing(sent: &PinnedBlock, came: &PinnedBlock) -> u64 {
    match (sent.try_as_slice(), came.try_as_slice()) {
        (Ok(sent), Ok(came)) => sent.iter().zip(came).filter(|(a, b)| a != b).count() as u64,
        _ => 0,
    }
}

/// Where to look, and how many bytes: evenly from the first to the last.
fn places_of(bytes: u64, places: u32) -> Vec<(u64, u64)> {
    let size = PLACE_BYTES.min(bytes);
    let most = (bytes / size.max(1)).min(places.max(1).into());
    let gaps = most.saturating_sub(1).max(1);
    let last = u128::from(bytes - size);
    let place = |number: u64| {
        let at = last * u128::from(number) / u128::from(gaps);
        (u64::try_from(at).unwrap_or(0), size)
    };
    (0..most).map(place).collect()
}

/// All of it, in pieces.
fn pieces_of(bytes: u64) -> Vec<(u64, u64)> {
    let pieces = 0..bytes.div_ceil(PIECE_BYTES);
    let starts = pieces.map(|piece| piece * PIECE_BYTES);
    starts.map(|at| (at, PIECE_BYTES.min(bytes - at))).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_lie_from_the_first_byte_to_the_last() {
        assert_eq!(places_of(100, 4), [(0, 100)]);
        assert_eq!(places_of(1 << 20, 1), [(0, 256)]);
        let places = places_of(1 << 20, 5);
        assert_eq!(places.len(), 5);
        assert_eq!(places[4], ((1 << 20) - 256, 256));
        assert!(places.is_sorted());
        assert_eq!(places_of(600, 9), [(0, 256), (344, 256)]);
        assert_eq!(pieces_of(PIECE_BYTES), [(0, PIECE_BYTES)]);
        let pieces = pieces_of(2 * PIECE_BYTES + 1);
        assert_eq!(
            pieces[1..],
            [(PIECE_BYTES, PIECE_BYTES), (2 * PIECE_BYTES, 1)]
        );
    }
}
