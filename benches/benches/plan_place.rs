//! Planning: how long one pass over so many blocks takes, and a request and a free served from a plan.
//!
//! Sizes are log-uniform from 512 bytes to 1 MiB. Of the blocks one in a thousand stays to the end, the others for up to
//! 500 births, so that some hundreds to some thousands live at once.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use piton_plan::{Answer, Block, PlaceConfig, PlanCursor, Recorder, place};

const BLOCKS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];

fn blocks(count: u64) -> Vec<Block> {
    let mut random = fastrand::Rng::with_seed(1);
    let block = |birth: u64| {
        let exponent = random.u32(0..11);
        let units = (1 << exponent) + random.u64(0..1 << exponent);
        let death = if random.u16(0..1000) == 0 {
            count
        } else {
            birth + random.u64(1..500)
        };
        Block {
            bytes: 512 * units,
            birth,
            death: death.max(birth + 1),
        }
    };
    (0..count).map(block).collect()
}

fn placing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan/place");
    group.sample_size(10);
    let once = PlaceConfig {
        passes: 1,
        ..PlaceConfig::default()
    };
    for count in BLOCKS {
        let blocks = blocks(count);
        group.bench_function(BenchmarkId::new("one-pass", count), |bencher| {
            bencher.iter(|| black_box(place(black_box(&blocks), &once)));
        });
    }
    group.finish();
}

fn serving(criterion: &mut Criterion) {
    const LIVE: u32 = 500;
    let mut recorder = Recorder::default();
    for request in 0..10_000 {
        let noted = recorder.request(512 * u64::from(request % 97 + 1), 0);
        debug_assert_eq!(noted, Ok(Some(request)));
        if let Some(oldest) = request.checked_sub(LIVE) {
            let freed = recorder.free(oldest);
            debug_assert_eq!(freed, Ok(()));
        }
    }
    let Ok(plan) = recorder.plan(&PlaceConfig::default()) else {
        return;
    };
    let mut cursor = PlanCursor::new(Arc::new(plan));
    let mut request = 0;
    criterion.bench_function("plan/serve/request-and-free", |bencher| {
        bencher.iter(|| {
            // The last ones of a step outlive it, and have no place.
            if request == 10_000 - LIVE {
                for left in request - LIVE..request {
                    cursor.free(left);
                }
                cursor.begin_step();
                request = 0;
            }
            let answer = cursor.next(512 * u64::from(request % 97 + 1), 0);
            debug_assert!(matches!(answer, Answer::Planned { .. }));
            if let Some(oldest) = request.checked_sub(LIVE) {
                cursor.free(oldest);
            }
            request += 1;
            black_box(answer)
        });
    });
}

criterion_group!(benches, placing, serving);
criterion_main!(benches);
