//! What a demonstration came to, and whether that is good.

use std::sync::Arc;
use std::time::{Duration, Instant};

use piton::sim::{DeviceConfig, ScheduleOrder};
use piton::{
    DeviceId, DeviceTrace, Devices, Machine, Operation, PinnedClassStats, PinnedStats,
    PinnedThreadStats, PoolStats, Report, RouteUse, Runtime, RuntimeConfig, RuntimeError,
    SanitizerConfig,
};
use piton_topology::LinkKind;

use crate::digits::Digits;
use crate::quantity;
use crate::report::{Check, MemorySample, StepMark, TrainingPoint};

use super::comparison::Comparison;
use super::config::TrainingConfig;
use super::copying::Copying;
use super::error::DemoError;
use super::reference::Reference;
use super::run::Run;
use super::{cuda, opencl, page};

/// Least share of held-back images that a training of reasonable length gets right.
pub const ACCURACY_WANTED: f64 = 0.95;
/// Steps and images a step from which a training is of reasonable length.
const JUDGED_FROM: (usize, usize) = (200, 32);
/// Commands a device keeps records of.
const RECORDS: usize = 1 << 18;

/// Pages and Blocks of the simulated devices in bytes. Small, as the network is: a step needs some 200 KiB of a device,
/// and usual pages of 2 MiB would hide what the pool does.
const PAGE_BYTES: u64 = 64 << 10;
const BLOCK_BYTES: u64 = 256 << 10;

/// What the devices are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backend {
    /// Simulated ones.
    #[default]
    Simulated,
    /// Those of an OpenCL platform.
    OpenCl,
    /// NVIDIA's.
    Cuda,
}

impl Backend {
    /// What one calls such devices.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::OpenCl => "OpenCL",
            Self::Cuda => "CUDA",
        }
    }
}

/// What to demonstrate.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// What the devices are.
    pub backend: Backend,
    /// The training.
    pub config: TrainingConfig,
    /// The machine to simulate, on simulated devices; without one, as many equal devices as are used, all linked to each other.
    pub machine: Option<Machine>,
    /// Run in virtual time, where one seed always gives one order of events and the same times? Simulated devices can.
    pub is_deterministic: bool,
    /// Look for races between streams and uses of freed memory?
    pub is_sanitized: bool,
}

/// What a demonstration came to.
#[derive(Debug)]
pub struct Outcome {
    /// What was asked for.
    pub options: DemoOptions,
    /// Share of held-back images right at the end.
    pub accuracy: f64,
    /// The devices' parameters beside the reference's.
    pub comparison: Comparison,
    /// Did all devices end with the same parameters, bit for bit?
    pub are_devices_equal: bool,
    /// Do the books of all pools balance?
    pub are_books_balanced: bool,
    /// What the sanitizer found, if there was one.
    pub hazards: Vec<Report>,
    /// Loss and accuracy over the steps.
    pub training: Vec<TrainingPoint>,
    /// When each step began, on the devices' clock.
    pub steps: Vec<StepMark>,
    /// Memory of each device.
    pub memory: Vec<Vec<MemorySample>>,
    /// What each device did.
    pub traces: Vec<DeviceTrace>,
    /// Each device's pool at the end of training.
    pub pools: Vec<PoolStats>,
    /// Each device's pool of page-locked memory at the end of training.
    pub pinned: Vec<PinnedStats>,
    /// The same by size class, and by thread.
    pub pinned_parts: Vec<PinnedParts>,
    /// Copies between devices by route.
    pub routes: Vec<RouteUse>,
    /// The machine.
    pub machine: Machine,
    /// What copies of many bytes reach on this machine, if somebody measured it.
    pub copying: Option<Copying>,
    /// Kernels launched.
    pub launches: u64,
    /// Time on the host for the training.
    pub wall: Duration,
    /// Time on the host for the reference.
    pub reference_wall: Duration,
}

/// What a pool of page-locked memory has done, by size class and by thread.
#[derive(Clone, Debug)]
pub struct PinnedParts {
    /// Of each class, and of exact sizes last.
    pub classes: Vec<PinnedClassStats>,
    /// Of each thread that has made calls and lives.
    pub threads: Vec<PinnedThreadStats>,
}

