//! Time a call: one thread, two threads with blocks of their own, two threads that free each other's, and one that only allocates
//! beside one that only frees.
//!
//! The last two say different things. Threads that wait for each other sleep and are woken, which takes ten times as long as a parcel
//! of calls, so they run in turns and a line that both write is fetched once a parcel. Where both spin instead, they are at it at
//! the same time, and whatever both write goes to and fro at each call.
//!
//! Of both the calls alone are timed, parcel by parcel. Looking at a thread's clock is a call of the system, of as long as a hundred
//! calls of a pool: what it adds is measured in the same run, and taken off.

use crate::{
    clock::thread_time,
    subject::{Subject, Visit, median, visit_all},
};
use comfy_table::Table;
use crossbeam_queue::ArrayQueue;
use piton_sync::{
    atomic::{AtomicBool, Ordering},
    hint, thread,
};
use std::{hint::black_box, sync::mpsc, time::Duration};

/// Blocks a thread has out while it works.
const WINDOW: usize = 64;
/// Blocks that go to the other thread at once.
const PARCEL: usize = 512;
/// The same where threads do not wait for each other, with two on their way: no more blocks than the queues have room for.
const SMALL_PARCEL: usize = 256;

/// One step of a recorded sequence: which block to give back, and what to ask for.
#[derive(Clone, Copy)]
struct Step {
    slot: usize,
    bytes: usize,
}

/// Sizes and places, drawn ahead so that no drawing is timed.
struct Sequence {
    steps: Vec<Step>,
    rounds: usize,
}

impl Sequence {
    fn of_one_size(bytes: usize, rounds: usize) -> Self {
        Self::drawn(rounds, |_| bytes)
    }

    /// From 4 KiB to 4 MiB, as many of each doubling.
    fn mixed(rounds: usize) -> Self {
        Self::drawn(rounds, |random| {
            let doubling = random.usize(12..22);
            random.usize((1 << doubling) + 1..=2 << doubling)
        })
    }

    fn drawn(rounds: usize, mut size: impl FnMut(&mut fastrand::Rng) -> usize) -> Self {
        let mut random = fastrand::Rng::with_seed(7);
        let mut step = || Step {
            slot: random.usize(0..WINDOW),
            bytes: size(&mut random),
        };
        Self {
            steps: (0..4096).map(|_| step()).collect(),
            rounds,
        }
    }

    fn parcels(&self, length: usize) -> impl Iterator<Item = &[Step]> {
        let number = self.steps.len().div_ceil(length) * self.rounds;
        self.steps.chunks(length).cycle().take(number)
    }

    fn calls(&self) -> usize {
        2 * self.steps.len() * self.rounds
    }
}

/// Time that a thread spent in parts.
struct Spent {
    sum: Duration,
    parts: u32,
    /// What looking at the clock adds to a part.
    clock: Duration,
}

impl Spent {
    fn none() -> Self {
        let mut looks = [(); 101].map(|()| {
            let before = thread_time();
            thread_time() - before
        });
        looks.sort_unstable();
        Self {
            sum: Duration::ZERO,
            parts: 0,
            clock: looks[looks.len() / 2],
        }
    }

    fn add(&mut self, part: impl FnOnce()) {
        let before = thread_time();
        part();
        self.sum += thread_time() - before;
        self.parts += 1;
    }

    fn seconds(&self) -> f64 {
        self.sum
            .saturating_sub(self.clock * self.parts)
            .as_secs_f64()
    }
}

/// Gives back one at random and asks for another; returns nanoseconds a call.
fn churn<S: Subject>(subject: &S, sequence: &Sequence) -> f64 {
    let mut live: Vec<Option<S::Block>> = (0..WINDOW).map(|_| None).collect();
    let mut pass = || {
        for step in &sequence.steps {
            let place = &mut live[step.slot];
            if let Some(block) = place.take() {
                subject.free(block);
            }
            *place = Some(subject.allocate(black_box(step.bytes)));
        }
    };
    pass();
    let before = thread_time();
    (0..sequence.rounds).for_each(|_| pass());
    let spent = thread_time() - before;
    live.into_iter()
        .flatten()
        .for_each(|block| subject.free(block));
    spent.as_secs_f64() * 1e9 / sequence.calls() as f64
}

