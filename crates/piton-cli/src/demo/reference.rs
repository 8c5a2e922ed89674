//! The training in plain single-threaded loops: the judge of what the devices compute.
//!
//! It shares the configuration, the first parameters and the order of images with the demonstration, and nothing else:
//! no device, buffer, stream or kernel, and every sum is taken in the most obvious order. Images of a step are divided
//! into one share per device because that is what is trained: each share's mean gradient, then the mean of those.
//!
//! It is generic over the floating-point type. In `f32` it is what the devices should get, up to the order in which
//! sums are taken; run again in `f64`, it tells how far rounding alone moves this training (see
//! [`comparison`](super::comparison)).

use std::ops::{Add, AddAssign, Div, Mul, Sub};

use crate::digits::{CLASSES, Digits, PIXELS};

use super::batch::BatchOrder;
use super::config::{ConfigError, TrainingConfig};
use super::network::{LAYERS, Layer, PARAMETERS, initial_parameters};

/// What the loops need of a floating-point number.
pub trait Real:
    Copy
    + PartialOrd
    + From<f32>
    + Into<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
{
    /// e to this power.
    #[must_use]
    fn exp(self) -> Self;
    /// Natural logarithm.
    #[must_use]
    fn ln(self) -> Self;
    /// Hyperbolic tangent.
    #[must_use]
    fn tanh(self) -> Self;
}

impl Real for f32 {
    fn exp(self) -> Self {
        Self::exp(self)
    }

    fn ln(self) -> Self {
        Self::ln(self)
    }

    fn tanh(self) -> Self {
        Self::tanh(self)
    }
}

impl Real for f64 {
    fn exp(self) -> Self {
        Self::exp(self)
    }

    fn ln(self) -> Self {
        Self::ln(self)
    }

    fn tanh(self) -> Self {
        Self::tanh(self)
    }
}

/// A training run under way.
#[derive(Debug, Clone)]
pub struct Reference<'a, R> {
    config: TrainingConfig,
    digits: &'a Digits,
    order: BatchOrder,
    step: usize,
    parameters: Vec<R>,
    /// Running update of each parameter (momentum).
    velocity: Vec<R>,
    /// Mean gradient of the step over all devices.
    gradient: Vec<R>,
    /// Mean gradient of one device's share.
    share_gradient: Vec<R>,
}

/// One image on its way through the network: its pixels, then the outputs of each layer.
type Activations<R> = [Vec<R>; LAYERS.len() + 1];

impl<'a, R: Real> Reference<'a, R> {
    /// A training run before its first step.
    ///
    /// # Errors
    /// [`ConfigError`] if a value of `config` is out of its range.
    pub fn new(config: TrainingConfig, digits: &'a Digits) -> Result<Self, ConfigError> {
        config.validate()?;
        let zeros = || vec![R::from(0.0); PARAMETERS];
        Ok(Self {
            config,
            digits,
            order: BatchOrder::new(digits, config.seed),
            step: 0,
            parameters: initial_parameters(config.seed)
                .into_iter()
                .map(R::from)
                .collect(),
            velocity: zeros(),
            gradient: zeros(),
            share_gradient: zeros(),
        })
    }

    /// Trains one step on the next images and returns their mean loss, measured before the update.
    pub fn step(&mut self) -> f64 {
        let mut shares = vec![Vec::new(); self.config.devices];
        for share in &mut shares {
            self.order.deal(self.config.batch_per_device, share);
        }
        self.step_on(&shares)
    }

    /// Trains one step on these images, one share per device, and returns their mean loss before the update.
    ///
    /// Images beyond the data set are passed over.
    pub fn step_on(&mut self, shares: &[Vec<usize>]) -> f64 {
        self.gradient.fill(R::from(0.0));
        let mut loss = R::from(0.0);
        let shares_count = real::<R>(shares.len());
        for share in shares {
            loss += self.share(share) / shares_count;
            for (sum, value) in self.gradient.iter_mut().zip(&self.share_gradient) {
                *sum += *value / shares_count;
            }
        }
        self.update();
        self.step += 1;
        loss.into()
    }

