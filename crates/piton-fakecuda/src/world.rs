//! What the library knows: its devices, their contexts, every handle it gave out.
//!
//! A handle is a number that is never given out twice, so one that was destroyed is known for what it is.

use piton_driver::DeviceId;
use piton_sim::SimDriver;
pub(crate) use piton_standin::DEVICES;
use piton_standin::{
    Answer, Code, Codes, Context, Event, Function, Handles, Loaded, Stream, Switches, machine,
};
use piton_sync::{Mutex, MutexGuard};
use std::{cell::RefCell, collections::HashMap, sync::Arc};

// GLOBAL: a constant that contexts hold a plain reference to.
/// The library's codes.
pub(crate) static CODES: Codes = Codes {
    invalid: INVALID_VALUE,
    bad_handle: INVALID_HANDLE,
    out_of_memory: OUT_OF_MEMORY,
    not_ready: NOT_READY,
    out_of_bounds: ILLEGAL_ADDRESS,
    failed: LAUNCH_FAILED,
    takes_context: true,
};

pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const NOT_INITIALIZED: Code = 3;
pub(crate) const INVALID_DEVICE: Code = 101;
pub(crate) const INVALID_CONTEXT: Code = 201;
pub(crate) const INVALID_PTX: Code = 218;
pub(crate) const INVALID_HANDLE: Code = 400;
pub(crate) const NOT_FOUND: Code = 500;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const ILLEGAL_ADDRESS: Code = 700;
pub(crate) const PEER_ACCESS_ALREADY_ENABLED: Code = 704;
pub(crate) const LAUNCH_FAILED: Code = 719;

/// What a call answers where a body panicked.
const UNKNOWN: Code = 999;

/// A thing that was given out.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Stream(Arc<Stream>),
    Event(Arc<Event>),
    Module(Arc<Loaded>),
    Function(Function),
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) switches: Switches,
    /// The machine, as long as anybody has a context.
    machine: Option<Arc<SimDriver>>,
    contexts: HashMap<u32, (usize, Arc<Context>)>,
    pub(crate) objects: Handles<Object>,
}

// GLOBAL: a process has one such library, whose functions take no state; the real one keeps its own like this.
static WORLD: Mutex<Option<World>> = Mutex::new(None);

thread_local! {
    // GLOBAL: the contexts that are current to a thread, as CUDA has it.
    static CURRENT: RefCell<Vec<Arc<Context>>> = const { RefCell::new(Vec::new()) };
}

/// The world, made when first looked at.
pub(crate) fn with<T>(look: impl FnOnce(&mut World) -> T) -> T {
    let mut world: MutexGuard<'_, _> = WORLD.lock();
    let new = || World {
        switches: Switches::default(),
        machine: None,
        contexts: HashMap::new(),
        objects: Handles::new(INVALID_HANDLE),
    };
    look(world.get_or_insert_with(new))
}

/// Calls a body: as long as the library is initialised, and no test wants it to fail.
pub(crate) fn answer(name: &str, body: impl FnOnce() -> Answer<()>) -> Code {
    piton_standin::answer(UNKNOWN, || {
        with(|world| world.switches.admit(name, "cuInit", NOT_INITIALIZED))?;
        body()
    })
}

/// The number that stands for a device's context.
pub(crate) const fn handle(context: &Context) -> usize {
    (context.id.0 as usize + 1) << 32
}

/// The context that is current to this thread, if it still works.
pub(crate) fn current() -> Answer<Arc<Context>> {
    let context = CURRENT.with_borrow(|stack| stack.last().cloned());
    let context = context.ok_or(INVALID_CONTEXT)?;
    context.alive()?;
    Ok(context)
}

/// The context that is current to this thread, dead or not.
pub(crate) fn current_even_if_dead() -> Answer<Arc<Context>> {
    CURRENT
        .with_borrow(|stack| stack.last().cloned())
        .ok_or(INVALID_CONTEXT)
}

pub(crate) fn push(context: Arc<Context>) {
    CURRENT.with_borrow_mut(|stack| stack.push(context));
}

pub(crate) fn pop() -> Answer<Arc<Context>> {
    CURRENT.with_borrow_mut(Vec::pop).ok_or(INVALID_CONTEXT)
}

impl World {
    /// A count of the device's primary context.
    pub(crate) fn retain(&mut self, device: u32) -> Answer<Arc<Context>> {
        if device >= DEVICES {
            return Err(INVALID_DEVICE);
        }
        if let Some((count, context)) = self.contexts.get_mut(&device) {
            *count += 1;
            return Ok(Arc::clone(context));
        }
        let machine = match &self.machine {
            Some(machine) => Arc::clone(machine),
            None => machine("piton stand-in for a CUDA device").ok_or(OUT_OF_MEMORY)?,
        };
        self.machine = Some(Arc::clone(&machine));
        let context = Context::new(&machine, DeviceId(device), &CODES)?;
        self.contexts.insert(device, (1, Arc::clone(&context)));
        Ok(context)
    }

    /// Gives a count back. What the last leaves is for the caller to drop without the lock.
    pub(crate) fn release(&mut self, device: u32) -> Answer<Option<Arc<Context>>> {
        let known = self.contexts.get_mut(&device);
        let (count, _) = known.ok_or(INVALID_CONTEXT)?;
        *count -= 1;
        if *count > 0 {
            return Ok(None);
        }
        let gone = self.contexts.remove(&device).map(|(_, context)| context);
        if self.contexts.is_empty() {
            self.machine = None;
        }
        Ok(gone)
    }

    /// The context of this handle.
    pub(crate) fn context(&self, handle: usize) -> Answer<Arc<Context>> {
        let mut all = self.contexts.values().map(|(_, context)| context);
        let found = all.find(|context| self::handle(context) == handle);
        found.cloned().ok_or(INVALID_CONTEXT)
    }

    pub(crate) fn all_contexts(&self) -> Vec<Arc<Context>> {
        let all = self.contexts.values();
        all.map(|(_, context)| Arc::clone(context)).collect()
    }

    pub(crate) fn stream(&self, handle: usize) -> Answer<Arc<Stream>> {
        self.objects.get(handle, |object| match object {
            Object::Stream(stream) => Some(Arc::clone(stream)),
            _ => None,
        })
    }

    pub(crate) fn event(&self, handle: usize) -> Answer<Arc<Event>> {
        self.objects.get(handle, |object| match object {
            Object::Event(event) => Some(Arc::clone(event)),
            _ => None,
        })
    }

    pub(crate) fn module(&self, handle: usize) -> Answer<Arc<Loaded>> {
        self.objects.get(handle, |object| match object {
            Object::Module(module) => Some(Arc::clone(module)),
            _ => None,
        })
    }

    pub(crate) fn function(&self, handle: usize) -> Answer<Function> {
        self.objects.get(handle, |object| match object {
            Object::Function(function) => Some(function.clone()),
            _ => None,
        })
    }
}