/// Two threads, each with blocks of its own; calls a nanosecond of both together.
fn beside<S: Subject>(subject: &S, sequence: &Sequence) -> f64 {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let rate = 1.0 / churn(subject, sequence);
            is_over.store(true, Ordering::Relaxed);
            rate
        });
        let mine = 1.0 / churn(subject, sequence);
        // Keeps the other company to its end, so that neither is measured alone.
        while !is_over.load(Ordering::Relaxed) {
            churn(
                subject,
                &Sequence {
                    rounds: 1,
                    steps: sequence.steps.clone(),
                },
            );
        }
        mine + other.join().unwrap_or(f64::NAN)
    })
}

/// Each of two threads allocates for the other, which frees; nanoseconds a call.
fn exchange<S: Subject>(subject: &S, sequence: &Sequence) -> f64 {
    let (to_first, first) = mpsc::sync_channel(2);
    let (to_second, second) = mpsc::sync_channel(2);
    // The time of the calls alone: how handles get to the other thread is not what is measured. So they lie in memory that
    // stays with the thread while it is timed, and are copied from and to what is passed on.
    let half = |outbox: mpsc::SyncSender<Vec<S::Block>>, inbox: mpsc::Receiver<Vec<S::Block>>| {
        let (mut spent, mut blocks) = (Spent::none(), Vec::with_capacity(PARCEL));
        for parcel in sequence.parcels(PARCEL) {
            spent.add(|| blocks.extend(parcel.iter().map(|step| subject.allocate(step.bytes))));
            let mut handles = Vec::with_capacity(blocks.len());
            handles.append(&mut blocks);
            let sent = outbox.send(handles);
            let Ok(received) = inbox.recv() else { break };
            blocks.extend(received);
            spent.add(|| blocks.drain(..).for_each(|block| subject.free(block)));
            drop(sent);
        }
        spent.seconds()
    };
    let spent = thread::scope(|scope| {
        let other = scope.spawn(move || half(to_first, second));
        half(to_second, first) + other.join().unwrap_or(f64::NAN)
    });
    spent * 1e9 / (2 * sequence.calls()) as f64
}

/// One thread allocates all the time, and another frees what it has; nanoseconds a call. Neither sleeps.
fn hand_over<S: Subject>(subject: &S, sequence: &Sequence) -> f64 {
    let (full, empty) = (ArrayQueue::new(2), ArrayQueue::new(2));
    while empty.push(Vec::with_capacity(SMALL_PARCEL)).is_ok() {}
    // As in an exchange, handles lie in memory that stays with the thread while it is timed.
    let allocates = || {
        let (mut spent, mut blocks) = (Spent::none(), Vec::with_capacity(SMALL_PARCEL));
        for parcel in sequence.parcels(SMALL_PARCEL) {
            spent.add(|| blocks.extend(parcel.iter().map(|step| subject.allocate(step.bytes))));
            let mut handles = spin(|| empty.pop());
            handles.append(&mut blocks);
            // There are as many parcels as the queue has room for.
            drop(full.push(handles));
        }
        spent.seconds()
    };
    let frees = || {
        let (mut spent, mut blocks) = (Spent::none(), Vec::with_capacity(SMALL_PARCEL));
        for _ in sequence.parcels(SMALL_PARCEL) {
            let mut handles = spin(|| full.pop());
            blocks.append(&mut handles);
            drop(empty.push(handles));
            spent.add(|| blocks.drain(..).for_each(|block| subject.free(block)));
        }
        spent.seconds()
    };
    let spent = thread::scope(|scope| {
        let other = scope.spawn(frees);
        allocates() + other.join().unwrap_or(f64::NAN)
    });
    spent * 1e9 / sequence.calls() as f64
}

