//! The sum of all devices' gradients on every device, by copies around a ring.
//!
//! The gradient is cut into as many pieces as there are devices. In the first half each device passes a piece to its
//! neighbour, which adds its own part and passes the sum on; after `devices - 1` rounds each piece is complete on one
//! device. In the second half the complete pieces go around once more. Every device sends and receives
//! `2 x (devices - 1) / devices` of the gradient, whatever their number, and each piece is summed by one device in one
//! order, so that all devices end with the same bits.
//!
//! Nothing waits on the host. A copy starts when its source is written, an addition when its copy has arrived: events
//! between streams and devices, which the buffers record and wait for. Each piece has a buffer of its own, so that
//! pieces do not wait for each other.

use std::ops::Range;

use piton::{BufferError, DeviceBuffer};

use super::network::PARAMETERS;
use super::replica::Replica;

/// The complete pieces of a gradient on one device, in order.
pub(super) type Pieces = Vec<DeviceBuffer<f32>>;

/// Elements that pieces begin at multiples of: 512 bytes, at which every device takes an address.
const STRIDE: usize = 128;

/// Where piece `piece` of `count` lies in the flat parameters. Pieces differ by one stride at most, and the last is shorter.
pub(super) fn piece_range(piece: usize, count: usize) -> Range<u64> {
    let strides = PARAMETERS.div_ceil(STRIDE);
    let border = |n: usize| (n * strides / count * STRIDE).min(PARAMETERS) as u64;
    border(piece)..border(piece + 1)
}

/// Sums the devices' gradients; the answer has, for every device, all pieces. There are at least two devices.
pub(super) fn all_reduce(
    replicas: &mut [Replica],
    gradients: &[DeviceBuffer<f32>],
) -> Result<Vec<Pieces>, BufferError> {
    let count = replicas.len();
    let mut sums = reduce_scatter(replicas, gradients)?;
    let mut pieces: Vec<Vec<Option<DeviceBuffer<f32>>>> = Vec::new();
    pieces.resize_with(count, || (0..count).map(|_| None).collect());
    for (device, sum) in sums.drain(..).enumerate() {
        pieces[device][(device + 1) % count] = Some(sum);
    }
    for round in 0..count - 1 {
        for device in 0..count {
            let (next, piece) = ((device + 1) % count, (device + 1 + count - round) % count);
            let Some(source) = &pieces[device][piece] else {
                continue;
            };
            let arrived = send(source.into(), &replicas[next])?;
            pieces[next][piece] = Some(arrived);
        }
    }
    Ok(pieces
        .into_iter()
        .map(|pieces| pieces.into_iter().flatten().collect())
        .collect())
}

/// After this device `d` has the complete piece `d + 1`.
fn reduce_scatter(
    replicas: &mut [Replica],
    gradients: &[DeviceBuffer<f32>],
) -> Result<Vec<DeviceBuffer<f32>>, BufferError> {
    let count = replicas.len();
    let mut sums: Vec<DeviceBuffer<f32>> = Vec::new();
    for round in 0..count - 1 {
        let mut arrived = Vec::with_capacity(count);
        for device in 0..count {
            let piece = (device + count - round) % count;
            let source = match sums.get(device) {
                Some(sum) => sum.into(),
                None => gradients[device].slice(piece_range(piece, count))?,
            };
            arrived.push(send(source, &replicas[(device + 1) % count])?);
        }
        arrived.rotate_right(1);
        let mut added = Vec::with_capacity(count);
        for (device, arrived) in arrived.into_iter().enumerate() {
            let piece = (device + count - 1 - round) % count;
            let own = gradients[device].slice(piece_range(piece, count))?;
            added.push(replicas[device].add(own, &arrived)?);
        }
        sums = added;
    }
    Ok(sums)
}

/// Copies a piece to a fresh buffer of another device.
fn send(
    source: piton::DeviceSlice<'_, f32>,
    to: &Replica,
) -> Result<DeviceBuffer<f32>, BufferError> {
    let mut there = to.peers.allocate(source.len())?;
    to.peers.copy_peer(source, &mut there)?;
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_whole_gradient() {
        for count in 1..=16 {
            let mut end = 0;
            for piece in 0..count {
                let range = piece_range(piece, count);
                assert_eq!(range.start, end);
                assert!(!range.is_empty());
                assert!(range.start.is_multiple_of(STRIDE as u64));
                end = range.end;
            }
            assert_eq!(end, PARAMETERS as u64);
        }
    }
}
