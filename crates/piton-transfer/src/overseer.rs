//! The thread that ends copies that hang.
//!
//! Nothing tells when nothing happens, so somebody has to look. Where a configuration asks for it, this thread does: while
//! copies are under way it looks every so often, and sleeps without end while there are none.
//!
//! # Protocol
//! | what | written by | read by |
//! |---|---|---|
//! | `has_work` | whoever launched a round, after it can be found among the active ones; the thread, before it looks at them | the thread |
//! | `is_over` | the drop of the runtime's transfers | the thread |
//!
//! Both are behind one lock. The thread takes `has_work` back *before* it looks, and says it again if it still finds
//! anything: a round that is noted while it looks is either found or says so itself. The thread holds the engine only while it
//! looks.

use crate::engine::Engine;
use piton_stream::Streams;
use piton_sync::{Condvar, Mutex, MutexGuard, thread};
use std::{
    mem::ManuallyDrop,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

#[derive(Debug, Default)]
struct Asked {
    has_work: bool,
    is_over: bool,
}

/// What the thread is asked for.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    asked: Mutex<Asked>,
    changed: Condvar,
}

impl Bell {
    /// Something is under way.
    pub(crate) fn ring(&self) {
        let mut asked = self.asked.lock();
        if !std::mem::replace(&mut asked.has_work, true) {
            self.changed.notify_all();
        }
    }

    fn end(&self) {
        self.asked.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to look at, and then `period` more; says whether to look, or to end.
    fn rang(&self, period: Duration) -> bool {
        let mut asked = self.asked.lock();
        while !asked.has_work && !asked.is_over {
            self.changed.wait(&mut asked);
        }
        self.pause(&mut asked, period);
        asked.has_work = false;
        !asked.is_over
    }

    /// Lets so much time pass, or as much as there is until the end.
    fn pause(&self, asked: &mut MutexGuard<'_, Asked>, period: Duration) {
        let look = Instant::now().checked_add(period);
        while !asked.is_over && !period.is_zero() {
            match look {
                Some(look) if self.changed.wait_until(asked, look).timed_out() => return,
                Some(_) => {}
                None => self.changed.wait(asked),
            }
        }
    }

    /// Has `look` look whenever something is under way, until the end or until it says that there is nobody to look for.
    /// It says how much is still under way.
    fn oversee(&self, period: Duration, mut look: impl FnMut() -> Option<usize>) {
        while self.rang(period) {
            match look() {
                None => return,
                Some(0) => {}
                Some(_) => self.ring(),
            }
        }
    }
}

/// The thread, as long as somebody has this. Dropping it ends the thread and waits for that.
#[derive(Debug)]
pub(crate) struct Overseer {
    bell: Arc<Bell>,
    streams: Streams,
    thread: Option<thread::JoinHandle<()>>,
}

impl Overseer {
    /// Looks every `period` while copies are under way. `None` where the system starts no thread.
    pub(crate) fn start(engine: &Arc<Engine>, period: Duration) -> Option<Self> {
        let bell = Arc::clone(&engine.bell);
        let (asked, weak) = (Arc::clone(&bell), Arc::downgrade(engine));
        let builder = thread::Builder::new().name("piton-copies".to_owned());
        let thread = builder
            .spawn(move || asked.oversee(period, || look(&weak)))
            .ok()?;
        Some(Self {
            bell,
            streams: engine.streams.clone(),
            thread: Some(thread),
        })
    }
}

/// Ends what hangs; says how many copies are under way, if anybody can still make one.
fn look(engine: &Weak<Engine>) -> Option<usize> {
    let engine = engine.upgrade()?;
    engine.check(Instant::now());
    Some(engine.active.count())
}

impl Drop for Overseer {
    fn drop(&mut self) {
        if self.streams.timeline().is_forked() {
            // There is no such thread here to be told, waited for or detached.
            let _left = ManuallyDrop::new(self.thread.take());
            return;
        }
        self.bell.end();
        let Some(thread) = self.thread.take() else {
            return;
        };
        if thread.thread().id() != thread::current().id() {
            drop(thread.join());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_heard_once_and_an_end_whatever_rings() {
        let bell = Bell::default();
        bell.ring();
        bell.ring();
        assert!(bell.rang(Duration::ZERO));
        assert!(!bell.asked.lock().has_work);
        bell.ring();
        bell.end();
        bell.ring();
        // Ends at once, however long it would have waited.
        assert!(!bell.rang(Duration::MAX));
        assert!(!bell.rang(Duration::MAX));
    }

    #[test]
    fn a_ring_from_another_thread_ends_the_wait() {
        let bell = Arc::new(Bell::default());
        let theirs = Arc::clone(&bell);
        let ringing = thread::spawn(move || theirs.ring());
        assert!(bell.rang(Duration::ZERO));
        ringing.join().unwrap();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! No copy goes unseen, and an end is an end, whatever the thread is at.

    use super::*;
    use piton_sync::model;

    /// The model has no clock, so no time may pass.
    const NOW: Duration = Duration::ZERO;

    #[test]
    fn a_copy_that_begins_while_the_thread_looks_is_seen() {
        model(|| {
            let bell = Arc::new(Bell::default());
            let active = Arc::new(Mutex::new(0_usize));
            let (ringing, begun) = (Arc::clone(&bell), Arc::clone(&active));
            let copies = thread::spawn(move || {
                for _ in 0..2 {
                    *begun.lock() += 1;
                    ringing.ring();
                }
            });
            // What is seen has ended. The model ends in a deadlock if the thread sleeps past one of the two.
            let mut seen = 0;
            bell.oversee(NOW, || {
                seen += std::mem::take(&mut *active.lock());
                (seen < 2).then_some(0)
            });
            copies.join().unwrap();
        });
    }

    #[test]
    fn the_thread_ends_when_it_is_told_to_however_much_is_under_way() {
        model(|| {
            let bell = Arc::new(Bell::default());
            let theirs = Arc::clone(&bell);
            let overseer = thread::spawn(move || theirs.oversee(NOW, || Some(0)));
            bell.ring();
            bell.end();
            overseer.join().unwrap();
        });
    }
}