    /// Leaves the mean gradient of `share` in `share_gradient` and returns its mean loss.
    fn share(&mut self, share: &[usize]) -> R {
        self.share_gradient.fill(R::from(0.0));
        let mut loss = R::from(0.0);
        let images = real::<R>(share.len());
        let mut activations = Activations::default();
        for &index in share {
            let (Some(image), Some(label)) = (self.digits.image(index), self.digits.label(index))
            else {
                continue;
            };
            forward(&self.parameters, image, &mut activations);
            let mut delta = softmax(&activations[LAYERS.len()]);
            loss += (R::from(0.0) - delta[usize::from(label)].ln()) / images;
            delta[usize::from(label)] = delta[usize::from(label)] - R::from(1.0);
            delta.iter_mut().for_each(|d| *d = *d / images);
            backward(
                &self.parameters,
                &activations,
                delta,
                &mut self.share_gradient,
            );
        }
        loss
    }

    fn update(&mut self) {
        let rate = R::from(self.config.learning_rate_at(self.step));
        let momentum = R::from(self.config.momentum);
        for index in 0..PARAMETERS {
            self.velocity[index] = momentum * self.velocity[index] + self.gradient[index];
            self.parameters[index] = self.parameters[index] - rate * self.velocity[index];
        }
    }

    /// The parameters after the steps so far, laid out as [`super::network`] says.
    #[must_use]
    pub fn parameters(&self) -> &[R] {
        &self.parameters
    }

    /// Share of the held-back images whose highest score is their label: `0.0..=1.0`.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        accuracy(&self.parameters, self.digits)
    }
}

/// Share of the held-back images that a network with these parameters gets right: `0.0..=1.0`.
#[must_use]
pub fn accuracy<R: Real>(parameters: &[R], digits: &Digits) -> f64 {
    let held_back = digits.held_back();
    let mut activations = Activations::default();
    let mut right = 0;
    for &index in &held_back {
        let (Some(image), Some(label)) = (digits.image(index), digits.label(index)) else {
            continue;
        };
        forward(parameters, image, &mut activations);
        right += usize::from(highest(&activations[LAYERS.len()]) == usize::from(label));
    }
    #[expect(clippy::cast_precision_loss, reason = "a few hundred images")]
    let share = right as f64 / held_back.len() as f64;
    share
}

fn forward<R: Real>(parameters: &[R], image: &[f32; PIXELS], activations: &mut Activations<R>) {
    activations[0] = image.iter().map(|&pixel| R::from(pixel)).collect();
    for (depth, layer) in LAYERS.iter().enumerate() {
        activations[depth + 1] = layer_forward(parameters, layer, &activations[depth]);
    }
}

fn layer_forward<R: Real>(parameters: &[R], layer: &Layer, inputs: &[R]) -> Vec<R> {
    let mut outputs = parameters[layer.biases..layer.biases + layer.outputs].to_vec();
    for (i, input) in inputs.iter().enumerate() {
        let row = &parameters[layer.weights + i * layer.outputs..][..layer.outputs];
        for (output, weight) in outputs.iter_mut().zip(row) {
            *output += *input * *weight;
        }
    }
    if layer.is_hidden {
        outputs
            .iter_mut()
            .for_each(|output| *output = output.tanh());
    }
    outputs
}

/// Adds the gradient of one image to `gradient`; `delta` is the gradient of the loss by the network's scores.
fn backward<R: Real>(
    parameters: &[R],
    activations: &Activations<R>,
    mut delta: Vec<R>,
    gradient: &mut [R],
) {
    for (depth, layer) in LAYERS.iter().enumerate().rev() {
        let inputs = &activations[depth];
        let mut input_delta = vec![R::from(0.0); layer.inputs];
        for (i, input) in inputs.iter().enumerate() {
            let row = layer.weights + i * layer.outputs;
            for (o, d) in delta.iter().enumerate() {
                gradient[row + o] += *input * *d;
                input_delta[i] += parameters[row + o] * *d;
            }
        }
        for (o, d) in delta.iter().enumerate() {
            gradient[layer.biases + o] += *d;
        }
        if depth > 0 {
            through_tanh(inputs, &mut input_delta);
        }
        delta = input_delta;
    }
}

