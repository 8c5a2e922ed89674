//! The program's callback, which is asked to free something when nothing else has helped.
//!
//! A callback may ask the pool for memory, usually a small piece, to make room for a large one. If that request
//! reaches the end of the ladder too, the callback is not called from within itself: the thread is remembered while
//! it is inside. Requests of other threads call it as usual.

use std::sync::Arc;

use piton_sync::thread::{self, ThreadId};

use crate::error::FullNow;
use crate::pool::DevicePool;

/// Asks the program to free something; says whether it has.
type Asked = Arc<dyn Fn(&FullNow) -> bool + Send + Sync>;

/// What the pool was told to call, and who is inside it.
#[derive(Default)]
pub(crate) struct Callback {
    asked: Option<Asked>,
    inside: Vec<ThreadId>,
}

/// A thread on its way through the callback, until it is back, by whatever way.
struct Inside<'a>(&'a DevicePool);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let this = thread::current().id();
        self.0
            .callback
            .lock()
            .inside
            .retain(|thread| *thread != this);
    }
}

impl DevicePool {
    /// Sets a callback for requests that nothing else could serve. It is called with no lock held. If it returns
    /// `true` (it has freed something), the request is tried once more.
    ///
    /// The callback may free memory of this pool and allocate from it. A request from within the callback that finds
    /// no memory is refused at once ([`AllocError::FullNow`](crate::AllocError::FullNow)), without a further call.
    pub fn on_out_of_memory(&self, callback: impl Fn(&FullNow) -> bool + Send + Sync + 'static) {
        self.callback.lock().asked = Some(Arc::new(callback));
    }

    /// Asks the program to free something; whether it says it has. Not from within the callback.
    pub(crate) fn ask_program(&self, full: &FullNow) -> bool {
        let this = thread::current().id();
        let mut callback = self.callback.lock();
        let Some(asked) = callback.asked.clone() else {
            return false;
        };
        if callback.inside.contains(&this) {
            return false;
        }
        callback.inside.push(this);
        drop(callback);
        let _inside = Inside(self);
        asked(full)
    }
}
