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
use piton_stream::Stream;

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
    let default = column(rig, effort, Rig::stream);
    let small = column(rig, effort, |rig| rig.stream_of(FEW));
    let names = [
        "made, ns p50",
        "made, ns p99",
        "bytes besides its rings, fresh",
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

fn column(rig: &Rig, effort: Effort, make: impl Fn(&Rig) -> Stream) -> [f64; 5] {
    let made = sample(effort, TOGETHER, |samples| {
        let mut streams = Vec::with_capacity(TOGETHER as usize);
        samples.time(|| streams.push(make(rig)));
    })
    .quantiles();
    let many = || -> Vec<Stream> { (0..MADE).map(|_| make(rig)).collect() };
    // Once before, so that slots and tables are there.
    drop(many());
    let (streams, fresh) = HEAP.during(many);
    let ((), used) = HEAP.during(|| exercise(rig, &streams));
    #[expect(clippy::cast_precision_loss, reason = "bytes of a stream are few")]
    let each = |bytes: i64| bytes as f64 / MADE as f64;
    [
        made.p50,
        made.p99,
        each(fresh.small_bytes),
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
