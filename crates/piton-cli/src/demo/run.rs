//! The training itself: steps over all devices from one host thread, and what is written down on the way.
//!
//! The host submits a step to every device and goes on to the next; it waits only for the step before the last one, so
//! that it fills staging buffers while the devices compute, and never runs further ahead. Losses and times come back by
//! the same rule, two steps late.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use piton::{Device, DeviceBuffer, Event, PinnedBuffer, Runtime, Transfer};

use crate::digits::{Digits, PIXELS};
use crate::report::{MemorySample, StepMark, TrainingPoint};

use super::batch::BatchOrder;
use super::config::TrainingConfig;
use super::error::DemoError;
use super::replica::{Gradient, Replica};
use super::ring::{self, Pieces};
use super::staging::{Share, Staging};

/// Steps the host may be ahead of the devices.
const STEPS_AHEAD: usize = 2;
/// Accuracy is measured about so often in a run.
const ACCURACY_POINTS: usize = 30;

/// What is written down while training.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Loss of each step, and accuracy where it was measured.
    pub(super) training: Vec<TrainingPoint>,
    /// When the first device began each step, on its clock.
    pub(super) steps: Vec<StepMark>,
    /// Memory of each device as steps were submitted, on the devices' clock: with the step's gradient and without.
    pub(super) memory: Vec<Vec<MemorySample>>,
    /// Time on the host from the first submission to the end of all work.
    pub(super) wall: Duration,
}

/// A training under way on the devices of a runtime.
#[derive(Debug)]
pub(super) struct Run<'a> {
    config: TrainingConfig,
    digits: &'a Digits,
    devices: Vec<Device>,
    pub(super) replicas: Vec<Replica>,
    staging: Vec<Staging>,
    held_back: Vec<usize>,
    held_back_images: DeviceBuffer<f32>,
    order: BatchOrder,
    under_way: VecDeque<Step>,
    log: Log,
}

