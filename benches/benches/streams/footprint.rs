//! What a stream costs before anything runs on it: nanoseconds to make one, bytes it keeps.
//!
//! Bytes of its rings depend on how many commands it holds and are counted apart; see `heap`.

use crate::{
    HEAP,
    device::{Rig, launch, must},
    measure::{Effort, sample},
    report::{Sheet, figure},
    session::Session,
};
use piton_stream::{Stream, Streams};
use piton_timeline::Timeline;

/// Streams made for the mean bytes of one.
const MADE: usize = 1000;
/// Streams made together for the time of one.
const TOGETHER: u32 = 64;
/// Launches and waits after which a stream has all it will ever keep.
const USES: usize = 64;
/// Commands of a small stream.
const FEW: u32 = 64;

pub(crate) fn measure(session: &mut Session) {
    let effort = session.effort.fewer(4);
    session.fill("scale: what a stream costs", |rig| sheet(rig, effort));
}

fn sheet(rig: &Rig, effort: Effort) -> Sheet {
    let default = column(rig, effort, None);
    let small = column(rig, effort, Some(FEW));
    let names = [
        "made, ns p50",
        "made, ns p99",
        "bytes besides its rings, fresh",
        "the same, where its lane's slot is new",
        "bytes besides its rings, used",
        "bytes of its rings",
    ];
    let line = |((name, default), small): ((&str, f64), f64)| {
        vec![name.to_owned(), figure(default), figure(small)]
    };
    Sheet {
        columns: vec!["a stream", "by default", "of 64 commands"],
        rows: names
            .into_iter()
            .zip(default)
            .zip(small)
            .map(line)
            .collect(),
        ..Sheet::default()
    }
}

fn column(rig: &Rig, effort: Effort, commands: Option<u32>) -> [f64; 6] {
    // Of their own, so that no slot was there before.
    let on = Streams::new(Timeline::new());
    let make = |rig: &Rig| rig.stream_on(&on, commands);
    let many = || -> Vec<Stream> { (0..MADE).map(|_| make(rig)).collect() };
    // Once before, so that slots and tables are there. A slot is counted with all that a lane leaves in it for who asks
    // later, which lies in larger blocks in part: all bytes of the first time are more by that than those of the second.
    let (first, new) = HEAP.during(many);
    drop(first);
    let (streams, fresh) = HEAP.during(many);
    let slots = (new.small_bytes + new.ring_bytes) - (fresh.small_bytes + fresh.ring_bytes);
    let ((), used) = HEAP.during(|| exercise(rig, &streams));
    drop(streams);
    let made = sample(effort, TOGETHER, |samples| {
        let mut streams = Vec::with_capacity(TOGETHER as usize);
        samples.time(|| streams.push(make(rig)));
    })
    .quantiles();
    #[expect(clippy::cast_precision_loss, reason = "bytes of a stream are few")]
    let each = |bytes: i64| bytes as f64 / MADE as f64;
    [
        made.p50,
        made.p99,
        each(fresh.small_bytes),
        each(fresh.small_bytes + slots),
        each(fresh.small_bytes + used.small_bytes),
        each(fresh.ring_bytes + used.ring_bytes),
    ]
}

/// Launches on every stream, each waiting for its neighbour.
fn exercise(rig: &Rig, streams: &[Stream]) {
    for _ in 0..USES {
        for pair in streams.windows(2) {
            launch(&pair[0], &rig.takes_16, &[7; 16]);
            must(pair[1].wait(&pair[0].record()));
        }
    }
    for stream in streams {
        must(stream.synchronize());
    }
}
