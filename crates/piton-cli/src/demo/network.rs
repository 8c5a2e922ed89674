//! The shape of the network and where its parameters lie.
//!
//! 64 pixels, two hidden layers of 64 and 32 units through tanh, ten scores through softmax. All parameters are one flat
//! array, layer after layer, weights before biases; a weight matrix is row by row with one row per *input*. One array
//! means one all-reduce and one update, whatever the number of layers.
//!
//! Why tanh and not the usual rectifier: a rectifier's slope jumps at zero, so one rounding error can switch a unit and
//! move a parameter by 1e-2 in place of 1e-6. Two correct trainings could then not be told from a wrong one.

use crate::digits::{CLASSES, PIXELS};

/// One fully connected layer and where it lies in the flat parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// Values that come in.
    pub inputs: usize,
    /// Values that go out.
    pub outputs: usize,
    /// First weight: `inputs x outputs` of them, a row per input.
    pub weights: usize,
    /// First bias: `outputs` of them, right behind the weights.
    pub biases: usize,
    /// Do the outputs go through tanh? Not in the last layer, whose scores go to softmax.
    pub is_hidden: bool,
}

impl Layer {
    const fn new(inputs: usize, outputs: usize, weights: usize, is_hidden: bool) -> Self {
        Self {
            inputs,
            outputs,
            weights,
            biases: weights + inputs * outputs,
            is_hidden,
        }
    }

    /// One behind the last bias.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.biases + self.outputs
    }
}

const FIRST: Layer = Layer::new(PIXELS, 64, 0, true);
const SECOND: Layer = Layer::new(64, 32, FIRST.end(), true);
const LAST: Layer = Layer::new(32, CLASSES, SECOND.end(), false);

/// The layers from the image to the scores.
pub const LAYERS: [Layer; 3] = [FIRST, SECOND, LAST];
/// Length of the flat parameters.
pub const PARAMETERS: usize = LAST.end();

/// First parameters: weights uniform in plus or minus `sqrt(6 / (inputs + outputs))`, which keeps the spread of
/// activations and gradients from layer to layer (Glorot and Bengio, 2010); biases zero.
#[must_use]
pub fn initial_parameters(seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut parameters = vec![0.0; PARAMETERS];
    for layer in LAYERS {
        let bound = bound_of(layer);
        for weight in parameters.iter_mut().take(layer.biases).skip(layer.weights) {
            *weight = (2.0 * random.f32() - 1.0) * bound;
        }
    }
    parameters
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a layer has far fewer than 2^24 units"
)]
fn bound_of(layer: Layer) -> f32 {
    (6.0 / (layer.inputs + layer.outputs) as f32).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_fit_together_without_gaps() {
        assert_eq!(LAYERS[0].inputs, PIXELS);
        assert_eq!(LAYERS[2].outputs, CLASSES);
        for pair in LAYERS.windows(2) {
            assert_eq!(pair[0].outputs, pair[1].inputs);
            assert_eq!(pair[0].end(), pair[1].weights);
        }
        assert_eq!(PARAMETERS, 64 * 64 + 64 + 64 * 32 + 32 + 32 * 10 + 10);
    }

    #[test]
    fn first_parameters_depend_on_the_seed_alone() {
        assert_eq!(initial_parameters(7), initial_parameters(7));
        assert_ne!(initial_parameters(7), initial_parameters(8));
        let last_bias = initial_parameters(7)[PARAMETERS - 1];
        assert_eq!(last_bias.to_bits(), 0);
    }
}
