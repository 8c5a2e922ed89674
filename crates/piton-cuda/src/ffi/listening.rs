//! The thread of a stream that sleeps for others: CUDA calls nobody back when a stream has failed, so somebody must sleep.
//!
//! # Protocol
//! Who wants to be told posts an ordinal and what to call. The thread sleeps on the stream's events, one after the other, and
//! after each calls who is due. It is started when first needed, holds the stream only while somebody waits, and ends when
//! the stream is dropped. Lock order: the inbox, then a stream's line.

use super::stream::{StreamCore, Ticket};
use piton_sync::{Condvar, Mutex, thread};
use std::{fmt, sync::Arc};

type Told = Box<dyn FnOnce() + Send>;

struct Post {
    ticket: Ticket,
    told: Told,
}

#[derive(Default)]
struct Content {
    posts: Vec<Post>,
    has_thread: bool,
    is_closed: bool,
}

#[derive(Default)]
struct Inbox {
    content: Mutex<Content>,
    bell: Condvar,
}

/// A handle of the thread. Dropping it lets the thread end.
#[derive(Default)]
pub(super) struct Listening(Arc<Inbox>);

impl Listening {
    /// Has `told` called when the ordinal of the stream, whose listening this is, is over. False if there is no thread to be
    /// had: then nobody calls it.
    pub(super) fn post(&self, stream: &Arc<StreamCore>, ordinal: u64, told: Told) -> bool {
        let ticket = stream.ticket(ordinal);
        let mut content = self.0.content.lock();
        if !content.has_thread {
            let inbox = Arc::clone(&self.0);
            let builder = thread::Builder::new().name("piton-cuda-stream".to_owned());
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

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.content.lock().is_closed = true;
        self.0.bell.notify_one();
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").finish_non_exhaustive()
    }
}

fn run(inbox: &Inbox) {
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
            next.sleep();
        }
    }
}