/// The slope of tanh where it gave `output` is `1 - output * output`.
fn through_tanh<R: Real>(outputs: &[R], delta: &mut [R]) {
    for (d, output) in delta.iter_mut().zip(outputs) {
        *d = *d * (R::from(1.0) - *output * *output);
    }
}

/// Probabilities of the classes; the largest score is subtracted first so that no power overflows.
fn softmax<R: Real>(scores: &[R]) -> Vec<R> {
    let largest = scores[highest(scores)];
    let powers: Vec<R> = scores
        .iter()
        .map(|&score| (score - largest).exp())
        .collect();
    let mut total = R::from(0.0);
    powers.iter().for_each(|&power| total += power);
    powers.into_iter().map(|power| power / total).collect()
}

/// Index of the highest score, the first of equals.
fn highest<R: Real>(scores: &[R]) -> usize {
    let mut best = 0;
    for class in 1..CLASSES.min(scores.len()) {
        if scores[class] > scores[best] {
            best = class;
        }
    }
    best
}

fn real<R: Real>(count: usize) -> R {
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of images and devices, far below 2^24"
    )]
    R::from(count as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train<R: Real>(config: TrainingConfig, digits: &Digits) -> Reference<'_, R> {
        let mut run = Reference::new(config, digits).unwrap();
        (0..config.steps).for_each(|_| {
            run.step();
        });
        run
    }

    #[test]
    fn default_training_gets_held_back_images_right() {
        let digits = Digits::shipped().unwrap();
        for devices in [1, 4] {
            let config = TrainingConfig {
                devices,
                ..TrainingConfig::default()
            };
            let accuracy = train::<f32>(config, &digits).accuracy();
            assert!(accuracy >= 0.95, "{devices} devices: {accuracy}");
        }
    }

    #[test]
    fn same_seed_gives_the_same_bits() {
        let digits = Digits::shipped().unwrap();
        let config = TrainingConfig {
            steps: 5,
            ..TrainingConfig::default()
        };
        let bits = |run: &Reference<'_, f32>| -> Vec<u32> {
            run.parameters().iter().map(|p| p.to_bits()).collect()
        };
        let (one, other) = (train(config, &digits), train(config, &digits));
        assert_eq!(bits(&one), bits(&other));
    }

    #[test]
    fn gradient_is_the_slope_of_the_loss() {
        let digits = Digits::shipped().unwrap();
        let config = TrainingConfig {
            devices: 1,
            momentum: 0.0,
            ..TrainingConfig::default()
        };
        let share = vec![digits.training()[..20].to_vec()];
        let fresh = Reference::<f64>::new(config, &digits).unwrap();
        let mut stepped = fresh.clone();
        stepped.step_on(&share);
        // A central difference of a smooth function is off by the square of its step.
        let nudge = 1e-5;
        for index in (0..PARAMETERS).step_by(97) {
            let loss_at = |offset: f64| {
                let mut run = fresh.clone();
                run.parameters[index] += offset;
                run.step_on(&share)
            };
            let slope = (loss_at(nudge) - loss_at(-nudge)) / (2.0 * nudge);
            let gradient = stepped.gradient[index];
            assert!(
                (slope - gradient).abs() < 1e-7,
                "parameter {index}: slope {slope}, gradient {gradient}"
            );
        }
    }

    #[test]
    fn dividing_a_step_among_devices_changes_rounding_only() {
        let digits = Digits::shipped().unwrap();
        let one = TrainingConfig {
            devices: 1,
            batch_per_device: 64,
            steps: 3,
            ..TrainingConfig::default()
        };
        let four = TrainingConfig {
            devices: 4,
            batch_per_device: 16,
            ..one
        };
        let (one, four) = (train::<f64>(one, &digits), train::<f64>(four, &digits));
        for (a, b) in one.parameters().iter().zip(four.parameters()) {
            assert!((a - b).abs() < 1e-12);
        }
    }
}