/// A step that was submitted.
#[derive(Debug)]
struct Step {
    number: usize,
    began: Event,
    ended: Vec<Event>,
    losses: Vec<Transfer<PinnedBuffer<f32>>>,
    accuracy: Option<f64>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        config: TrainingConfig,
        runtime: &Runtime,
        digits: &'a Digits,
    ) -> Result<Self, DemoError> {
        let devices: Vec<Device> = runtime.devices().take(config.devices).collect();
        let replicas: Vec<Replica> = devices
            .iter()
            .map(|device| Replica::new(device, config.seed))
            .collect::<Result<_, _>>()?;
        let staging = devices
            .iter()
            .map(|device| Staging::new(device, config.batch_per_device));
        let held_back = digits.held_back();
        let pixels: Vec<f32> = held_back
            .iter()
            .filter_map(|index| digits.image(*index))
            .flatten()
            .copied()
            .collect();
        let Some(first) = replicas.first() else {
            return Err(super::ConfigError::Devices { devices: 0 }.into());
        };
        let mut held_back_images = first.copies.allocate(pixels.len() as u64)?;
        first.copies.write(&mut held_back_images, &pixels)?;
        Ok(Self {
            config,
            digits,
            staging: staging.collect::<Result<_, _>>()?,
            log: Log {
                memory: vec![Vec::new(); devices.len()],
                ..Log::default()
            },
            devices,
            replicas,
            held_back,
            held_back_images,
            order: BatchOrder::new(digits, config.seed),
            under_way: VecDeque::new(),
        })
    }

    /// Trains all steps; `step_done` hears of each with its loss.
    pub(super) fn train(
        &mut self,
        mut step_done: impl FnMut(&TrainingPoint),
    ) -> Result<(), DemoError> {
        let started = Instant::now();
        for number in 0..self.config.steps {
            let step = self.submit(number)?;
            self.under_way.push_back(step);
            while self.under_way.len() > STEPS_AHEAD {
                self.settle_oldest(&mut step_done)?;
            }
        }
        while !self.under_way.is_empty() {
            self.settle_oldest(&mut step_done)?;
        }
        for replica in &self.replicas {
            for stream in [&replica.compute, &replica.copies, &replica.peers] {
                stream.synchronize()?;
            }
        }
        self.log.wall = started.elapsed();
        Ok(())
    }

    fn submit(&mut self, number: usize) -> Result<Step, DemoError> {
        let began = self.replicas[0].compute.record_timed()?;
        let mut gradients = Vec::with_capacity(self.replicas.len());
        let mut losses = Vec::with_capacity(self.replicas.len());
        for (replica, staging) in self.replicas.iter_mut().zip(&mut self.staging) {
            let mut share = Vec::with_capacity(self.config.batch_per_device);
            self.order.deal(self.config.batch_per_device, &mut share);
            let share: Share = staging.send(self.digits, &share, &replica.copies)?;
            let rows = u32::try_from(self.config.batch_per_device).unwrap_or(u32::MAX);
            let Gradient {
                gradient,
                losses: loss,
            } = replica.gradient(&share, rows)?;
            let landing = replica.copies.pinned(self.config.batch_per_device)?;
            losses.push(replica.copies.copy_to_host(&loss, landing)?);
            gradients.push(gradient);
        }
        self.sample_memory();
        self.update(number, &gradients)?;
        drop(gradients);
        self.sample_memory();
        let accuracy = if self.is_measured(number) {
            Some(self.accuracy()?)
        } else {
            None
        };
        let ended = self
            .replicas
            .iter()
            .map(|replica| replica.compute.record())
            .collect();
        Ok(Step {
            number,
            began,
            ended,
            losses,
            accuracy,
        })
    }

    fn update(&mut self, number: usize, gradients: &[DeviceBuffer<f32>]) -> Result<(), DemoError> {
        if let [only] = gradients {
            return Ok(self.replicas[0].update(&self.config, number, 0, only.into())?);
        }
        let pieces: Vec<Pieces> = ring::all_reduce(&mut self.replicas, gradients)?;
        self.sample_memory();
        for (replica, pieces) in self.replicas.iter_mut().zip(&pieces) {
            for (index, piece) in pieces.iter().enumerate() {
                let start = ring::piece_range(index, pieces.len()).start;
                replica.update(&self.config, number, start, piece.into())?;
            }
        }
        Ok(())
    }

    fn is_measured(&self, number: usize) -> bool {
        let every = self.config.steps.div_ceil(ACCURACY_POINTS);
        number.is_multiple_of(every) || number + 1 == self.config.steps
    }

    /// Share of the held-back images that the first device gets right now. Waits for it.
    fn accuracy(&mut self) -> Result<f64, DemoError> {
        let rows = u32::try_from(self.held_back_images.len() / PIXELS as u64).unwrap_or(u32::MAX);
        let replica = &mut self.replicas[0];
        let [_, _, scores] = replica.forward(&self.held_back_images, rows)?;
        let scores = replica.compute.read(&scores)?;
        let classes = scores.len() / self.held_back.len().max(1);
        let is_right = |(row, index): (&[f32], &usize)| {
            let best =
                row.iter()
                    .enumerate()
                    .fold((0, f32::NEG_INFINITY), |best, (class, score)| {
                        if *score > best.1 {
                            (class, *score)
                        } else {
                            best
                        }
                    });
            self.digits
                .label(*index)
                .is_some_and(|label| usize::from(label) == best.0)
        };
        let right = scores
            .chunks_exact(classes.max(1))
            .zip(&self.held_back)
            .filter(|pair| is_right(*pair))
            .count();
        #[expect(clippy::cast_precision_loss, reason = "a few hundred images")]
        let share = right as f64 / self.held_back.len().max(1) as f64;
        Ok(share)
    }

    /// Waits for the oldest step under way and writes down what came of it.
    fn settle_oldest(
        &mut self,
        step_done: &mut impl FnMut(&TrainingPoint),
    ) -> Result<(), DemoError> {
        let Some(step) = self.under_way.pop_front() else {
            return Ok(());
        };
        for event in &step.ended {
            event.synchronize()?;
        }
        let (mut sum, mut images) = (0.0, 0.0);
        for transfer in step.losses {
            let losses = transfer.wait().map_err(piton::BufferError::from)?;
            losses.as_slice().iter().for_each(|loss| {
                sum += f64::from(*loss);
                images += 1.0;
            });
        }
        let point = TrainingPoint {
            step: step.number as u64,
            loss: sum / images,
            accuracy: step.accuracy,
        };
        if let Some(start_ns) = step.began.time_ns()? {
            self.log.steps.push(StepMark {
                start_ns,
                step: step.number as u64,
            });
        }
        step_done(&point);
        self.log.training.push(point);
        Ok(())
    }

    fn sample_memory(&mut self) {
        for (device, samples) in self.devices.iter().zip(&mut self.log.memory) {
            let at = device.raw().timestamps().map_or(0, |clock| clock.now());
            let stats = device.memory_stats();
            samples.push(MemorySample {
                at,
                live: stats.live_bytes,
                held: stats.held_bytes,
            });
        }
    }

    /// The parameters of every device. Waits for them.
    pub(super) fn parameters(&self) -> Result<Vec<Vec<f32>>, DemoError> {
        let read = |replica: &Replica| Ok(replica.compute.read(&replica.parameters)?);
        self.replicas.iter().map(read).collect()
    }

    /// Ends the run: what was written down, and how many kernels were launched.
    pub(super) fn finish(self) -> (Log, u64) {
        (
            self.log,
            self.replicas.iter().map(|replica| replica.launches).sum(),
        )
    }
}
