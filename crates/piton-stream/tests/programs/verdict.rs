//! What must hold of everything that ran, when all of it has ended.

use crate::{
    books::{Book, Place, Task},
    contents::Contents,
    run::Run,
    world::{Entry, TRAP, WORDS},
};
use piton_driver::{ErrorKind, ExecutionRecord, Fault, OnFailure, QueueId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How often a band that has something to run is passed over at most.
const AGEING: usize = 16;

/// Where in the log a task began and ended.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
}

struct Verdict<'a> {
    books: &'a [Book],
    log: &'a [Entry],
    /// What was recorded as run, by place.
    ran: BTreeSet<Place>,
    spans: BTreeMap<Place, Span>,
    places: HashMap<u32, Place>,
    /// What each kernel found in its block.
    found: HashMap<u32, [u32; WORDS as usize]>,
}

/// Asserts all of it. `left` is what memory holds now.
pub(crate) fn check(run: &Run<'_>, trace: &[ExecutionRecord], left: &Contents) {
    let log = run.world.log.lock().clone();
    let mut verdict = Verdict {
        books: &run.books,
        log: &log,
        ran: BTreeSet::new(),
        spans: BTreeMap::new(),
        places: HashMap::new(),
        found: HashMap::new(),
    };
    verdict.read_trace(trace);
    verdict.read_log();
    for queue in 0..run.books.len() {
        verdict.endings(queue);
        verdict.orders(queue);
    }
    verdict.counters();
    verdict.users();
    verdict.no_overlaps();
    verdict.contents(run, left);
}

/// Of one queue of the lowest band, which is ready from before the first record to its last command: it had its turn
/// however much the others had to do. Its turns are told by the records between them.
pub(crate) fn is_served(lowest: QueueId, trace: &[ExecutionRecord]) {
    let is_done = |at: usize| trace[at..].iter().all(|record| record.queue != lowest);
    let mut turns = 0;
    for (at, pair) in trace.windows(2).enumerate() {
        let is_over = pair[0].queue != pair[1].queue;
        if pair[0].queue == lowest {
            turns = 0;
        } else if is_over && !is_done(at) {
            turns += 1;
            assert!(
                turns <= AGEING,
                "the lowest band waits through {turns} turns"
            );
        }
    }
}

