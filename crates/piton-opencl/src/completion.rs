//! The thread that looks at queues when the driver says that an event is over.
//!
//! A driver's callback runs on a thread of the driver's, where blocking and most calls of OpenCL are undefined: it posts
//! the queue and returns. The thread then does what has to be done. It ends when the driver's last object is dropped.

use crate::queue::{Core, Fired, advance};
use piton_sync::{Condvar, Mutex, thread};
use std::sync::Arc;

#[derive(Debug, Default)]
struct Content {
    posts: Vec<Arc<Core>>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Inbox {
    content: Mutex<Content>,
    bell: Condvar,
}

/// A handle of the thread. Dropping it lets the thread end when it has done what was posted.
#[derive(Debug)]
pub(crate) struct Completion(Arc<Inbox>);

impl Completion {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let inbox = Arc::new(Inbox::default());
        let own = Arc::clone(&inbox);
        let builder = thread::Builder::new().name("piton-opencl".to_owned());
        builder.spawn(move || run(&own))?;
        Ok(Self(inbox))
    }

    /// Has the thread look at a queue. Never blocks for long.
    pub(crate) fn post(&self, core: Arc<Core>) {
        self.0.content.lock().posts.push(core);
        self.0.bell.notify_one();
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.0.content.lock().is_closed = true;
        self.0.bell.notify_one();
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
        let posts = std::mem::take(&mut content.posts);
        drop(content);
        for core in posts {
            advance(core, Fired::Yes);
        }
    }
}
