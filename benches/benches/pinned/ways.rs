//! Ways to copy much memory side by side, without a device: plainly, streaming, by two threads, and through chunks.
//!
//! What `piton_copy`'s two ways, the chunk's size and the ring's length in `piton-buffer` were chosen by. A way through
//! chunks fills one while another thread empties the last, or the same thread does both in turn.

use crate::{copies::shared_pages, subject::median};
use comfy_table::Table;
use piton_copy::{copy_cached, copy_streaming};
use std::{
    hint::{black_box, spin_loop},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

/// Chunks of a ring.
const CHUNKS: usize = 4;

type Copy = fn(&mut [u8], &[u8]);

fn plain(dst: &mut [u8], src: &[u8]) {
    dst.copy_from_slice(src);
}

/// How chunks are filled, and emptied.
const THROUGH: [(&str, Copy, Copy); 4] = [
    ("plain, plain", plain, plain),
    ("plain, streaming", plain, copy_streaming),
    ("cached, streaming", copy_cached, copy_streaming),
    ("streaming, streaming", copy_streaming, copy_streaming),
];

/// Two threads copy a half each.
fn halves(dst: &mut [u8], src: &[u8], copy: Copy) {
    let (src, later) = src.split_at(src.len() / 2);
    let (dst, room) = dst.split_at_mut(src.len());
    thread::scope(|scope| {
        scope.spawn(|| copy(room, later));
        copy(dst, src);
    });
}

/// One thread fills a chunk and empties it.
fn alone(dst: &mut [u8], src: &[u8], chunk: &mut [u8], (fill, empty): (Copy, Copy)) {
    for (to, from) in dst.chunks_mut(chunk.len()).zip(src.chunks(chunk.len())) {
        let chunk = &mut chunk[..from.len()];
        fill(chunk, from);
        empty(to, chunk);
    }
}

/// One thread fills chunks, and another empties them, each looking at the other's count.
fn together(dst: &mut [u8], src: &[u8], ring: &mut [u8], (fill, empty): (Copy, Copy)) {
    let step = ring.len() / CHUNKS;
    let (filled, emptied) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let chunks: Vec<_> = ring.chunks_mut(step).map(std::sync::Mutex::new).collect();
    let has = |count: &AtomicUsize, number: usize| {
        while count.load(Ordering::Acquire) < number {
            spin_loop();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for (index, to) in dst.chunks_mut(step).enumerate() {
                has(&filled, index + 1);
                if let Ok(chunk) = chunks[index % CHUNKS].lock() {
                    empty(to, &chunk[..to.len()]);
                }
                emptied.store(index + 1, Ordering::Release);
            }
        });
        for (index, from) in src.chunks(step).enumerate() {
            has(&emptied, (index + 1).saturating_sub(CHUNKS));
            if let Ok(mut chunk) = chunks[index % CHUNKS].lock() {
                fill(&mut chunk[..from.len()], from);
            }
            filled.store(index + 1, Ordering::Release);
        }
    });
}

/// Reads all of it.
fn read(memory: &[u8]) {
    let words = memory.chunks_exact(8);
    black_box(words.fold(0_u64, |sum, word| {
        sum.wrapping_add(u64::from_le_bytes(word.try_into().unwrap_or_default()))
    }));
}

/// A way from one memory to another, over a ring of this many bytes.
type Way = (String, usize, Box<dyn Fn(&mut [u8], &[u8], &mut [u8])>);

fn ways(chunks: &[usize]) -> Vec<Way> {
    let mut ways: Vec<Way> = vec![
        ("memcpy".into(), 0, Box::new(|dst, src, _| plain(dst, src))),
        (
            "streaming".into(),
            0,
            Box::new(|dst, src, _| copy_streaming(dst, src)),
        ),
        (
            "memcpy, two threads".into(),
            0,
            Box::new(|dst, src, _| halves(dst, src, plain)),
        ),
        (
            "streaming, two threads".into(),
            0,
            Box::new(|dst, src, _| halves(dst, src, copy_streaming)),
        ),
        (
            "memcpy, then read".into(),
            0,
            Box::new(|dst, src, _| {
                plain(dst, src);
                read(dst);
            }),
        ),
        (
            "streaming, then read".into(),
            0,
            Box::new(|dst, src, _| {
                copy_streaming(dst, src);
                read(dst);
            }),
        ),
    ];
    for &kibibytes in chunks {
        for (name, fill, empty) in THROUGH {
            let pair = (fill, empty);
            let bytes = kibibytes << 10;
            let name = format!("{kibibytes} KiB, {name}");
            let way =
                move |dst: &mut [u8], src: &[u8], ring: &mut [u8]| alone(dst, src, ring, pair);
            ways.push((format!("{name}, one thread"), bytes, Box::new(way)));
            let way =
                move |dst: &mut [u8], src: &[u8], ring: &mut [u8]| together(dst, src, ring, pair);
            ways.push((name, bytes * CHUNKS, Box::new(way)));
        }
    }
    ways
}

/// A column a size, a row a way: the memcpy's rate in GB/s, and the others' over it, of samples that took turns.
pub(crate) fn table(is_full: bool) -> Table {
    let (samples, sizes, chunks) = if is_full {
        (9, &[2, 8, 64, 256][..], &[64, 256, 1024, 4096][..])
    } else {
        (1, &[2][..], &[256][..])
    };
    let ways = ways(chunks);
    let mut rows: Vec<Vec<String>> = ways.iter().map(|(name, ..)| vec![name.clone()]).collect();
    for mebibytes in sizes {
        let bytes = mebibytes << 20;
        let (dst, src) = (shared_pages(bytes), vec![1; bytes]);
        let mut ring = vec![1; 16 << 20];
        let mut spent = vec![Vec::new(); ways.len()];
        for _ in 0..samples {
            for ((_, ring_bytes, way), spent) in ways.iter().zip(&mut spent) {
                // The first finds the caches as another way has left them, the second as it left them itself.
                way(dst, &src, &mut ring[..*ring_bytes]);
                let began = Instant::now();
                way(dst, black_box(&src), &mut ring[..*ring_bytes]);
                spent.push(began.elapsed().as_secs_f64());
            }
        }
        let plain = median(&spent[0]);
        for (row, spent) in rows.iter_mut().zip(&spent) {
            row.push(format!("{:.2}", plain / median(spent)));
        }
        rows[0].pop();
        rows[0].push(format!("{:.1} GB/s", bytes as f64 / plain / 1e9));
    }
    let mut table = Table::new();
    let sizes = sizes.iter().map(|mebibytes| format!("{mebibytes} MiB"));
    table.set_header(std::iter::once("over memcpy".to_owned()).chain(sizes));
    table.add_rows(rows);
    table
}
