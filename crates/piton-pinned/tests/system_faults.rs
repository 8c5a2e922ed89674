//! Each call of the system under page-locked memory fails, from each step of a short program on.
//!
//! The failures are the system's own: a filter of system calls (`seccomp(2)`), which a thread puts on itself and on threads
//! it starts, answers the one call with an error from then on, where it is about as much memory as pools ask for. So
//! the whole way is tested, the simulated device's locking too, and nothing in the code knows.

#![cfg(all(not(loom), target_os = "linux", target_endian = "little"))]
#![expect(unsafe_code, reason = "filters of system calls are the system's")]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]

use piton_driver::{Device, DeviceId, Driver, ErrorKind, Locking};
use piton_pinned::{HostPages, PinnedBlock, PinnedError, PinnedPool, PinnedPoolConfig};
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use piton_sync::thread;
use piton_timeline::Timeline;
use std::sync::Arc;

const SLAB: u64 = 2 << 20;
/// So many that the large region has to go.
const WIDE: usize = 11 << 19;
/// Calls about less are others' than the pool's: the heap's, a thread's own.
const LEAST: u32 = 64 << 10;
/// Steps of the program.
const STEPS: usize = 6;

/// What is made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Nothing,
    Map,
    Advise,
    Bind,
    Lock,
    Unlock,
    Unmap,
}

const CALLS: [Call; 7] = [
    Call::Nothing,
    Call::Map,
    Call::Advise,
    Call::Bind,
    Call::Lock,
    Call::Unlock,
    Call::Unmap,
];

impl Call {
    fn number(self) -> Option<libc::c_long> {
        Some(match self {
            Self::Nothing => return None,
            Self::Map => libc::SYS_mmap,
            Self::Advise => libc::SYS_madvise,
            Self::Bind => libc::SYS_mbind,
            Self::Lock => libc::SYS_mlock,
            Self::Unlock => libc::SYS_munlock,
            Self::Unmap => libc::SYS_munmap,
        })
    }

    /// Makes the call fail in this thread, for good. Whether the system has filters.
    fn fail_from_now_on(self) -> bool {
        /// Where the number of the call and the lower half of its second argument, a length, are for a filter to load.
        const NUMBER_AT: u32 = 0;
        const LENGTH_AT: u32 = 24;
        let Some(number) = self.number() else {
            return true;
        };
        let line = |code: u32, jt, jf, k| libc::sock_filter {
            code: u16::try_from(code).unwrap(),
            jt,
            jf,
            k,
        };
        let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        let is_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let is_as_large = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
        let answer = libc::BPF_RET | libc::BPF_K;
        let refusal = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::ENOMEM).unwrap();
        let mut lines = [
            line(load, 0, 0, NUMBER_AT),
            line(is_equal, 0, 3, u32::try_from(number).unwrap()),
            line(load, 0, 0, LENGTH_AT),
            line(is_as_large, 0, 1, LEAST),
            line(answer, 0, 0, refusal),
            line(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: u16::try_from(lines.len()).unwrap(),
            filter: lines.as_mut_ptr(),
        };
        // SAFETY: touches no memory. Asked of whoever has no privileges before a filter.
        let promised = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        let mode = libc::SECCOMP_MODE_FILTER;
        // SAFETY: the filter is read and not kept; it ends no call that has begun.
        let filtered = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
        promised == 0 && filtered == 0
    }

    /// Whether this is how the pool or the device tells that the call failed.
    fn explains(self, error: &PinnedError) -> bool {
        let kind = match error {
            PinnedError::Driver(error) => &error.kind,
            PinnedError::NodeRefused { node: 0, errno } => {
                return self == Self::Bind && *errno == libc::ENOMEM;
            }
            _ => return false,
        };
        match kind {
            ErrorKind::OutOfHostMemory { requested } => self == Self::Map && *requested > 0,
            ErrorKind::LockRefused { requested, .. } => self == Self::Lock && *requested > 0,
            ErrorKind::System { errno } => {
                matches!(self, Self::Unlock | Self::Unmap) && *errno == libc::ENOMEM
            }
            _ => false,
        }
    }
}

/// One way to have memory.
#[derive(Clone, Copy, Debug)]
struct Kind {
    pages: HostPages,
    locking: Locking,
    node: Option<u32>,
}

impl Kind {
    const fn new(pages: HostPages, locking: Locking, node: Option<u32>) -> Self {
        Self {
            pages,
            locking,
            node,
        }
    }
}

const KINDS: [Kind; 4] = [
    Kind::new(HostPages::Driver, Locking::Required, None),
    Kind::new(HostPages::Driver, Locking::Preferred, None),
    Kind::new(HostPages::Huge, Locking::Preferred, None),
    Kind::new(HostPages::Huge, Locking::Required, Some(0)),
];

fn pool(kind: Kind) -> (Arc<dyn Device>, PinnedPool) {
    let driver = SimDriver::new(SimConfig::uniform(1, &DeviceConfig::default())).unwrap();
    let device = driver.open(DeviceId(0)).unwrap();
    let config = PinnedPoolConfig {
        cap_bytes: 4 * SLAB,
        slab_bytes: SLAB,
        large_above_bytes: SLAB / 4,
        pages: kind.pages,
        locking: kind.locking,
        numa_node: kind.node,
        ..PinnedPoolConfig::default()
    };
    let pool = PinnedPool::new(Arc::clone(&device), Timeline::new(), config).unwrap();
    (device, pool)
}

