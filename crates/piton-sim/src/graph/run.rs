//! One replay under way: which nodes are ready, which levels are open, when what ended.
//!
//! # Invariants
//! 1. `unmet[n]` of a node of an open level is the number of nodes it comes after that have not ended. A node is in
//!    its level's part of `ready` from when that is 0; nodes that were taken stay there, in front, until the level ends.
//! 2. Only the innermost open level's nodes are taken. The node a level belongs to ends when the level has run for
//!    the last time. So the parts of `ready` lie one behind the other, the innermost level's last.
//! 3. `ready_at[n]` is the latest end, in virtual time, of what it comes after; the start of its level at least.
//!
//! # Memory
//! The numbers of a replay that has ended lie with the plan until its next, which then allocates nothing: see [`Spare`].
//! A queue has room for a replay from its first on: see [`ReplayPlace`].

use super::plan::{Plan, Work};
use piton_sync::Mutex;
use std::sync::Arc;

/// A level that is open.
#[derive(Debug)]
struct Open {
    level: u32,
    /// The node whose body it is; none for the graph itself.
    owner: Option<u32>,
    /// Where its part of `ready` begins.
    base: usize,
    /// Where those nodes begin in it that were not taken.
    first: usize,
    /// Nodes that have not ended.
    left: usize,
    /// When it was entered, in virtual time.
    start: u64,
    /// The latest end of a node.
    end: u64,
}

/// The numbers of a replay.
#[derive(Debug, Default)]
struct Books {
    unmet: Vec<u32>,
    ready_at: Vec<u64>,
    ready: Vec<u32>,
    open: Vec<Open>,
}

/// The numbers of a plan's last replay, for the next. One replay's are kept: a second at the same time makes its own.
#[derive(Debug)]
pub(crate) struct Spare(Mutex<Option<Books>>);

impl Default for Spare {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct GraphRun {
    pub(crate) plan: Arc<Plan>,
    books: Books,
    /// A host function that runs elsewhere, with its node.
    pub(crate) host: Option<(u32, Arc<super::NodeReturn>)>,
    /// A node that was taken and is to have its turn at a copy engine first.
    pub(crate) copy: Option<u32>,
    /// When the replay started.
    pub(crate) start: u64,
}

/// Where a queue keeps the replay that its front is in the middle of. The room is made for the queue's first replay and
/// stays: most queues never have one, and who has one has more.
#[derive(Debug, Default)]
pub(crate) struct ReplayPlace(Mutex<Option<Box<Option<GraphRun>>>>);

impl ReplayPlace {
    /// Takes the replay out, if there is one.
    pub(crate) fn take(&self) -> Option<GraphRun> {
        self.0.lock().as_mut()?.take()
    }

    /// Keeps a replay. There is none.
    pub(crate) fn put(&self, run: GraphRun) {
        let mut room = self.0.lock();
        **room.get_or_insert_default() = Some(run);
    }

    /// What `look` finds at the replay, if there is one.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&GraphRun) -> Option<R>) -> Option<R> {
        look((**self.0.lock().as_ref()?).as_ref()?)
    }
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This node can start now.
    Node(u32),
    /// A body has run: its node is to be looked at again.
    BodyEnded {
        /// The node.
        owner: u32,
        /// When the body ended, in virtual time.
        end: u64,
    },
    /// All nodes have ended.
    Ended {
        /// When, in virtual time.
        end: u64,
    },
}

impl GraphRun {
    /// A replay that starts at `start`.
    pub(crate) fn new(plan: Arc<Plan>, start: u64) -> Self {
        let count = plan.works.len();
        let mut books = plan.spare.0.lock().take().unwrap_or_default();
        // What is read of a level's nodes is written when the level is entered.
        books.unmet.resize(count, 0);
        books.ready_at.resize(count, 0);
        let mut run = Self {
            plan,
            books,
            host: None,
            copy: None,
            start,
        };
        run.enter(0, None, start);
        run
    }

    pub(crate) fn work(&self, node: u32) -> &Work {
        &self.plan.works[node as usize]
    }

    /// When a node could start, in virtual time.
    pub(crate) fn ready_at(&self, node: u32) -> u64 {
        self.books.ready_at[node as usize]
    }

    /// Opens the body of `owner`.
    pub(crate) fn enter_body(&mut self, owner: u32, start: u64) {
        let level = self.plan.shapes[owner as usize].level;
        self.enter(level.unwrap_or(0), Some(owner), start);
    }

    fn enter(&mut self, level: u32, owner: Option<u32>, start: u64) {
        let books = &mut self.books;
        let first = books.ready.len();
        let nodes = &self.plan.levels[level as usize];
        for &node in nodes {
            let unmet = self.plan.shapes[node as usize].unmet;
            books.unmet[node as usize] = unmet;
            books.ready_at[node as usize] = start;
            if unmet == 0 {
                books.ready.push(node);
            }
        }
        books.open.push(Open {
            level,
            owner,
            base: first,
            first,
            left: nodes.len(),
            start,
            end: start,
        });
    }

    /// Takes what is next; `choose` picks one of several ready nodes by index.
    pub(crate) fn next(&mut self, choose: impl FnOnce(&[u32], &[u64]) -> usize) -> Next {
        let books = &mut self.books;
        let Some(open) = books.open.last_mut() else {
            return Next::Ended { end: self.start };
        };
        let ready = &mut books.ready[open.first..];
        if ready.is_empty() {
            debug_assert_eq!(
                open.left, 0,
                "level {} has nodes left and none is ready",
                open.level
            );
            let (owner, end) = (open.owner, open.end.max(open.start));
            books.ready.truncate(open.base);
            books.open.pop();
            return match owner {
                Some(owner) => Next::BodyEnded { owner, end },
                None => Next::Ended { end },
            };
        }
        let chosen = choose(ready, &books.ready_at).min(ready.len() - 1);
        // To the front of those that are left, which keep their order: nothing moves where the first is chosen, as it
        // is in real time.
        ready[..=chosen].rotate_right(1);
        open.first += 1;
        Next::Node(ready[0])
    }

    /// A node that was taken has ended, at `end` in virtual time.
    pub(crate) fn ended(&mut self, node: u32, end: u64) {
        let books = &mut self.books;
        let Some(open) = books.open.last_mut() else {
            return;
        };
        open.left -= 1;
        open.end = open.end.max(end);
        for &successor in &self.plan.shapes[node as usize].successors {
            let at = successor as usize;
            books.unmet[at] -= 1;
            books.ready_at[at] = books.ready_at[at].max(end);
            if books.unmet[at] == 0 {
                books.ready.push(successor);
            }
        }
    }
}

impl Drop for GraphRun {
    fn drop(&mut self) {
        let mut books = std::mem::take(&mut self.books);
        books.ready.clear();
        books.open.clear();
        let former = self.plan.spare.0.lock().replace(books);
        drop(former);
    }
}
