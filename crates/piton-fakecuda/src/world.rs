//! What the library knows: its devices, their contexts, every handle it gave out.
//!
//! A handle is a number that is never given out twice, so one that was destroyed is known for what it is.

use crate::{
    context::FakeContext,
    kernels,
    stream::{FakeEvent, FakeStream},
};
use piton_driver::{DeviceId, Kernel, Position, Queue};
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use piton_sync::{Mutex, MutexGuard};
use std::{cell::RefCell, collections::HashMap, sync::Arc};

/// A code of the library's; what is not success.
pub(crate) type Code = u32;
/// What a call came to.
pub(crate) type Answer<T> = Result<T, Code>;

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

/// How many devices there are.
pub(crate) const DEVICES: u32 = 2;

/// Launches of a module: where each stands.
type Launches = Mutex<Vec<(Arc<dyn Queue>, Position)>>;

/// A loaded module.
#[derive(Debug)]
pub(crate) struct FakeModule {
    /// By name.
    pub(crate) functions: HashMap<String, FakeFunction>,
    pub(crate) launches: Arc<Launches>,
}

impl FakeModule {
    /// Whether everything that was launched of it has ended.
    pub(crate) fn is_idle(&self) -> bool {
        let launches = self.launches.lock();
        let mut each = launches.iter();
        each.all(|(queue, position)| queue.completed() >= *position)
    }
}

/// A kernel of a loaded module, and the bytes of its parameters as the PTX declares them.
#[derive(Clone, Debug)]
pub(crate) struct FakeFunction {
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) parameters: Vec<usize>,
    /// Its module's.
    pub(crate) launches: Arc<Launches>,
}

impl FakeFunction {
    /// Notes a launch; those that have ended are forgotten.
    pub(crate) fn launched(&self, queue: &Arc<dyn Queue>, position: Position) {
        let mut launches = self.launches.lock();
        launches.retain(|(queue, position)| queue.completed() < *position);
        launches.push((Arc::clone(queue), position));
    }
}

/// A thing that was given out.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Stream(Arc<FakeStream>),
    Event(Arc<FakeEvent>),
    Module(Arc<FakeModule>),
    Function(FakeFunction),
}

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) is_initialised: bool,
    /// The machine, as long as anybody has a context.
    machine: Option<Arc<SimDriver>>,
    contexts: HashMap<u32, (usize, Arc<FakeContext>)>,
    objects: HashMap<usize, Object>,
    last_handle: usize,
    /// Codes that the next call of a function answers.
    pub(crate) failures: HashMap<String, Code>,
    /// What was done that the reference says no program may do, and that is not refused.
    pub(crate) mistakes: u32,
}

// GLOBAL: a process has one such library, whose functions take no state; the real one keeps its own like this.
static WORLD: Mutex<Option<World>> = Mutex::new(None);

thread_local! {
    // GLOBAL: the contexts that are current to a thread, as CUDA has it.
    static CURRENT: RefCell<Vec<Arc<FakeContext>>> = const { RefCell::new(Vec::new()) };
}

/// The world, made when first looked at.
pub(crate) fn with<T>(look: impl FnOnce(&mut World) -> T) -> T {
    let mut world: MutexGuard<'_, _> = WORLD.lock();
    look(world.get_or_insert_default())
}

/// The context that is current to this thread, if it still works.
pub(crate) fn current() -> Answer<Arc<FakeContext>> {
    let context = CURRENT.with_borrow(|stack| stack.last().cloned());
    let context = context.ok_or(INVALID_CONTEXT)?;
    context.alive()?;
    Ok(context)
}

/// The context that is current to this thread, dead or not.
pub(crate) fn current_even_if_dead() -> Answer<Arc<FakeContext>> {
    CURRENT
        .with_borrow(|stack| stack.last().cloned())
        .ok_or(INVALID_CONTEXT)
}

pub(crate) fn push(context: Arc<FakeContext>) {
    CURRENT.with_borrow_mut(|stack| stack.push(context));
}

pub(crate) fn pop() -> Answer<Arc<FakeContext>> {
    CURRENT.with_borrow_mut(Vec::pop).ok_or(INVALID_CONTEXT)
}

/// The machine that stands behind it.
fn machine() -> Answer<Arc<SimDriver>> {
    let device = DeviceConfig {
        name: "piton stand-in for a CUDA device".to_owned(),
        memory_bytes: 64 << 20,
        page_bytes: 64 << 10,
        poison: Some(0xa5),
        ..DeviceConfig::default()
    };
    let config = SimConfig::uniform(DEVICES, &device);
    let driver = SimDriver::new(config).map_err(|_| OUT_OF_MEMORY)?;
    driver.register(kernels::module());
    Ok(Arc::new(driver))
}

impl World {
    /// A count of the device's primary context.
    pub(crate) fn retain(&mut self, device: u32) -> Answer<Arc<FakeContext>> {
        if device >= DEVICES {
            return Err(INVALID_DEVICE);
        }
        if let Some((count, context)) = self.contexts.get_mut(&device) {
            *count += 1;
            return Ok(Arc::clone(context));
        }
        let machine = match &self.machine {
            Some(machine) => Arc::clone(machine),
            None => machine()?,
        };
        self.machine = Some(Arc::clone(&machine));
        let context = FakeContext::new(&machine, DeviceId(device))?;
        self.contexts.insert(device, (1, Arc::clone(&context)));
        Ok(context)
    }

    /// Gives a count back. What the last leaves is for the caller to drop without the lock.
    pub(crate) fn release(&mut self, device: u32) -> Answer<Option<Arc<FakeContext>>> {
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
    pub(crate) fn context(&self, handle: usize) -> Answer<Arc<FakeContext>> {
        let mut all = self.contexts.values().map(|(_, context)| context);
        let found = all.find(|context| context.handle() == handle);
        found.cloned().ok_or(INVALID_CONTEXT)
    }

    pub(crate) fn all_contexts(&self) -> Vec<Arc<FakeContext>> {
        let all = self.contexts.values();
        all.map(|(_, context)| Arc::clone(context)).collect()
    }

    /// Gives a thing out.
    pub(crate) fn give(&mut self, object: Object) -> usize {
        self.last_handle += 16;
        self.objects.insert(self.last_handle, object);
        self.last_handle
    }

    /// Takes a thing back, for the caller to drop without the lock.
    pub(crate) fn take(&mut self, handle: usize) -> Answer<Object> {
        self.objects.remove(&handle).ok_or(INVALID_HANDLE)
    }

    pub(crate) fn stream(&self, handle: usize) -> Answer<Arc<FakeStream>> {
        match self.objects.get(&handle) {
            Some(Object::Stream(stream)) => Ok(Arc::clone(stream)),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub(crate) fn event(&self, handle: usize) -> Answer<Arc<FakeEvent>> {
        match self.objects.get(&handle) {
            Some(Object::Event(event)) => Ok(Arc::clone(event)),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub(crate) fn module(&self, handle: usize) -> Answer<Arc<FakeModule>> {
        match self.objects.get(&handle) {
            Some(Object::Module(module)) => Ok(Arc::clone(module)),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub(crate) fn function(&self, handle: usize) -> Answer<FakeFunction> {
        match self.objects.get(&handle) {
            Some(Object::Function(function)) => Ok(function.clone()),
            _ => Err(INVALID_HANDLE),
        }
    }
}
