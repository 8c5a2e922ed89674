//! The modules that were registered, by name.

use piton_sync::Mutex;
use std::collections::HashMap;

/// Modules by name, and what was said when one did not build.
#[derive(Debug)]
pub struct Modules<M> {
    known: Mutex<HashMap<String, M>>,
    logs: Mutex<HashMap<String, String>>,
}

impl<M> Default for Modules<M> {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            logs: Mutex::default(),
        }
    }
}

impl<M: Clone> Modules<M> {
    /// Makes a module known. One of the same name that was loaded stays what it is for whoever holds it.
    pub fn insert(&self, name: &str, module: M) {
        self.known.lock().insert(name.to_owned(), module);
    }

    /// The module of this name.
    pub fn find(&self, name: &str) -> Option<M> {
        self.known.lock().get(name).cloned()
    }

    /// Keeps what the compiler wrote when the module last failed to build.
    pub fn keep_log(&self, name: &str, log: String) {
        self.logs.lock().insert(name.to_owned(), log);
    }

    /// What was kept of it.
    pub fn log(&self, name: &str) -> Option<String> {
        self.logs.lock().get(name).cloned()
    }
}
