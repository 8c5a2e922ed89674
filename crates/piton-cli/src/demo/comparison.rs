//! Are two trainings the same but for rounding?
//!
//! The devices take the reference's sums in another order: a matrix product by tiles, an all-reduce around a ring. So
//! parameters may differ, and the question is by how much. Each training rounds every parameter to nearest once a step:
//! at most half a unit in the last place (ulp) each, so two trainings part by at most one ulp of the largest parameter a
//! step. Roundings inside the gradient's sums are scaled by the learning rate and are less. Every function of the network
//! is smooth and the loss falls, so what has parted is not driven apart further. If all roundings pointed one way they
//! would add up to `steps` ulps; they point either way, so they add up as a random walk does, to some `sqrt(steps)`:
//!
//! > tolerance = 4 x sqrt(steps) x 2^-23 x largest parameter
//!
//! Four is the margin. Measured over 1, 2, 3, 4, 8 and 16 devices and four seeds, the largest difference in `f32` sums
//! reversed, or from `f64`, is a sixth or less of it after 1, 10, 50, 100, 200 and 300 steps (300 steps: at most 1.2e-6
//! of 9e-6). Leaving one image out of one step of 300 moves a parameter by more than the tolerance, and a test says so.

/// Two sets of parameters side by side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Largest difference of a parameter from its counterpart; infinite if one of them is not a number.
    pub largest_difference: f64,
    /// Largest difference that rounding explains.
    pub tolerance: f64,
    /// Steps over which the rounding added up.
    pub steps: usize,
}

/// The two sets do not have the same number of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{left} parameters cannot be compared with {right}")]
pub struct LengthMismatch {
    /// Parameters on one side.
    pub left: usize,
    /// Parameters on the other.
    pub right: usize,
}

impl Comparison {
    /// Compares parameters after `steps` steps of training.
    ///
    /// # Errors
    /// [`LengthMismatch`] if the two are not equally many.
    pub fn new(left: &[f32], right: &[f32], steps: usize) -> Result<Self, LengthMismatch> {
        if left.len() != right.len() {
            return Err(LengthMismatch {
                left: left.len(),
                right: right.len(),
            });
        }
        let differences = left
            .iter()
            .zip(right)
            .map(|(a, b)| f64::from(*a) - f64::from(*b));
        let magnitudes = right.iter().map(|value| f64::from(*value));
        #[expect(clippy::cast_precision_loss, reason = "steps stay far below 2^53")]
        let steps_real = steps as f64;
        Ok(Self {
            largest_difference: largest_magnitude(differences),
            tolerance: 4.0
                * steps_real.sqrt()
                * f64::from(f32::EPSILON)
                * largest_magnitude(magnitudes),
            steps,
        })
    }

    /// Is every difference small enough to be rounding?
    #[must_use]
    pub fn is_within_tolerance(&self) -> bool {
        self.largest_difference.is_finite() && self.largest_difference <= self.tolerance
    }
}

/// Infinite if any value is not a number, so that no comparison can miss it.
fn largest_magnitude(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |largest: f64, value| {
        if value.is_nan() {
            f64::INFINITY
        } else {
            largest.max(value.abs())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::batch::BatchOrder;
    use crate::demo::reference::{Real, Reference};
    use crate::demo::{TrainingConfig, network::PARAMETERS};
    use crate::digits::Digits;

    /// Trains with the shares of each step changed by `change(step, shares)`.
    fn train<R: Real>(
        config: TrainingConfig,
        digits: &Digits,
        change: impl Fn(usize, &mut Vec<Vec<usize>>),
    ) -> Vec<R> {
        let mut order = BatchOrder::new(digits, config.seed);
        let mut run = Reference::new(config, digits).unwrap();
        for step in 0..config.steps {
            let mut shares = vec![Vec::new(); config.devices];
            shares
                .iter_mut()
                .for_each(|share| order.deal(config.batch_per_device, share));
            change(step, &mut shares);
            run.step_on(&shares);
        }
        run.parameters().to_vec()
    }

    fn compare(
        config: TrainingConfig,
        digits: &Digits,
        change: impl Fn(usize, &mut Vec<Vec<usize>>),
    ) -> Comparison {
        let reference: Vec<f32> = train(config, digits, |_, _| {});
        Comparison::new(&train(config, digits, change), &reference, config.steps).unwrap()
    }

    #[test]
    fn another_order_of_sums_is_within_the_tolerance() {
        let digits = Digits::shipped().unwrap();
        for (devices, steps, seed) in [(1, 1, 1), (1, 100, 2), (4, 300, 1), (16, 30, 3)] {
            let config = TrainingConfig {
                devices,
                steps,
                seed,
                ..TrainingConfig::default()
            };
            let comparison = compare(config, &digits, |_, shares| {
                shares.reverse();
                shares.iter_mut().for_each(|share| share.reverse());
            });
            assert!(comparison.largest_difference > 0.0, "{comparison:?}");
            assert!(comparison.is_within_tolerance(), "{comparison:?}");
        }
    }

    #[test]
    fn rounding_to_f32_is_within_the_tolerance() {
        let digits = Digits::shipped().unwrap();
        let config = TrainingConfig::default();
        let exact: Vec<f64> = train(config, &digits, |_, _| {});
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rounding is what is measured"
        )]
        let exact: Vec<f32> = exact.into_iter().map(|value| value as f32).collect();
        let reference: Vec<f32> = train(config, &digits, |_, _| {});
        let comparison = Comparison::new(&exact, &reference, config.steps).unwrap();
        assert!(comparison.is_within_tolerance(), "{comparison:?}");
    }

    #[test]
    fn one_image_left_out_of_one_step_is_noticed() {
        let digits = Digits::shipped().unwrap();
        let config = TrainingConfig::default();
        let comparison = compare(config, &digits, |step, shares| {
            if step == config.steps / 2 {
                shares[2].pop();
            }
        });
        assert!(!comparison.is_within_tolerance(), "{comparison:?}");
    }

    #[test]
    fn what_is_not_a_number_is_never_within_the_tolerance() {
        let zeros = vec![0.0; PARAMETERS];
        let mut broken = zeros.clone();
        broken[17] = f32::NAN;
        assert!(
            Comparison::new(&zeros, &zeros, 1)
                .unwrap()
                .is_within_tolerance()
        );
        assert!(
            !Comparison::new(&broken, &zeros, 1)
                .unwrap()
                .is_within_tolerance()
        );
        assert!(
            !Comparison::new(&zeros, &broken, 1)
                .unwrap()
                .is_within_tolerance()
        );
        assert!(
            !Comparison::new(&broken, &broken, 1)
                .unwrap()
                .is_within_tolerance()
        );
        assert!(Comparison::new(&zeros[1..], &zeros, 1).is_err());
    }
}
