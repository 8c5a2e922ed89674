//! Counters in memory, which streams write and wait for.

use crate::world::INVALID_VALUE;
use piton_driver::{Position, Queue};
use piton_standin::{Answer, Stream};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// A write of a counter that a stream was told to do.
#[derive(Debug)]
struct Write {
    queue: Arc<dyn Queue>,
    position: Position,
}

type Writes = HashMap<u64, BTreeMap<u64, Write>>;

// GLOBAL: what streams were told to write where: counters are known to every context of the process.
static WRITES: Mutex<Option<Writes>> = Mutex::new(None);

/// Has a stream write a counter when all before it has ended.
pub(crate) fn write(stream: &Stream, at: u64, value: u64) -> Answer<()> {
    let mut all = WRITES.lock();
    let writes = all.get_or_insert_default().entry(at).or_default();
    // What is done is known by the counter itself.
    writes.retain(|_, write| write.position > write.queue.completed());
    let position = stream.call(Box::new(move || word(at).store(value, Ordering::Release)))?;
    let queue = Arc::clone(&stream.queue);
    writes.insert(value, Write { queue, position });
    Ok(())
}

/// Later commands of a stream start when a counter shows a value, which some stream must have been told to write.
pub(crate) fn wait_for(stream: &Stream, at: u64, value: u64) -> Answer<()> {
    let all = WRITES.lock();
    if word(at).load(Ordering::Acquire) >= value {
        return Ok(());
    }
    let writes = all.as_ref().and_then(|all| all.get(&at));
    // Nobody would ever end such a wait.
    let (_, write) = writes
        .and_then(|writes| writes.range(value..).next())
        .ok_or(INVALID_VALUE)?;
    stream.order_after(&write.queue, write.position)
}

/// A counter of the program's.
#[expect(unsafe_code, reason = "memory of the program's, by its address")]
fn word(at: u64) -> &'static AtomicU64 {
    let at = std::ptr::with_exposed_provenance_mut(usize::try_from(at).unwrap_or(0));
    // SAFETY: whoever names a counter to a stream keeps it, aligned, until the stream has done with it, and treats it as an
    // atomic number.
    unsafe { AtomicU64::from_ptr(at) }
}
