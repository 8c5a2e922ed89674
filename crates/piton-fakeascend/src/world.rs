//! What the library knows: its contexts, every handle it gave out.

use piton_driver::{DeviceId, Position, Queue};
use piton_sim::SimDriver;
use piton_standin::{
    Answer, Code, Codes, Context, DEVICES, Event, Function, Handles, Loaded, Stream, Switches,
    kernels::Declared, machine,
};
use piton_sync::{Mutex, MutexGuard};
use std::{cell::Cell, sync::Arc};

// GLOBAL: a constant that contexts hold a plain reference to.
/// The runtime's codes.
pub(crate) static CODES: Codes = Codes {
    invalid: INVALID,
    bad_handle: 107_017,
    out_of_memory: 207_001,
    not_ready: 507_004,
    out_of_bounds: 507_015,
    failed: 507_015,
    takes_context: false,
};

pub(crate) const INVALID: Code = 107_000;
pub(crate) const NOT_INITIALIZED: Code = 100_001;
pub(crate) const REPEATED_INITIALIZE: Code = 100_002;
pub(crate) const INVALID_DEVICE: Code = 107_001;
pub(crate) const NO_CONTEXT: Code = 107_002;
pub(crate) const OTHER_CONTEXT: Code = 107_003;
/// What a call answers where a body panicked.
const UNKNOWN: Code = 500_000;

/// A notification: what it will come with, once it is recorded.
pub(crate) type Notification = Mutex<Option<(Arc<dyn Queue>, Position)>>;

/// Arguments of a launch that are appended one by one.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) appended: Mutex<Vec<Vec<u8>>>,
    pub(crate) is_finished: Mutex<bool>,
}

/// A thing that was given out.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Context(Arc<Context>),
    Stream(Arc<Stream>),
    /// And whether streams may wait for it.
    Event(Arc<Event>, bool),
    Notification(Arc<Notification>),
    Image(Arc<Vec<Declared>>),
    Binary(Arc<Loaded>),
    Function(Function),
    Arguments(Arc<Arguments>),
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) switches: Switches,
    /// The machine, as long as anybody has a context.
    machine: Option<Arc<SimDriver>>,
    pub(crate) contexts: Vec<(usize, Arc<Context>)>,
    pub(crate) objects: Handles<Object>,
}

// GLOBAL: a process has one such library, whose functions take no state; the real one keeps its own like this.
static WORLD: Mutex<Option<World>> = Mutex::new(None);

thread_local! {
    // GLOBAL: the context that is current to a thread, by its handle, as the runtime has it; zero if none is.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The world, made when first looked at.
pub(crate) fn with<T>(look: impl FnOnce(&mut World) -> T) -> T {
    let mut world: MutexGuard<'_, _> = WORLD.lock();
    let new = || World {
        switches: Switches::default(),
        machine: None,
        contexts: Vec::new(),
        objects: Handles::new(CODES.bad_handle),
    };
    look(world.get_or_insert_with(new))
}

/// Calls a body: as long as the library is initialised, and no test wants it to fail.
pub(crate) fn answer(name: &str, body: impl FnOnce() -> Answer<()>) -> Code {
    piton_standin::answer(UNKNOWN, || {
        with(|world| world.switches.admit(name, "aclInit", NOT_INITIALIZED))?;
        body()
    })
}

/// The handle that is current to this thread.
pub(crate) fn current_handle() -> Answer<usize> {
    match CURRENT.get() {
        0 => Err(NO_CONTEXT),
        handle => Ok(handle),
    }
}

pub(crate) fn set_current(handle: usize) {
    CURRENT.set(handle);
}

/// The context that is current to this thread.
pub(crate) fn current() -> Answer<Arc<Context>> {
    let handle = current_handle()?;
    with(|world| world.context(handle)).map_err(|_| NO_CONTEXT)
}

/// The device of this number.
pub(crate) fn device(number: i32) -> Answer<DeviceId> {
    let number = u32::try_from(number).map_err(|_| INVALID_DEVICE)?;
    if number < DEVICES {
        Ok(DeviceId(number))
    } else {
        Err(INVALID_DEVICE)
    }
}

impl World {
    /// Makes a context on a device, and gives it out.
    pub(crate) fn make_context(&mut self, device: DeviceId) -> Answer<usize> {
        let machine = match &self.machine {
            Some(machine) => Arc::clone(machine),
            None => machine("piton stand-in for an Ascend device").ok_or(CODES.out_of_memory)?,
        };
        self.machine = Some(Arc::clone(&machine));
        let context = Context::new(&machine, device, &CODES)?;
        let handle = self.objects.give(Object::Context(Arc::clone(&context)));
        self.contexts.push((handle, context));
        Ok(handle)
    }

    /// Takes a context back. What it leaves is for the caller to drop without the lock.
    pub(crate) fn end_context(&mut self, handle: usize) -> Answer<impl Sized + use<>> {
        let context = self.context(handle)?;
        let object = self.objects.take(handle)?;
        self.contexts.retain(|(known, _)| *known != handle);
        let machine = self.machine.take_if(|_| self.contexts.is_empty());
        Ok((context, object, machine))
    }

    pub(crate) fn context(&self, handle: usize) -> Answer<Arc<Context>> {
        self.objects.get(handle, |object| match object {
            Object::Context(context) => Some(Arc::clone(context)),
            _ => None,
        })
    }

    pub(crate) fn stream(&self, handle: usize) -> Answer<Arc<Stream>> {
        self.objects.get(handle, |object| match object {
            Object::Stream(stream) => Some(Arc::clone(stream)),
            _ => None,
        })
    }

    pub(crate) fn event(&self, handle: usize) -> Answer<(Arc<Event>, bool)> {
        self.objects.get(handle, |object| match object {
            Object::Event(event, is_sync) => Some((Arc::clone(event), *is_sync)),
            _ => None,
        })
    }

    pub(crate) fn notification(&self, handle: usize) -> Answer<Arc<Notification>> {
        self.objects.get(handle, |object| match object {
            Object::Notification(notification) => Some(Arc::clone(notification)),
            _ => None,
        })
    }

    pub(crate) fn image(&self, handle: usize) -> Answer<Arc<Vec<Declared>>> {
        self.objects.get(handle, |object| match object {
            Object::Image(image) => Some(Arc::clone(image)),
            _ => None,
        })
    }

    pub(crate) fn binary(&self, handle: usize) -> Answer<Arc<Loaded>> {
        self.objects.get(handle, |object| match object {
            Object::Binary(binary) => Some(Arc::clone(binary)),
            _ => None,
        })
    }

    pub(crate) fn function(&self, handle: usize) -> Answer<Function> {
        self.objects.get(handle, |object| match object {
            Object::Function(function) => Some(function.clone()),
            _ => None,
        })
    }

    pub(crate) fn arguments(&self, handle: usize) -> Answer<Arc<Arguments>> {
        self.objects.get(handle, |object| match object {
            Object::Arguments(arguments) => Some(Arc::clone(arguments)),
            _ => None,
        })
    }

    /// The device whose memory an address is in: that of the nearest start before it.
    pub(crate) fn owner(&self, address: u64) -> Option<DeviceId> {
        let start = |context: &Context| {
            let content = context.content.lock();
            let allocated = content.allocations.range(..=address).next_back().copied();
            let mapped = content.mappings.range(..=address).next_back();
            allocated.max(mapped.map(|(start, _)| *start))
        };
        let contexts = self.contexts.iter().map(|(_, context)| context);
        let owners = contexts.filter_map(|context| Some((start(context)?, context.id)));
        owners.max_by_key(|(start, _)| *start).map(|(_, id)| id)
    }
}
