//! Baselines without streams: pools that run each task when they like.

use crate::{
    device::must,
    naive::{Lane, Runtime},
};

/// Rayon's global pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rayon;

impl Runtime for Rayon {
    type Lane = Self;
    const IS_ORDERED: bool = false;

    fn lane(&self) -> Self {
        Self
    }

    fn width(&self) -> usize {
        rayon::current_num_threads()
    }
}

impl Lane for Rayon {
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        rayon::spawn(task);
    }
}

/// A tokio runtime with a thread a core.
#[derive(Debug)]
pub(crate) struct Tokio(tokio::runtime::Runtime);

impl Tokio {
    pub(crate) fn new() -> Self {
        Self(must(tokio::runtime::Builder::new_multi_thread().build()))
    }
}

impl Runtime for Tokio {
    type Lane = tokio::runtime::Handle;
    const IS_ORDERED: bool = false;

    fn lane(&self) -> Self::Lane {
        self.0.handle().clone()
    }

    fn width(&self) -> usize {
        self.0.metrics().num_workers()
    }
}

impl Lane for tokio::runtime::Handle {
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        drop(Self::spawn(self, async move { task() }));
    }
}