/// Keeps what came, or why it did not.
fn keep<T>(errors: &mut Vec<PinnedError>, outcome: Result<T, PinnedError>) -> Option<T> {
    outcome.map_err(|error| errors.push(error)).ok()
}

/// Small, large, registered, one that makes the large one go, and all of it given back; `before` is told each step.
fn program(pool: &PinnedPool, mut before: impl FnMut(usize)) -> Vec<PinnedError> {
    let mut errors = Vec::new();
    let touch = |block: Option<PinnedBlock>| {
        block.inspect(|block| assert!(block.try_as_slice().unwrap().iter().all(|byte| *byte == 0)))
    };
    before(0);
    let small = touch(keep(&mut errors, pool.allocate(1000)));
    before(1);
    let large = touch(keep(&mut errors, pool.allocate(1 << 20)));
    before(2);
    let registered = pool.register(vec![1_u8; 100_000]);
    let registered = keep(&mut errors, registered.map_err(|refused| refused.error));
    before(3);
    drop(large);
    let wide = touch(keep(&mut errors, pool.allocate(WIDE)));
    before(4);
    if let Some(registered) = registered {
        let back = registered.into_inner().map_err(|refused| refused.error);
        let back = keep(&mut errors, back);
        assert!(back.is_none_or(|back| back.len() == 100_000));
    }
    before(5);
    drop((small, wide));
    pool.check().unwrap();
    pool.trim(0);
    errors
}

/// What a run has come to.
struct Outcome {
    errors: Vec<PinnedError>,
    /// What the device was told of failures that nobody was there to hear of.
    recorded: Option<PinnedError>,
    leaked_bytes: u64,
}

/// Runs the program with a call that fails from a step on; none if the system has no filters.
fn run(call: Call, from: usize, kind: Kind) -> Option<Outcome> {
    let mut is_filtered = true;
    let (device, pool) = pool(kind);
    let errors = program(&pool, |step| {
        is_filtered &= step != from || call.fail_from_now_on();
    });
    pool.check().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.held_bytes, stats.live_blocks), (0, 0));
    let leaked_bytes = stats.leaked_bytes;
    drop(pool);
    is_filtered.then(|| Outcome {
        errors,
        recorded: device.take_error().map(PinnedError::from),
        leaked_bytes,
    })
}

/// Bytes of this process that are locked.
fn locked() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("VmLck:"))
        .unwrap();
    1024 * line
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
}

fn check(outcome: &Outcome, call: Call, from: usize, kind: Kind) {
    let told = outcome.errors.iter().chain(&outcome.recorded);
    for error in told {
        assert!(call.explains(error), "{call:?} {from} {kind:?}: {error}");
    }
    match call {
        Call::Nothing | Call::Advise => {
            assert!(outcome.errors.is_empty() && outcome.recorded.is_none());
        }
        Call::Map => assert!(from > 3 || !outcome.errors.is_empty()),
        // Pages that the pool maps are all its own; without a node it does not ask.
        Call::Bind => {
            let asks = kind.node.is_some() && kind.pages == HostPages::Huge && from < 4;
            assert_eq!(!outcome.errors.is_empty(), asks);
        }
        // Registering memory has to lock it, whatever the pool may do without.
        Call::Lock => {
            assert!(from > 3 || !outcome.errors.is_empty() || kind.locking == Locking::Preferred)
        }
        Call::Unlock | Call::Unmap => {}
    }
    // What the system does not take back is counted, and told to the device.
    let may_leak = matches!(call, Call::Unlock | Call::Unmap);
    assert!(outcome.leaked_bytes == 0 || (may_leak && outcome.recorded.is_some()));
    if call == Call::Unmap {
        assert!(outcome.leaked_bytes > 0, "{from} {kind:?}");
    }
    if call == Call::Unlock {
        // Let go by unmapping, where the driver allocates; what is registered must be unlocked first.
        let must_leak = kind.pages == HostPages::Huge;
        assert_eq!(outcome.leaked_bytes > 0, must_leak, "{from} {kind:?}");
    } else {
        assert_eq!(locked(), 0, "{call:?} {from} {kind:?}");
    }
}

/// Whether the system locks a few MiB and binds pages to node 0.
#[expect(clippy::print_stdout, reason = "a test without ground says so")]
fn has_ground(kind: Kind) -> bool {
    let (_device, pool) = pool(kind);
    let had = pool.allocate(WIDE);
    if let Err(error) = &had {
        println!("skipped: {kind:?}: {error}");
    }
    had.is_ok()
}

#[test]
fn a_failure_of_any_call_of_the_system_is_told_and_leaves_nothing_locked_or_lost() {
    for kind in KINDS.into_iter().filter(|kind| has_ground(*kind)) {
        for call in CALLS {
            for from in 0..STEPS {
                let run = thread::spawn(move || run(call, from, kind));
                let Some(outcome) = run.join().unwrap() else {
                    println!("skipped: the system has no filters of system calls");
                    return;
                };
                check(&outcome, call, from, kind);
                // What could not be unlocked was told; the next run begins with nothing locked.
                // SAFETY: touches no memory.
                assert_eq!(unsafe { libc::munlockall() }, 0);
            }
        }
    }
}
