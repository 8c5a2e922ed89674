//! Modules of one device, loaded once and kept.
//!
//! # The idea
//! Loading a module compiles or uploads it, and finding a kernel asks the driver; both cost what many launches cost
//! together. A cache answers the second time, so callers need not carry modules and kernels around.
//!
//! A module's key is what it is loaded from, whole: its name, or its source or binary. Two that merely hash alike are
//! not taken for each other, at the price of keeping the text. At most [`MAX_MODULES`] are kept; the one that was
//! asked for longest ago goes first. Who holds it, or one of its kernels, keeps it loaded.
//!
//! # Protocol
//! One lock, and no call of the driver under it. Two threads that load the same module at once both call the driver;
//! the first to come back is kept and both get that one. What was loaded before a [`forget`](ModuleCache::forget)
//! and comes back after it is handed out and not kept: `epoch` tells.

use piton_driver::{DriverError, Kernel, Kernels, Module, ModuleImage};
use piton_sync::Mutex;
use std::{collections::HashMap, ops::Deref, sync::Arc};

/// Modules kept at most.
pub const MAX_MODULES: usize = 64;

/// A kernel that safe launches take: of a module that was registered, so that somebody has vouched for what it writes. A
/// cheap handle; it is the driver's [`Kernel`] to look at.
///
/// What the driver loads from source or a binary nobody has vouched for, and it is none of these:
/// ```compile_fail,E0308
/// fn launch(stream: &piton_buffer::Stream, kernel: &std::sync::Arc<dyn piton_driver::Kernel>) {
///     let _launch = stream.launch(kernel, piton_driver::Grid::linear(1));
/// }
/// ```
#[derive(Clone, Debug)]
pub struct LoadedKernel(Arc<dyn Kernel>);

impl LoadedKernel {
    /// The driver's kernel, for commands that are submitted past this crate.
    pub fn raw(&self) -> &Arc<dyn Kernel> {
        &self.0
    }
}

impl Deref for LoadedKernel {
    type Target = dyn Kernel;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// A module on a device, with the kernels that were found in it. A cheap handle.
#[derive(Clone, Debug)]
pub struct LoadedModule(Arc<Found>);

#[derive(Debug)]
struct Found {
    module: Arc<dyn Module>,
    kernels: Mutex<HashMap<Box<str>, LoadedKernel>>,
}

impl LoadedModule {
    fn new(module: Arc<dyn Module>) -> Self {
        Self(Arc::new(Found {
            module,
            kernels: Mutex::default(),
        }))
    }

    /// Its kernel of this name; the driver is asked once for each.
    ///
    /// # Errors
    /// As [`Module::kernel`]; a failure is not kept.
    pub fn kernel(&self, name: &str) -> Result<LoadedKernel, DriverError> {
        if let Some(kernel) = self.0.kernels.lock().get(name) {
            return Ok(kernel.clone());
        }
        let found = LoadedKernel(self.0.module.kernel(name)?);
        let mut kernels = self.0.kernels.lock();
        Ok(kernels.entry(name.into()).or_insert(found).clone())
    }

    /// The driver's module.
    pub fn raw(&self) -> &Arc<dyn Module> {
        &self.0.module
    }

    /// Whether both are one module, loaded once.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What a module is loaded from, as an index.
#[derive(Clone, Copy)]
enum Source {
    Registered,
    Text,
    Binary,
}

#[derive(Debug)]
struct Kept {
    module: LoadedModule,
    /// The number of the load that last asked for it.
    used: u64,
}

#[derive(Debug, Default)]
struct State {
    /// By what they are loaded from, and then by its content.
    kept: [HashMap<Box<[u8]>, Kept>; 3],
    loads: u64,
    epoch: u64,
}

/// The modules that are loaded on one device.
#[derive(Debug, Default)]
pub struct ModuleCache(Mutex<State>);

impl ModuleCache {
    /// The module of this image, loaded by `kernels` if it is not loaded yet. May take long then, and does not block
    /// otherwise.
    ///
    /// # Errors
    /// As [`Kernels::load`]; a failure is not kept.
    pub(crate) fn load(
        &self,
        kernels: &dyn Kernels,
        image: ModuleImage<'_>,
    ) -> Result<LoadedModule, DriverError> {
        let Some((source, content)) = key(image) else {
            return Ok(LoadedModule::new(kernels.load(image)?));
        };
        let epoch = {
            let mut state = self.0.lock();
            if let Some(module) = state.find(source, content) {
                return Ok(module);
            }
            state.epoch
        };
        let loaded = LoadedModule::new(kernels.load(image)?);
        let (module, gone) = self.0.lock().keep(source, content, (loaded, epoch));
        // Unloading is a call of the driver: not under the lock.
        drop(gone);
        Ok(module)
    }

