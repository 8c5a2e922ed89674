//! Threads that submit, wait, ask to be woken and drop queues at once, on whatever driver there is. A lost wake hangs here.

#![expect(unsafe_code, reason = "submits commands that fill memory")]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "child/process.rs"]
mod child;

use child::in_child;
use piton_driver::{
    Admission, Device, DeviceId, DevicePtr, Driver, FillPattern, HostFunction, Position, Queue,
    QueueOptions, Semaphore, SignalledBy, WaitOutcome,
};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    thread,
};
use std::{
    panic::Location,
    sync::Arc,
    task::{Wake, Waker},
    time::Instant,
};

const THREADS: u64 = 3;
const QUEUES: u64 = 5;
const COMMANDS: u64 = 400;

#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Numbers that only look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What all threads share.
struct Ground {
    device: Arc<dyn Device>,
    queues: Vec<Mutex<Arc<dyn Queue>>>,
    /// Queues that were dropped from the list, each with the position it must come to.
    dropped: Mutex<Vec<(Arc<dyn Queue>, Position)>>,
    semaphore: Arc<dyn Semaphore>,
    /// 64 bytes for each queue; commands of other queues never touch them.
    memory: DevicePtr,
    called: AtomicU64,
    functions: Arc<AtomicU64>,
    woken: Arc<Count>,
    notified: AtomicU64,
}

impl Ground {
    fn queue(&self) -> Arc<dyn Queue> {
        self.device
            .queues()
            .create(&QueueOptions::default())
            .unwrap()
    }

    fn pick(&self, numbers: &mut Numbers) -> Arc<dyn Queue> {
        let index = usize::try_from(numbers.below(QUEUES)).unwrap();
        Arc::clone(&self.queues[index].lock())
    }

    /// A position of a queue that was given out.
    fn past(queue: &Arc<dyn Queue>, numbers: &mut Numbers) -> Position {
        Position::new(numbers.below(queue.submitted().get() + 1))
    }

    /// One command, or a call that asks about some.
    fn step(&self, numbers: &mut Numbers) {
        let (queue, other) = (self.pick(numbers), self.pick(numbers));
        let past = Self::past(&other, numbers);
        let admission = match numbers.below(12) {
            0..=3 => {
                let start = self.memory;
                // SAFETY: 64 bytes that nobody reads; who writes last is of no interest.
                unsafe { queue.fill(start, FillPattern::Word(1), 64) }
            }
            4..=5 => queue.wait_for(&*other, past),
            6 => queue.order_after(&*other, past),
            7 => {
                let value = numbers.below(COMMANDS + 1);
                queue.wait_semaphore(&self.semaphore, value)
            }
            8 => self.call(&queue),
            9 => {
                let waker = Waker::from(Arc::clone(&self.woken));
                other.notify(past, &waker).unwrap();
                self.notified.fetch_add(1, Ordering::AcqRel);
                return;
            }
            10 => {
                let _outcome = other.wait(past, Some(Instant::now())).unwrap();
                return;
            }
            _ => {
                self.replace(numbers);
                return;
            }
        };
        if admission.unwrap() == Admission::Full {
            let next = Position::new(queue.completed().get() + 1);
            let _reached = queue.wait(next.min(queue.submitted()), None).unwrap();
        }
    }

    fn call(&self, queue: &Arc<dyn Queue>) -> Result<Admission, piton_driver::DriverError> {
        let functions = Arc::clone(&self.functions);
        let mut function: Option<HostFunction> = Some(Box::new(move || {
            functions.fetch_add(1, Ordering::AcqRel);
        }));
        let host = self.device.host_functions().unwrap();
        let admission = host.call(&**queue, &mut function, Location::caller())?;
        if let Admission::Accepted(_) = admission {
            self.called.fetch_add(1, Ordering::AcqRel);
        }
        Ok(admission)
    }

    /// Puts a fresh queue in the place of one.
    fn replace(&self, numbers: &mut Numbers) {
        let index = usize::try_from(numbers.below(QUEUES)).unwrap();
        let old = std::mem::replace(&mut *self.queues[index].lock(), self.queue());
        // Half of them nobody will ever ask about again.
        if numbers.below(2) == 0 {
            let submitted = old.submitted();
            self.dropped.lock().push((old, submitted));
        }
    }
}

fn ground(driver: &dyn Driver) -> Arc<Ground> {
    let device = driver.open(DeviceId(0)).unwrap();
    let queue = || device.queues().create(&QueueOptions::default()).unwrap();
    let semaphores = device.semaphores().unwrap();
    Arc::new(Ground {
        queues: (0..QUEUES).map(|_| Mutex::new(queue())).collect(),
        dropped: Mutex::default(),
        semaphore: semaphores.create(0, SignalledBy::Anyone).unwrap(),
        memory: device.memory().allocate(64).unwrap(),
        called: AtomicU64::new(0),
        functions: Arc::default(),
        woken: Arc::default(),
        notified: AtomicU64::new(0),
        device: Arc::clone(&device),
    })
}

#[test]
fn whatever_threads_do_at_once_everything_ends_and_nobody_is_left_asleep() {
    in_child(
        "whatever_threads_do_at_once_everything_ends_and_nobody_is_left_asleep",
        |driver| {
            for round in 0..10 {
                play(&ground(&driver), round);
            }
        },
    );
}

fn play(ground: &Arc<Ground>, round: u64) {
    let threads = (0..THREADS).map(|thread| {
        let ground = Arc::clone(ground);
        thread::spawn(move || {
            let mut numbers = Numbers(round * THREADS + thread);
            (0..COMMANDS).for_each(|_| ground.step(&mut numbers));
        })
    });
    let threads: Vec<_> = threads.collect();
    for value in 1..=COMMANDS {
        ground.semaphore.signal(value).unwrap();
        thread::yield_now();
    }
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let current = ground.queues.iter().map(|queue| {
        let queue = Arc::clone(&queue.lock());
        let submitted = queue.submitted();
        (queue, submitted)
    });
    let left: Vec<_> = current.chain(ground.dropped.lock().drain(..)).collect();
    for (queue, submitted) in &left {
        let outcome = queue.wait(*submitted, None).unwrap();
        assert_eq!(outcome, WaitOutcome::Reached);
        assert_eq!(queue.failure(), None);
    }
    let all = |count: u64, wanted: &AtomicU64| count >= wanted.load(Ordering::Acquire);
    // What dropped queues have left runs by itself, and wakers are called right after.
    while !all(ground.functions.load(Ordering::Acquire), &ground.called)
        || !all(ground.woken.0.load(Ordering::Acquire), &ground.notified)
    {
        thread::yield_now();
    }
}
