//! The modules that were registered, by name.

use crate::kernel::OpenClModule;
use piton_sync::Mutex;
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Modules {
    known: Mutex<HashMap<String, OpenClModule>>,
    logs: Mutex<HashMap<String, String>>,
}

impl Modules {
    pub(crate) fn insert(&self, module: OpenClModule) {
        let name = module.name().to_string();
        self.known.lock().insert(name, module);
    }

    pub(crate) fn find(&self, name: &str) -> Option<OpenClModule> {
        self.known.lock().get(name).cloned()
    }

    /// Keeps what the compiler wrote when the module last failed to build.
    pub(crate) fn keep_log(&self, name: &str, log: String) {
        self.logs.lock().insert(name.to_owned(), log);
    }

    pub(crate) fn log(&self, name: &str) -> Option<String> {
        self.logs.lock().get(name).cloned()
    }
}
