//! All-reduce, all-gather and broadcast, over a mesh or a ring.
//!
//! Device `d` owns shard `d`. All-reduce is a reduce-scatter, after which each owner has the sum of its shard, and an
//! all-gather, after which all have all. Over a mesh each step is one hop to everybody at once; over a ring shards go
//! round, one hop a step.

use crate::{
    group::{Copy, Group, Outcome, PIECES},
    shape::Shape,
};

/// Each device's copy becomes the sum of all.
pub(crate) fn all_reduce(group: &Group, shape: &Shape, copies: &mut [Copy]) -> Outcome {
    match shape {
        Shape::Mesh => reduce_scatter_mesh(group, copies)?,
        Shape::Ring(ring) => reduce_scatter_ring(group, ring, copies)?,
    }
    all_gather(group, shape, copies)
}

/// Each device's shard comes to all.
pub(crate) fn all_gather(group: &Group, shape: &Shape, copies: &mut [Copy]) -> Outcome {
    match shape {
        Shape::Mesh => {
            for piece in 0..PIECES {
                for shard in 0..group.count {
                    for to in (0..group.count).filter(|to| *to != shard) {
                        send(group, copies, (shard, to), (shard, piece))?;
                    }
                }
            }
        }
        Shape::Ring(ring) => {
            // After a reduce-scatter the owner of shard ring[i] is ring[i]; it goes on to the next, and so on.
            for step in 0..group.count - 1 {
                for at in 0..group.count {
                    let shard = ring[(at + group.count - step) % group.count];
                    let hop = (ring[at], ring[(at + 1) % group.count]);
                    (0..PIECES).try_for_each(|piece| send(group, copies, hop, (shard, piece)))?;
                }
            }
        }
    }
    Ok(())
}

/// The copy of `root` comes to all: over a mesh each gets a shard of it and hands that on; along a ring pieces follow
/// each other.
pub(crate) fn broadcast(group: &Group, shape: &Shape, root: usize, copies: &mut [Copy]) -> Outcome {
    match shape {
        Shape::Mesh => {
            for piece in 0..PIECES {
                for shard in (0..group.count).filter(|shard| *shard != root) {
                    send(group, copies, (root, shard), (shard, piece))?;
                }
                for shard in 0..group.count {
                    for to in (0..group.count).filter(|to| ![shard, root].contains(to)) {
                        send(group, copies, (shard, to), (shard, piece))?;
                    }
                }
            }
        }
        Shape::Ring(ring) => {
            let first = ring.iter().position(|device| *device == root).unwrap_or(0);
            for shard in 0..group.count {
                for piece in 0..PIECES {
                    for hop in 0..group.count - 1 {
                        let at = |hop| ring[(first + hop) % group.count];
                        send(group, copies, (at(hop), at(hop + 1)), (shard, piece))?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn reduce_scatter_mesh(group: &Group, copies: &mut [Copy]) -> Outcome {
    let len = copies[0].len() * PIECES * usize::try_from(copies[0][0][0].len())?;
    let mut came = group.room(len)?;
    for piece in 0..PIECES {
        for owner in 0..group.count {
            for from in (0..group.count).filter(|from| *from != owner) {
                let source = &copies[from][owner][piece];
                let target = &mut came[owner][from][piece];
                group.send((from, owner, piece), source, target)?;
            }
        }
        for owner in 0..group.count {
            for from in (0..group.count).filter(|from| *from != owner) {
                group.add(
                    owner,
                    &mut copies[owner][owner][piece],
                    &came[owner][from][piece],
                )?;
            }
        }
    }
    Ok(())
}

fn reduce_scatter_ring(group: &Group, ring: &[usize], copies: &mut [Copy]) -> Outcome {
    let count = group.count;
    let len = count * PIECES * usize::try_from(copies[0][0][0].len())?;
    let mut came = group.room(len)?;
    for step in 0..count - 1 {
        for at in 0..count {
            // Shard ring[i] begins behind its owner and arrives there last, with everybody's part in it.
            let shard = ring[(at + count - 1 - step) % count];
            let (from, to) = (ring[at], ring[(at + 1) % count]);
            for piece in 0..PIECES {
                let source = &copies[from][shard][piece];
                group.send((from, to, piece), source, &mut came[to][shard][piece])?;
                group.add(to, &mut copies[to][shard][piece], &came[to][shard][piece])?;
            }
        }
    }
    Ok(())
}

/// Sends a piece of a shard from one device's copy into another's.
fn send(
    group: &Group,
    copies: &mut [Copy],
    (from, to): (usize, usize),
    (shard, piece): (usize, usize),
) -> Outcome {
    let [source, target] = copies.get_disjoint_mut([from, to])?;
    let target = &mut target[shard][piece];
    group.send((from, to, piece), &source[shard][piece], target)
}