    /// Lets the module of this image go: the next load asks the driver.
    pub fn forget(&self, image: ModuleImage<'_>) {
        let gone = key(image).and_then(|(source, content)| {
            let mut state = self.0.lock();
            state.epoch += 1;
            state.kept[source as usize].remove(content)
        });
        drop(gone);
    }

    /// Lets all modules go. Those that nobody holds are unloaded.
    pub fn clear(&self) {
        let gone = {
            let mut state = self.0.lock();
            state.epoch += 1;
            std::mem::take(&mut state.kept)
        };
        drop(gone);
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl State {
    fn len(&self) -> usize {
        self.kept.iter().map(HashMap::len).sum()
    }

    fn find(&mut self, source: Source, content: &[u8]) -> Option<LoadedModule> {
        self.loads += 1;
        let kept = self.kept[source as usize].get_mut(content)?;
        kept.used = self.loads;
        Some(kept.module.clone())
    }

    /// Keeps what was loaded in `epoch`, unless another thread's came first. Also what is not kept (any more).
    fn keep(
        &mut self,
        source: Source,
        content: &[u8],
        (loaded, epoch): (LoadedModule, u64),
    ) -> (LoadedModule, Option<LoadedModule>) {
        if let Some(first) = self.find(source, content) {
            return (first, Some(loaded));
        }
        if epoch != self.epoch {
            return (loaded, None);
        }
        let gone = if self.len() >= MAX_MODULES {
            self.remove_oldest()
        } else {
            None
        };
        let kept = Kept {
            module: loaded.clone(),
            used: self.loads,
        };
        self.kept[source as usize].insert(content.into(), kept);
        (loaded, gone)
    }

    fn remove_oldest(&mut self) -> Option<LoadedModule> {
        let all = self.kept.iter().flat_map(HashMap::values);
        let oldest = all.map(|kept| kept.used).min()?;
        let of = |kept: &mut HashMap<Box<[u8]>, Kept>| {
            let mut gone = kept.extract_if(|_, kept| kept.used == oldest);
            gone.next().map(|(_, kept)| kept.module)
        };
        self.kept.iter_mut().find_map(of)
    }
}

/// `None` for images that this crate knows nothing of.
fn key(image: ModuleImage<'_>) -> Option<(Source, &[u8])> {
    match image {
        ModuleImage::Registered(name) => Some((Source::Registered, name.as_bytes())),
        ModuleImage::Source(text) => Some((Source::Text, text.as_bytes())),
        ModuleImage::Binary(bytes) => Some((Source::Binary, bytes)),
        _ => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![expect(unsafe_code, reason = "being a driver of kernels is an unsafe promise")]

    use super::*;
    use piton_driver::{DeviceId, ErrorKind, Operation, Signature};
    use piton_sync::atomic::{AtomicU64, Ordering};

    #[derive(Debug)]
    struct Nothing(String, Signature);

    impl Kernel for Nothing {
        fn name(&self) -> &str {
            &self.0
        }

        fn device(&self) -> DeviceId {
            DeviceId(0)
        }

        fn signature(&self) -> &Signature {
            &self.1
        }
    }

    #[derive(Debug)]
    struct Counted(Arc<AtomicU64>);

    impl Module for Counted {
        fn kernel(&self, name: &str) -> Result<Arc<dyn Kernel>, DriverError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            if name == "missing" {
                return Err(error());
            }
            Ok(Arc::new(Nothing(name.to_owned(), Signature::new([]))))
        }
    }

    fn error() -> DriverError {
        DriverError::new(ErrorKind::UnknownKernel, Operation::GetKernel, DeviceId(0))
    }

    /// A driver that counts its calls, and may do something while it loads.
    #[derive(Default)]
    struct Driver<'a> {
        loads: AtomicU64,
        lookups: Arc<AtomicU64>,
        meanwhile: Option<&'a (dyn Fn() + Send + Sync)>,
    }

    // SAFETY: its kernels do nothing.
    unsafe impl Kernels for Driver<'_> {
        fn load(&self, image: ModuleImage<'_>) -> Result<Arc<dyn Module>, DriverError> {
            self.loads.fetch_add(1, Ordering::Relaxed);
            if let Some(meanwhile) = self.meanwhile {
                meanwhile();
            }
            if matches!(image, ModuleImage::Source("bad")) {
                return Err(error());
            }
            Ok(Arc::new(Counted(Arc::clone(&self.lookups))))
        }
    }

