//! What must hold of everything that ran, when all of it has ended.

use crate::{
    books::{Book, Place, Task},
    contents::Contents,
    run::Run,
    world::{Entry, TRAP, WORDS},
};
use piton_driver::{ErrorKind, ExecutionRecord, Fault, OnFailure, QueueId};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

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
    /// The device that was lost.
    lost: Option<usize>,
    log: &'a [Entry],
    /// What was recorded as run, by place.
    ran: BTreeSet<Place>,
    spans: BTreeMap<Place, Span>,
    places: HashMap<u32, Place>,
    /// What each kernel found in its block.
    found: HashMap<u32, [u32; WORDS as usize]>,
}

/// Asserts all of it. `left` is what memory holds now, if all devices are there.
pub(crate) fn check(run: &Run<'_>, trace: &[ExecutionRecord], left: Option<&Contents>) {
    let log = run.world.log.lock().clone();
    let mut verdict = Verdict {
        books: &run.books,
        lost: run.world.is_lost.get().then(|| run.world.devices.len() - 1),
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
    if let Some(left) = left {
        verdict.contents(run, left);
    }
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
            let is_equal = has_begun == self.ran.contains(place);
            assert!(is_equal || self.lost.is_some(), "{place:?}");
        }
    }

    /// Each command has ended as done, failed, skipped or aborted, and for a reason.
    fn endings(&self, queue: usize) {
        let book = &self.books[queue];
        assert_eq!(book.queue.completed().get(), book.submitted());
        for (stretch, failure) in book.stretches() {
            let failed_at = failure.map_or(u64::MAX, |failure| failure.position.get());
            self.endings_of(queue, stretch.clone(), failed_at);
            self.left_out(queue, stretch.clone(), failed_at);
            if let Some(failure) = failure {
                assert!(stretch.contains(&failed_at), "{failed_at} of {stretch:?}");
                let task = self.task((queue, failed_at));
                self.is_reason(book, failed_at, task, failure.error.kind);
            }
        }
    }

    /// Those of one stretch, in which this position was the first that failed.
    fn endings_of(&self, queue: usize, stretch: Range<u64>, failed_at: u64) {
        let book = &self.books[queue];
        for position in stretch {
            let task = &self.task((queue, position));
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
                let is_wait = matches!(
                    task,
                    Task::WaitQueue(_) | Task::WaitSome | Task::WaitSemaphore(..)
                );
                assert!(has_run || is_wait || position <= book.aborted || self.lost.is_some());
            }
        }
    }

    fn must_fail(&self, task: Task) -> bool {
        match task {
            Task::WaitQueue((queue, position)) => self.books[queue].is_spoilt(position),
            other => other.fails(),
        }
    }

    /// A wait that was left out means what a wait that was made means: dependents of a failure never run. A stream that
    /// forgot its failure forgot what it waited for as well: its first command since then, which does nothing, depends on
    /// none of that.
    fn left_out(&self, own: usize, stretch: Range<u64>, failed_at: u64) {
        let after = self.books[own].after.iter();
        for (behind, (queue, position)) in after.filter(|(_, (queue, _))| *queue != own) {
            let is_spoilt = self.books[*queue].is_spoilt(*position);
            let is_forgotten = *behind == stretch.start && stretch.start > 1;
            let has_dependents = stretch.contains(behind) && !is_forgotten;
            assert!(
                !is_spoilt || !has_dependents || failed_at <= *behind,
                "{behind} ran after {position} of {queue} had failed",
            );
        }
    }

    fn is_reason(&self, book: &Book, position: u64, task: Task, kind: ErrorKind) {
        let is_reason = match kind {
            ErrorKind::DeviceLost => {
                let is_its = Some(book.device) == self.lost;
                self.lost.is_some() && (is_its || matches!(task, Task::CopyPeer { .. }))
            }
            ErrorKind::Aborted => position <= book.aborted,
            ErrorKind::KernelFault(Fault::Trapped { code: TRAP }) => {
                matches!(task, Task::Kernel { traps: true, .. })
            }
            ErrorKind::HostFunctionPanicked => matches!(task, Task::Host { panics: true, .. }),
            ErrorKind::DependencyFailed { .. } => {
                matches!(task, Task::WaitSome)
                    || matches!(task, Task::WaitQueue(_)) && self.must_fail(task)
            }
            ErrorKind::DeadlockCycle { .. } | ErrorKind::NeverSignalled { .. } => {
                matches!(
                    task,
                    Task::WaitQueue(_) | Task::WaitSome | Task::WaitSemaphore(3.., _)
                )
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
            // A wait that failed in a lane that goes on holds nothing back, nor does one whose failure was forgotten.
            if book.failures().is_empty() {
                self.signals(book, 1..*position, span.start);
            } else if book.on_failure == OnFailure::Stop {
                let mut stretches = book.stretches().into_iter();
                let own = stretches.find(|(stretch, _)| stretch.contains(position));
                self.signals(book, own.unwrap().0.start..*position, span.start);
            }
        }
    }

    /// Every wait for a number at these positions has been signalled by somebody before the task began.
    fn signals(&self, book: &Book, before: Range<u64>, start: usize) {
        let before = [before.start, before.end].map(|at| usize::try_from(at).unwrap() - 1);
        for task in &book.tasks[before[0]..before[1]] {
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