impl Outcome {
    /// Trains on devices, trains again in plain loops, and compares. `step_done` hears of each step, and of the
    /// reference's with no accuracy.
    ///
    /// # Errors
    /// [`DemoError`] if a value is out of range, the machine is too small, or the runtime fails. A training that came
    /// out wrong is no error here but a check that has not passed.
    pub fn of(
        options: DemoOptions,
        mut step_done: impl FnMut(&TrainingPoint),
    ) -> Result<Self, DemoError> {
        let config = options.config;
        config.validate()?;
        let digits = Digits::shipped()?;
        let runtime = runtime(&options)?;
        let mut run = Run::new(config, &runtime, &digits)?;
        let devices = || runtime.devices().take(config.devices);
        for device in devices() {
            device.start_trace(RECORDS);
        }
        run.train(&mut step_done)?;
        let traces = devices()
            .filter_map(|device| device.finish_trace())
            .collect();
        let pools: Vec<PoolStats> = devices().map(|device| device.memory_stats()).collect();
        let pinned = devices().map(|device| device.pinned_stats()).collect();
        let pinned_parts = devices()
            .map(|device| PinnedParts {
                classes: device.pinned_pool().class_stats(),
                threads: device.pinned_pool().thread_stats(),
            })
            .collect();
        let routes = runtime.routes();
        let parameters = run.parameters()?;
        let hazards = runtime.sanitizer().map(|sanitizer| sanitizer.reports());
        let (log, launches) = run.finish();
        let started = Instant::now();
        let reference = reference(config, &digits, &mut step_done)?;
        let reference_wall = started.elapsed();
        let first = parameters.first().map(Vec::as_slice).unwrap_or_default();
        Ok(Self {
            accuracy: log
                .training
                .iter()
                .rev()
                .find_map(|point| point.accuracy)
                .unwrap_or_default(),
            comparison: Comparison::new(first, &reference, config.steps)?,
            are_devices_equal: parameters.iter().all(|other| same_bits(first, other)),
            are_books_balanced: devices().all(|device| device.memory().check().is_ok()),
            hazards: hazards.unwrap_or_default(),
            training: log.training,
            steps: log.steps,
            memory: log.memory,
            machine: runtime.machine().clone(),
            wall: log.wall,
            options,
            traces,
            pools,
            pinned,
            pinned_parts,
            routes,
            launches,
            reference_wall,
            copying: None,
        })
    }

    /// What was verified, each with its numbers.
    #[must_use]
    pub fn checks(&self) -> Vec<Check> {
        let comparison = &self.comparison;
        let check = |name: &str, has_passed, detail: String| Check {
            name: name.to_owned(),
            has_passed,
            detail,
        };
        let mut checks = vec![
            check(
                "parameters agree with the plain single-threaded training",
                comparison.is_within_tolerance(),
                format!(
                    "largest difference {:.2e}, tolerance {:.2e} = 4 x sqrt({} steps) x 2^-23 x largest parameter: the \
                     devices take sums in another order, each step rounds to nearest, and roundings add up as a random walk",
                    comparison.largest_difference, comparison.tolerance, comparison.steps
                ),
            ),
            check(
                "all devices hold the same parameters, bit for bit",
                self.are_devices_equal,
                format!(
                    "{} after {}",
                    quantity::counted(self.options.config.devices as u64, "device"),
                    quantity::counted(comparison.steps as u64, "step")
                ),
            ),
            check(
                "the pools' books balance",
                self.are_books_balanced,
                "held = live + padding + cached + pending + in transit, walked chunk by chunk"
                    .to_owned(),
            ),
        ];
        if self.options.is_sanitized {
            let detail = match self.hazards.first() {
                Some(first) => {
                    format!("{} pairs of places, the first: {first}", self.hazards.len())
                }
                None => "each use of memory is ordered after those it conflicts with".to_owned(),
            };
            let name = "no two commands race, whatever the schedule";
            checks.push(check(name, self.hazards.is_empty(), detail));
        }
        if self.is_accuracy_judged() {
            let detail = format!(
                "{:.4} on 360 held-back images, at least {ACCURACY_WANTED} wanted",
                self.accuracy
            );
            checks.push(check(
                "the network has learned to read digits",
                self.accuracy >= ACCURACY_WANTED,
                detail,
            ));
        }
        checks
    }

