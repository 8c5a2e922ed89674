//! Loaded modules, and the launches of their functions.

use crate::{
    codes::{Answer, Codes},
    context::Context,
    kernels,
};
use piton_driver::{Kernel, ModuleImage, Position, Queue};
use piton_sync::Mutex;
use std::{collections::HashMap, sync::Arc};

/// Launches of a module: where each stands.
type Launches = Mutex<Vec<(Arc<dyn Queue>, Position)>>;

/// A loaded module.
#[derive(Debug)]
pub struct Loaded {
    /// By name.
    pub functions: HashMap<String, Function>,
    launches: Arc<Launches>,
}

impl Loaded {
    /// The kernels that an image declares, each with the function that stands in for it.
    ///
    /// # Errors
    /// `None` for a kernel that the stand-in has not.
    pub fn new(context: &Context, declared: &[kernels::Declared]) -> Answer<Option<Self>> {
        let codes: &Codes = context.codes;
        let load = |name| {
            let module = context.device.kernels().load(ModuleImage::Registered(name));
            module.map_err(|error| codes.of(&error))
        };
        let known = [load(kernels::MODULE)?, load(piton_training::MODULE)?];
        let launches: Arc<Launches> = Arc::default();
        let mut functions = HashMap::new();
        for one in declared {
            let mut found = known.iter().map(|module| module.kernel(&one.name));
            let Some(Ok(kernel)) = found.find(Result::is_ok) else {
                return Ok(None);
            };
            let function = Function {
                kernel,
                parameters: one.parameters.clone(),
                launches: Arc::clone(&launches),
            };
            functions.insert(one.name.clone(), function);
        }
        Ok(Some(Self {
            functions,
            launches,
        }))
    }

    /// Whether everything that was launched of it has ended.
    pub fn is_idle(&self) -> bool {
        let launches = self.launches.lock();
        let mut each = launches.iter();
        each.all(|(queue, position)| queue.completed() >= *position)
    }
}

/// A kernel of a loaded module, and the bytes of its parameters as the image declares them.
#[derive(Clone, Debug)]
pub struct Function {
    /// What stands in for it.
    pub kernel: Arc<dyn Kernel>,
    /// Bytes of each.
    pub parameters: Vec<usize>,
    launches: Arc<Launches>,
}

impl Function {
    /// Notes a launch; those that have ended are forgotten.
    pub fn launched(&self, queue: &Arc<dyn Queue>, position: Position) {
        let mut launches = self.launches.lock();
        launches.retain(|(queue, position)| queue.completed() < *position);
        launches.push((Arc::clone(queue), position));
    }
}