/// Waits awake, and lets others have the core now and then: the one that is waited for may need it.
fn spin<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    loop {
        for _ in 0..1000 {
            if let Some(answer) = ask() {
                return answer;
            }
            hint::spin_loop();
        }
        thread::yield_now();
    }
}

/// The second of two runs: what is handed on needs more blocks than any column before, which have to be made once.
fn warm(mut run: impl FnMut() -> f64) -> f64 {
    run();
    run()
}

/// What is measured, of one size and of many.
const KINDS: [&str; 4] = [
    "one thread",
    "two, own blocks",
    "two, in turns freed by the other",
    "two, one allocates, one frees",
];

/// One subject's figures of all samples, by column.
struct Row {
    name: &'static str,
    columns: [Vec<f64>; 2 * KINDS.len()],
}

struct Runs {
    rows: Vec<Row>,
    /// Whether threads that neither wait nor own are measured now: apart, since they leave general allocators with much to do later.
    is_hand_over: bool,
    fixed: Sequence,
    mixed: Sequence,
}

impl Visit for Runs {
    fn visit<S: Subject>(&mut self, name: &'static str, subject: &S) {
        // What calls the system each time is slow enough to be seen in few rounds.
        let scale = if name == "map and lock" { 64 } else { 1 };
        let shortened = |sequence: &Sequence| Sequence {
            steps: sequence.steps[..sequence.steps.len() / scale].to_vec(),
            rounds: sequence.rounds.div_ceil(scale),
        };
        let (fixed, mixed) = (shortened(&self.fixed), shortened(&self.mixed));
        let figures = |sequence| {
            if self.is_hand_over {
                return vec![(3, warm(|| hand_over(subject, sequence)))];
            }
            let own = [churn(subject, sequence), 1.0 / beside(subject, sequence)];
            let all = own
                .into_iter()
                .chain([warm(|| exchange(subject, sequence))]);
            all.enumerate().collect()
        };
        let of_one: Vec<(usize, f64)> = figures(&fixed);
        let of_many = figures(&mixed).into_iter();
        let of_many = of_many.map(|(column, figure)| (column + KINDS.len(), figure));
        let sample: Vec<_> = of_one.into_iter().chain(of_many).collect();
        let at = self.rows.iter().position(|row| row.name == name);
        let at = at.unwrap_or_else(|| {
            let columns = [const { Vec::new() }; 2 * KINDS.len()];
            self.rows.push(Row { name, columns });
            self.rows.len() - 1
        });
        for (column, figure) in sample {
            self.rows[at].columns[column].push(figure);
        }
    }
}

/// Runs everything, all subjects in turn, several times; the medians, in nanoseconds a call.
pub(crate) fn table(is_full: bool) -> Table {
    let (samples, rounds) = if is_full { (7, 60) } else { (1, 1) };
    let mut runs = Runs {
        rows: Vec::new(),
        is_hand_over: false,
        fixed: Sequence::of_one_size(16 << 10, rounds),
        mixed: Sequence::mixed(rounds),
    };
    for is_hand_over in [false, true] {
        runs.is_hand_over = is_hand_over;
        (0..samples).for_each(|_| visit_all(&mut runs));
    }
    let mut table = Table::new();
    let sizes = ["16 KiB", "4 KiB..4 MiB"];
    let columns = sizes.map(|size| KINDS.map(|kind| format!("{size}: {kind}")));
    let corner = "ns a call (both threads together)".to_owned();
    table.set_header(std::iter::once(corner).chain(columns.concat()));
    for row in &runs.rows {
        let figures = row
            .columns
            .iter()
            .map(|column| format!("{:.1}", median(column)));
        table.add_row(std::iter::once(row.name.to_owned()).chain(figures));
    }
    table
}