    impl Driver<'_> {
        fn loads(&self) -> u64 {
            self.loads.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_module_is_loaded_once_and_a_kernel_looked_up_once() {
        let (cache, driver) = (ModuleCache::default(), Driver::default());
        let first = cache.load(&driver, ModuleImage::Registered("m")).unwrap();
        let again = cache.load(&driver, ModuleImage::Registered("m")).unwrap();
        assert!(first.is_same(&again));
        let kernel = first.kernel("k").unwrap();
        assert!(Arc::ptr_eq(kernel.raw(), again.kernel("k").unwrap().raw()));
        assert_eq!(
            (driver.loads(), driver.lookups.load(Ordering::Relaxed)),
            (1, 1)
        );
    }

    #[test]
    fn the_same_bytes_as_name_source_and_binary_are_three_modules() {
        let (cache, driver) = (ModuleCache::default(), Driver::default());
        let images = [
            ModuleImage::Registered("m"),
            ModuleImage::Source("m"),
            ModuleImage::Binary(b"m"),
        ];
        for image in images.into_iter().chain(images) {
            cache.load(&driver, image).unwrap();
        }
        assert_eq!((driver.loads(), cache.len()), (3, 3));
    }

    #[test]
    fn failures_are_not_kept() {
        let (cache, driver) = (ModuleCache::default(), Driver::default());
        for _ in 0..2 {
            assert!(cache.load(&driver, ModuleImage::Source("bad")).is_err());
        }
        let module = cache.load(&driver, ModuleImage::Registered("m")).unwrap();
        for _ in 0..2 {
            assert!(module.kernel("missing").is_err());
        }
        assert_eq!(
            (driver.loads(), driver.lookups.load(Ordering::Relaxed)),
            (3, 2)
        );
    }

    #[test]
    fn the_module_that_was_used_longest_ago_goes_when_there_are_too_many() {
        let (cache, driver) = (ModuleCache::default(), Driver::default());
        let load = |text: &str| cache.load(&driver, ModuleImage::Source(text)).unwrap();
        let first = load("0");
        let second = Arc::downgrade(load("1").raw());
        for number in 2..MAX_MODULES {
            load(&number.to_string());
        }
        assert!(load("0").is_same(&first));
        load("one more");
        assert_eq!(cache.len(), MAX_MODULES);
        assert!(load("0").is_same(&first), "it was used since");
        assert!(
            second.upgrade().is_none(),
            "nobody holds it: it is unloaded"
        );
    }

    #[test]
    fn what_is_forgotten_is_loaded_anew_and_lives_as_long_as_it_is_held() {
        let (cache, driver) = (ModuleCache::default(), Driver::default());
        let image = ModuleImage::Registered("m");
        let old = cache.load(&driver, image).unwrap();
        cache.forget(image);
        let new = cache.load(&driver, image).unwrap();
        assert!(!new.is_same(&old));
        assert!(old.kernel("k").is_ok());
        cache.clear();
        assert!(cache.is_empty());
    }

    #[test]
    fn what_was_loaded_before_it_was_forgotten_is_not_kept() {
        let cache = ModuleCache::default();
        let image = ModuleImage::Registered("m");
        let forget = || cache.forget(image);
        let meanwhile = Driver {
            meanwhile: Some(&forget),
            ..Driver::default()
        };
        let old = cache.load(&meanwhile, image).unwrap();
        let new = cache.load(&Driver::default(), image).unwrap();
        assert!(!new.is_same(&old));
    }

    #[test]
    fn of_two_loads_at_once_the_first_to_come_back_serves_both() {
        let cache = ModuleCache::default();
        let image = ModuleImage::Registered("m");
        let other = Driver::default();
        let load = || drop(cache.load(&other, image).unwrap());
        let meanwhile = Driver {
            meanwhile: Some(&load),
            ..Driver::default()
        };
        let second = cache.load(&meanwhile, image).unwrap();
        assert!(second.is_same(&cache.load(&other, image).unwrap()));
        assert_eq!(other.loads(), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    #![expect(unsafe_code, reason = "being a driver of kernels is an unsafe promise")]

    use super::*;
    use piton_driver::{DeviceId, Signature};
    use piton_sync::{
        atomic::{AtomicU64, Ordering},
        model, thread,
    };

    const IMAGE: ModuleImage<'_> = ModuleImage::Registered("m");

    /// What the image stands for: it changes, and a module says which version it was loaded from.
    struct Versions(AtomicU64);

    // SAFETY: its kernels do nothing.
    unsafe impl Kernels for Versions {
        fn load(&self, _: ModuleImage<'_>) -> Result<Arc<dyn Module>, DriverError> {
            Ok(Arc::new(Version(
                self.0.load(Ordering::Acquire).to_string(),
            )))
        }
    }

    #[derive(Debug)]
    struct Version(String);

    impl Module for Version {
        fn kernel(&self, _: &str) -> Result<Arc<dyn Kernel>, DriverError> {
            Ok(Arc::new(Of(self.0.clone(), Signature::new([]))))
        }
    }

    #[derive(Debug)]
    struct Of(String, Signature);

    impl Kernel for Of {
        fn name(&self) -> &str {
            &self.0
        }

        fn device(&self) -> DeviceId {
            DeviceId(0)
        }

        fn signature(&self) -> &Signature {
            &self.1
        }
    }

    type Shared = Arc<(ModuleCache, Versions)>;

    fn shared() -> Shared {
        Arc::new((ModuleCache::default(), Versions(AtomicU64::new(1))))
    }

    fn load((cache, versions): &(ModuleCache, Versions)) -> LoadedModule {
        cache.load(versions, IMAGE).unwrap()
    }

    #[test]
    fn two_that_load_at_once_get_one_module_and_one_kernel() {
        model(|| {
            let shared = shared();
            let other = Arc::clone(&shared);
            let loader = thread::spawn(move || {
                let module = load(&other);
                let kernel = module.kernel("k").unwrap();
                (module, kernel)
            });
            let module = load(&shared);
            let kernel = module.kernel("k").unwrap();
            let (theirs, their_kernel) = loader.join().unwrap();
            assert!(module.is_same(&theirs) && module.is_same(&load(&shared)));
            assert!(Arc::ptr_eq(kernel.raw(), their_kernel.raw()));
        });
    }

    #[test]
    fn whoever_loads_after_an_image_was_forgotten_gets_the_new_one() {
        model(|| {
            let shared = shared();
            let other = Arc::clone(&shared);
            let loader = thread::spawn(move || drop(load(&other)));
            shared.1.0.store(2, Ordering::Release);
            shared.0.forget(IMAGE);
            assert_eq!(load(&shared).kernel("k").unwrap().name(), "2");
            loader.join().unwrap();
            assert_eq!(load(&shared).kernel("k").unwrap().name(), "2");
        });
    }
}
