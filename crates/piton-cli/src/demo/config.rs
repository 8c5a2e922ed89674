//! What a training run is told, and which values make sense.

/// Devices the demonstration can spread over.
pub const MAX_DEVICES: usize = 16;
/// Longest run: at some ten milliseconds a step, a quarter of an hour.
pub const MAX_STEPS: usize = 100_000;
/// Largest share of one device, in images a step: more than half of the training images.
pub const MAX_BATCH: usize = 1024;

/// One training run. The same configuration gives the same images in the same order from the same first parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingConfig {
    /// Devices that share each step's images: `1..=16`.
    pub devices: usize,
    /// Steps, each one update of all parameters: `1..=100_000`.
    pub steps: usize,
    /// Images per device and step: `1..=1024`.
    pub batch_per_device: usize,
    /// Learning rate of the first step; it falls linearly and would reach zero one step after the last.
    pub learning_rate: f32,
    /// Share of the previous update kept in the next: `0.0..1.0`.
    pub momentum: f32,
    /// Seed of the first parameters and of the order of images.
    pub seed: u64,
}

/// A training run that was asked for and makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Too many devices, or none.
    #[error("{devices} devices asked for, possible are 1 to {MAX_DEVICES}")]
    Devices {
        /// Devices asked for.
        devices: usize,
    },
    /// No steps, or more than a demonstration should take.
    #[error("{steps} steps asked for, possible are 1 to {MAX_STEPS}")]
    Steps {
        /// Steps asked for.
        steps: usize,
    },
    /// No images a step, or more than a device's share may be.
    #[error("{batch} images per device and step asked for, possible are 1 to {MAX_BATCH}")]
    Batch {
        /// Images asked for.
        batch: usize,
    },
    /// Zero, negative or not finite.
    #[error("learning rate {rate} is not a positive number")]
    LearningRate {
        /// Rate asked for.
        rate: f32,
    },
    /// Outside `0.0..1.0`: the updates would grow without end.
    #[error("momentum {momentum} is not in 0.0..1.0")]
    Momentum {
        /// Momentum asked for.
        momentum: f32,
    },
}

impl Default for TrainingConfig {
    fn default() -> Self {
        Self {
            devices: 4,
            steps: 300,
            batch_per_device: 32,
            learning_rate: 0.1,
            momentum: 0.9,
            seed: 1,
        }
    }
}

impl TrainingConfig {
    /// Is every value in its range?
    ///
    /// # Errors
    /// The first value that is not, with its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=MAX_DEVICES).contains(&self.devices) {
            return Err(ConfigError::Devices {
                devices: self.devices,
            });
        }
        if !(1..=MAX_STEPS).contains(&self.steps) {
            return Err(ConfigError::Steps { steps: self.steps });
        }
        if !(1..=MAX_BATCH).contains(&self.batch_per_device) {
            return Err(ConfigError::Batch {
                batch: self.batch_per_device,
            });
        }
        if !(self.learning_rate.is_finite() && self.learning_rate > 0.0) {
            return Err(ConfigError::LearningRate {
                rate: self.learning_rate,
            });
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(ConfigError::Momentum {
                momentum: self.momentum,
            });
        }
        Ok(())
    }

    /// Learning rate of step `step`, counted from 0. Both trainings call this, so they round it alike.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "steps stay far below 2^24, where f32 is exact"
    )]
    pub fn learning_rate_at(&self, step: usize) -> f32 {
        self.learning_rate * (1.0 - step as f32 / self.steps as f32)
    }

    /// Images per step over all devices.
    #[must_use]
    pub fn batch_total(&self) -> usize {
        self.devices.saturating_mul(self.batch_per_device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        let good = TrainingConfig::default();
        assert_eq!(good.validate(), Ok(()));
        for devices in [0, MAX_DEVICES + 1] {
            let bad = TrainingConfig { devices, ..good };
            assert_eq!(bad.validate(), Err(ConfigError::Devices { devices }));
        }
        let bad = TrainingConfig { steps: 0, ..good };
        assert_eq!(bad.validate(), Err(ConfigError::Steps { steps: 0 }));
        let bad = TrainingConfig {
            batch_per_device: 0,
            ..good
        };
        assert_eq!(bad.validate(), Err(ConfigError::Batch { batch: 0 }));
        for learning_rate in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let bad = TrainingConfig {
                learning_rate,
                ..good
            };
            assert!(matches!(
                bad.validate(),
                Err(ConfigError::LearningRate { .. })
            ));
        }
        for momentum in [1.0, -0.1, f32::NAN] {
            let bad = TrainingConfig { momentum, ..good };
            assert!(matches!(bad.validate(), Err(ConfigError::Momentum { .. })));
        }
    }

    #[test]
    fn learning_rate_falls_to_almost_nothing() {
        let config = TrainingConfig {
            steps: 4,
            learning_rate: 1.0,
            ..TrainingConfig::default()
        };
        let rates: Vec<f32> = (0..4).map(|step| config.learning_rate_at(step)).collect();
        assert_eq!(rates, [1.0, 0.75, 0.5, 0.25]);
    }
}
