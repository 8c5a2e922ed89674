//! The thread that looks at queues when the driver says that an event is over.
//!
//! A driver's callback runs on a thread of the driver's, where blocking and most calls of the driver are undefined: it posts
//! the queue and returns. The thread then does what has to be done. It ends when the driver's last object is dropped.

use crate::{
    backend::NativeDevice,
    queue::{Core, Fired, advance},
};
use piton_sync::{Condvar, Mutex, thread};
use std::sync::Arc;

#[derive(Debug)]
struct Content<D: NativeDevice> {
    posts: Vec<Arc<Core<D>>>,
    is_closed: bool,
}

#[derive(Debug)]
struct Inbox<D: NativeDevice> {
    content: Mutex<Content<D>>,
    bell: Condvar,
}

/// A handle of the thread. Dropping it lets the thread end when it has done what was posted.
#[derive(Debug)]
pub(crate) struct Completion<D: NativeDevice>(Arc<Inbox<D>>);

impl<D: NativeDevice> Completion<D> {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let content = Content {
            posts: Vec::new(),
            is_closed: false,
        };
        let inbox = Arc::new(Inbox {
            content: Mutex::new(content),
            bell: Condvar::new(),
        });
        let own = Arc::clone(&inbox);
        let builder = thread::Builder::new().name(format!("piton-{}", D::NAME));
        builder.spawn(move || run(&own))?;
        Ok(Self(inbox))
    }

    /// Has the thread look at a queue. Never blocks for long.
    pub(crate) fn post(&self, core: Arc<Core<D>>) {
        self.0.content.lock().posts.push(core);
        self.0.bell.notify_one();
    }
}

impl<D: NativeDevice> Drop for Completion<D> {
    fn drop(&mut self) {
        self.0.content.lock().is_closed = true;
        self.0.bell.notify_one();
    }
}

fn run<D: NativeDevice>(inbox: &Inbox<D>) {
    loop {
        let mut content = inbox.content.lock();
        while content.posts.is_empty() {
            if content.is_closed {
                return;
            }
            inbox.bell.wait(&mut content);
        }
        let posts = std::mem::take(&mut content.posts);
        drop(content);
        for core in posts {
            advance(core, Fired::Yes);
        }
    }
}