impl Verdict<'_> {
    /// Each command is recorded at most once, in the order of its queue.
    fn read_trace(&mut self, trace: &[ExecutionRecord]) {
        let ids = self.books.iter().map(|book| book.queue.id());
        let queues: HashMap<QueueId, usize> = ids.zip(0..).collect();
        let mut last = vec![0; self.books.len()];
        for record in trace {
            let (queue, position) = (queues[&record.queue], record.position.get());
            assert!(last[queue] < position, "lane order is the order of numbers");
            assert!(record.start_ns <= record.end_ns);
            last[queue] = position;
            self.ran.insert((queue, position));
        }
    }

    /// Each kernel and host function ran once, and ended.
    fn read_log(&mut self) {
        for (queue, book) in self.books.iter().enumerate() {
            for (position, task) in (1..).zip(&book.tasks) {
                let tag = task.tag();
                self.places.extend(tag.map(|tag| (tag, (queue, position))));
            }
        }
        let mut starts = HashMap::new();
        for (at, entry) in self.log.iter().enumerate() {
            match *entry {
                Entry::Start {
                    tag,
                    is_whole,
                    found,
                } => {
                    assert!(is_whole, "arguments changed under {tag}");
                    self.found.insert(tag, found);
                    assert_eq!(starts.insert(tag, at), None, "it ran twice");
                }
                Entry::End { tag } => {
                    let span = Span {
                        start: starts[&tag],
                        end: at,
                    };
                    self.spans.insert(self.places[&tag], span);
                }
                _ => {}
            }
        }
        assert_eq!(starts.len(), self.spans.len(), "what began has ended");
        for place in self.places.values() {
            let has_begun = self.spans.contains_key(place);
            assert_eq!(has_begun, self.ran.contains(place), "{place:?}");
        }
    }

    /// Each command has ended as done, failed, skipped or aborted, and for a reason.
    fn endings(&self, queue: usize) {
        let book = &self.books[queue];
        assert_eq!(book.queue.completed().get(), book.submitted());
        if !book.cleared.is_empty() {
            return;
        }
        let failure = book.queue.failure();
        let failed_at = failure.map_or(u64::MAX, |failure| failure.position.get());
        for (position, task) in (1..).zip(&book.tasks) {
            let has_run = self.ran.contains(&(queue, position));
            if position < failed_at {
                assert!(has_run, "{task:?} at {position} was skipped for nothing");
                assert!(
                    !self.must_fail(*task),
                    "{task:?} at {position} has not failed"
                );
            } else if position > failed_at && book.on_failure == OnFailure::Stop {
                assert!(!has_run, "{task:?} at {position} ran after a failure");
            } else if position > failed_at {
                let is_wait = matches!(task, Task::WaitQueue(_) | Task::WaitSemaphore(..));
                assert!(has_run || is_wait || position <= book.aborted);
            }
        }
        self.left_out(book, failed_at);
        if let Some(failure) = failure {
            let task = book.tasks[usize::try_from(failed_at).unwrap() - 1];
            self.is_reason(book, failed_at, task, failure.error.kind);
        }
    }

    fn must_fail(&self, task: Task) -> bool {
        match task {
            Task::WaitQueue((queue, position)) => self.books[queue].is_spoilt(position),
            other => other.fails(),
        }
    }

    /// A wait that was left out means what a wait that was made means: dependents of a failure never run.
    fn left_out(&self, book: &Book, failed_at: u64) {
        if self.books.iter().any(|book| !book.cleared.is_empty()) {
            return;
        }
        for (behind, (queue, position)) in &book.after {
            let is_spoilt = self.books[*queue].is_spoilt(*position);
            let has_dependents = *behind <= book.submitted();
            assert!(
                !is_spoilt || !has_dependents || failed_at <= *behind,
                "{behind} ran after {position} of {queue} had failed",
            );
        }
    }

    fn is_reason(&self, book: &Book, position: u64, task: Task, kind: ErrorKind) {
        let is_reason = match kind {
            ErrorKind::Aborted => position <= book.aborted,
            ErrorKind::KernelFault(Fault::Trapped { code: TRAP }) => {
                matches!(task, Task::Kernel { traps: true, .. })
            }
            ErrorKind::HostFunctionPanicked => matches!(task, Task::Host { panics: true, .. }),
            ErrorKind::DependencyFailed { .. } => {
                matches!(task, Task::WaitQueue(_)) && self.must_fail(task)
            }
            ErrorKind::DeadlockCycle { .. } | ErrorKind::NeverSignalled { .. } => {
                matches!(task, Task::WaitQueue(_) | Task::WaitSemaphore(3.., _))
            }
            _ => false,
        };
        assert!(is_reason, "{task:?} at {position} failed with {kind:?}");
    }

    /// When the last of a queue's tasks up to a position ended, in the log.
    fn end_of(&self, (queue, position): Place) -> Option<usize> {
        let spans = self.spans.range((queue, 0)..=(queue, position));
        spans.map(|(_, span)| span.end).max()
    }

    /// What ran came after all that it was to come after.
    fn orders(&self, queue: usize) {
        let book = &self.books[queue];
        for ((_, position), span) in self.spans.range((queue, 0)..(queue + 1, 0)) {
            let place = (queue, *position);
            let is_before = |other: Place| self.end_of(other).is_none_or(|end| end < span.start);
            assert!(is_before((queue, position - 1)), "{place:?} overtook");
            for (behind, other) in &book.after {
                let is_behind = behind <= position;
                assert!(
                    !is_behind || is_before(*other),
                    "{place:?} came before {other:?}"
                );
            }
            // A wait that failed in a lane that goes on holds nothing back.
            if book.failures().is_empty() {
                self.signals(book, *position, span.start);
            }
        }
    }

    /// Every wait for a number before this place has been signalled by somebody before the task began.
    fn signals(&self, book: &Book, position: u64, start: usize) {
        for task in &book.tasks[..usize::try_from(position).unwrap() - 1] {
            let is_met = match *task {
                Task::WaitSemaphore(semaphore, value) => {
                    value == 0
                        || self.host_signalled(semaphore, value, start)
                        || self.is_given(start, |other| match other {
                            Task::SignalSemaphore(given, to) => given == semaphore && to >= value,
                            _ => false,
                        })
                }
                Task::WaitMemory(queue, value) => {
                    let writes =
                        |other| matches!(other, Task::WriteMemory { value: to, .. } if to >= value);
                    value == 0 || self.is_given_by(queue, start, &writes)
                }
                _ => true,
            };
            assert!(is_met, "{task:?} ended before its time");
        }
    }

    fn host_signalled(&self, semaphore: usize, least: u64, before: usize) -> bool {
        self.log[..before].iter().any(|entry| match *entry {
            Entry::HostSignal {
                semaphore: given,
                value,
            } => given == semaphore && value >= least,
            _ => false,
        })
    }

    fn is_given(&self, before: usize, gives: impl Fn(Task) -> bool) -> bool {
        (0..self.books.len()).any(|queue| self.is_given_by(queue, before, &gives))
    }

    /// Whether some command of the queue gave it, all that was before it having ended in time.
    fn is_given_by(&self, queue: usize, before: usize, gives: &impl Fn(Task) -> bool) -> bool {
        (0..).zip(&self.books[queue].tasks).any(|(earlier, task)| {
            let end = self.end_of((queue, earlier));
            gives(*task)
                && self.ran.contains(&(queue, earlier + 1))
                && end.is_none_or(|end| end < before)
        })
    }

    /// When a counter was seen at n, everything up to n had ended.
    fn counters(&self) {
        for (at, entry) in self.log.iter().enumerate() {
            if let Entry::Seen { queue, completed } = *entry {
                let end = self.end_of((queue, completed));
                assert!(end.is_none_or(|end| end < at), "counted before it ended");
            }
        }
    }

    fn task(&self, (queue, position): Place) -> Task {
        self.books[queue].tasks[usize::try_from(position).unwrap() - 1]
    }

    /// No block is used by two at once: its users come one after the other.
    fn users(&self) {
        let mut users: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for entry in self.log {
            let Entry::Start { tag, .. } = *entry else {
                continue;
            };
            let Task::Kernel { block, user, .. } = self.task(self.places[&tag]) else {
                continue;
            };
            let former = users.entry(block).or_default();
            if former.last() != Some(&user) {
                let is_back = former.contains(&user);
                assert!(!is_back, "block {block} has two users at once");
                former.push(user);
            }
        }
    }

    /// Every use of memory found what those before it in the program had left, and so does whoever looks now.
    fn contents(&self, run: &Run<'_>, left: &Contents) {
        let mut contents = run.world.contents_before();
        for place in run.issued.iter().filter(|place| self.ran.contains(place)) {
            let task = self.task(*place);
            if let Task::Kernel { tag, block, .. } = task {
                let found: Vec<u8> = self.found[&tag]
                    .iter()
                    .flat_map(|word| word.to_ne_bytes())
                    .collect();
                assert_eq!(found, contents.block(block), "block {block} under {tag}");
            }
            contents.apply(task);
        }
        contents.check(left);
    }

    /// Of two kernels on one block one has ended before the other begins.
    fn no_overlaps(&self) {
        let mut open: BTreeMap<usize, u32> = BTreeMap::new();
        for entry in self.log {
            let (Entry::Start { tag, .. } | Entry::End { tag }) = *entry else {
                continue;
            };
            if let Task::Kernel { block, .. } = self.task(self.places[&tag]) {
                match entry {
                    Entry::Start { .. } => assert_eq!(open.insert(block, tag), None, "overlap"),
                    _ => drop(open.remove(&block)),
                }
            }
        }
    }
}