    /// Was the training long enough for its accuracy to be judged?
    #[must_use]
    pub fn is_accuracy_judged(&self) -> bool {
        let config = &self.options.config;
        config.steps >= JUDGED_FROM.0 && config.batch_total() >= JUDGED_FROM.1
    }

    /// Times between the beginnings of steps on the devices' clock, sorted; the last step has none.
    #[must_use]
    pub fn step_times(&self) -> Vec<u64> {
        let pairs = self.steps.windows(2);
        let mut times: Vec<u64> = pairs
            .map(|pair| pair[1].start_ns.saturating_sub(pair[0].start_ns))
            .collect();
        times.sort_unstable();
        times
    }

    /// Copies of one kind that were recorded: how many, and how many bytes.
    #[must_use]
    pub fn copied(&self, operation: Operation) -> (u64, u64) {
        let all = self.traces.iter().flat_map(|trace| &trace.records);
        let of_kind = all.filter(|record| record.operation == operation);
        of_kind.fold((0, 0), |(copies, bytes), record| {
            (copies + 1, bytes + record.bytes)
        })
    }

    /// The page that shows it.
    #[must_use]
    pub fn page(&self) -> crate::report::ReportData {
        page::of(self)
    }
}

fn runtime(options: &DemoOptions) -> Result<Runtime, DemoError> {
    let wanted = options.config.devices;
    let mut config = match options.backend {
        Backend::Simulated => simulated(options)?,
        Backend::OpenCl => RuntimeConfig::on(Devices::Driver(Arc::new(opencl::driver()?))),
        Backend::Cuda => RuntimeConfig::on(Devices::Driver(Arc::new(cuda::driver()?))),
    };
    config.memory.block_bytes = Some(BLOCK_BYTES);
    config.sanitizer = options.is_sanitized.then(SanitizerConfig::default);
    let runtime = Runtime::new(config)?;
    let present = runtime.device_count();
    if (present as usize) < wanted {
        return Err(DemoError::TooFewDevices { wanted, present });
    }
    if options.backend == Backend::Simulated {
        runtime.register(piton_training::simulated::module())?;
    }
    Ok(runtime)
}

/// Simulated devices in the machine asked for.
fn simulated(options: &DemoOptions) -> Result<RuntimeConfig, DemoError> {
    let wanted = options.config.devices;
    let device = DeviceConfig {
        memory_bytes: 256 << 20,
        page_bytes: PAGE_BYTES,
        ..DeviceConfig::default()
    };
    let machine = match &options.machine {
        Some(machine) => machine.clone(),
        // Pairs of neighbours with two HCCS links each, half of them on each socket: a copy to a neighbour goes
        // over the links, one to a stranger through host memory.
        None => Machine::linked_pairs(u16::try_from(wanted).unwrap_or(u16::MAX), LinkKind::Hccs, 2)
            .map_err(RuntimeError::from)?,
    };
    let mut config = RuntimeConfig::simulated_machine(&machine, &device)?;
    if let (true, Devices::Simulated(sim)) = (options.is_deterministic, &mut config.devices) {
        *sim = sim
            .clone()
            .in_virtual_time(options.config.seed, ScheduleOrder::ByTime);
    }
    Ok(config)
}

fn reference(
    config: TrainingConfig,
    digits: &Digits,
    step_done: &mut impl FnMut(&TrainingPoint),
) -> Result<Vec<f32>, DemoError> {
    let mut reference = Reference::<f32>::new(config, digits)?;
    for step in 0..config.steps {
        let loss = reference.step();
        step_done(&TrainingPoint {
            step: step as u64,
            loss,
            accuracy: None,
        });
    }
    Ok(reference.parameters().to_vec())
}

fn same_bits(left: &[f32], right: &[f32]) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .all(|(a, b)| a.to_bits() == b.to_bits())
}

/// The name of a device in text.
pub(super) fn device_name(device: DeviceId) -> String {
    format!("device {}", device.0)
}
