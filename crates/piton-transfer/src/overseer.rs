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
use piton_sync::{Condvar, Mutex, thread};
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
        let look = Instant::now().checked_add(period);
        while !asked.is_over {
            match look {
                Some(look) if self.changed.wait_until(&mut asked, look).timed_out() => break,
                Some(_) => {}
                None => self.changed.wait(&mut asked),
            }
        }
        asked.has_work = false;
        !asked.is_over
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
        let thread = builder.spawn(move || oversee(&asked, &weak, period)).ok()?;
        Some(Self {
            bell,
            streams: engine.streams.clone(),
            thread: Some(thread),
        })
    }
}

fn oversee(bell: &Bell, engine: &Weak<Engine>, period: Duration) {
    while bell.rang(period) {
        let Some(engine) = engine.upgrade() else {
            return;
        };
        engine.check(Instant::now());
        if engine.active.count() > 0 {
            bell.ring();
        }
    }
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

#[cfg(test)]
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
