//! The thread of a stream that sleeps for others: vendors call nobody back when a stream has failed, so somebody must sleep.
//!
//! # Protocol
//! Who wants to be told posts an ordinal and what to call. The thread sleeps on the stream's events, one after the other, and
//! after each calls who is due. It is started when first needed, holds the stream only while somebody waits, and ends when
//! the stream is dropped. Lock order: the inbox, then a stream's line.

use super::{Stream, Ticket, VendorStream};
use piton_sync::{Condvar, Mutex, thread};
use std::{fmt, sync::Arc};

pub(super) type Told = Box<dyn FnOnce() + Send>;

struct Post<V: VendorStream> {
    ticket: Ticket<V>,
    told: Told,
}

struct Content<V: VendorStream> {
    posts: Vec<Post<V>>,
    has_thread: bool,
    is_closed: bool,
}

struct Inbox<V: VendorStream> {
    content: Mutex<Content<V>>,
    bell: Condvar,
}

/// A handle of the thread. Dropping it lets the thread end.
pub(super) struct Listening<V: VendorStream>(Arc<Inbox<V>>);

impl<V: VendorStream> Default for Listening<V> {
    fn default() -> Self {
        let content = Content {
            posts: Vec::new(),
            has_thread: false,
            is_closed: false,
        };
        Self(Arc::new(Inbox {
            content: Mutex::new(content),
            bell: Condvar::new(),
        }))
    }
}

impl<V: VendorStream> Listening<V> {
    /// Has `told` called when the ordinal of the stream, whose listening this is, is over. False if there is no thread to be
    /// had: then nobody calls it.
    pub(super) fn post(&self, stream: &Arc<Stream<V>>, ordinal: u64, told: Told) -> bool {
        let ticket = stream.ticket(ordinal);
        let mut content = self.0.content.lock();
        if !content.has_thread {
            let inbox = Arc::clone(&self.0);
            let builder = thread::Builder::new().name(format!("piton-{}-stream", V::NAME));
            if builder.spawn(move || run(&inbox)).is_err() {
                return false;
            }
            content.has_thread = true;
        }
        content.posts.push(Post { ticket, told });
        drop(content);
        self.0.bell.notify_one();
        true
    }
}

impl<V: VendorStream> Drop for Listening<V> {
    fn drop(&mut self) {
        self.0.content.lock().is_closed = true;
        self.0.bell.notify_one();
    }
}

impl<V: VendorStream> fmt::Debug for Listening<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").finish_non_exhaustive()
    }
}

fn run<V: VendorStream>(inbox: &Inbox<V>) {
    loop {
        let mut content = inbox.content.lock();
        while content.posts.is_empty() {
            if content.is_closed {
                return;
            }
            inbox.bell.wait(&mut content);
        }
        let due: Vec<_> = content
            .posts
            .extract_if(.., |post| post.ticket.is_over())
            .collect();
        let next = content.posts.iter().map(|post| post.ticket.clone());
        let next = next.min_by_key(Ticket::ordinal);
        drop(content);
        let is_nothing_due = due.is_empty();
        for post in due {
            (post.told)();
        }
        if let Some(next) = next.filter(|_| is_nothing_due) {
            next.stream().sleep();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::stream::modelled::Vendor;
    use piton_sync::model;

    /// Counts, and rings.
    type Bell = Arc<(Mutex<u32>, Condvar)>;

    fn listen(stream: &Arc<Stream<Vendor>>, bell: &Bell) {
        let bell = Arc::clone(bell);
        let told = move || {
            *bell.0.lock() += 1;
            bell.1.notify_one();
        };
        assert!(stream.listen(1, Box::new(told)).is_ok());
    }

    #[test]
    fn who_asked_is_told_and_the_thread_ends_with_the_stream() {
        model(|| {
            let stream = Vendor::stream(1, false);
            let _ticket = Vendor::hand(&stream);
            let bell: Bell = Arc::default();
            let other = {
                let (stream, bell) = (Arc::clone(&stream), Arc::clone(&bell));
                thread::spawn(move || listen(&stream, &bell))
            };
            listen(&stream, &bell);
            let mut told = bell.0.lock();
            while *told < 2 {
                bell.1.wait(&mut told);
            }
            drop(told);
            other.join().unwrap();
        });
    }
}
