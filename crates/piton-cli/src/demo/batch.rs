//! Which image goes to which device at which step.
//!
//! The training images are shuffled, dealt out until none are left, shuffled again, and so on, across the borders of
//! steps: every image is seen equally often, to within one. The order is a function of the seed alone, and one step's
//! images are dealt to the devices in turn, a whole share each.

use crate::digits::Digits;

/// An endless sequence of training images, dealt out in batches.
#[derive(Debug, Clone)]
pub struct BatchOrder {
    images: Vec<usize>,
    dealt: usize,
    random: fastrand::Rng,
}

impl BatchOrder {
    /// A new sequence over the training images of `digits`.
    #[must_use]
    pub fn new(digits: &Digits, seed: u64) -> Self {
        let images = digits.training();
        Self {
            dealt: images.len(),
            images,
            // The parameters take the seed itself: two uses of one stream of numbers would be related.
            random: fastrand::Rng::with_seed(seed ^ 0x6261_7463_685f_6f72),
        }
    }

    /// Replaces the contents of `share` by the next `count` images: one device's share of a step.
    ///
    /// Yields nothing if there are no training images.
    pub fn deal(&mut self, count: usize, share: &mut Vec<usize>) {
        share.clear();
        while share.len() < count && !self.images.is_empty() {
            if self.dealt == self.images.len() {
                self.random.shuffle(&mut self.images);
                self.dealt = 0;
            }
            let left = &self.images[self.dealt..];
            let taken = left.len().min(count - share.len());
            share.extend_from_slice(&left[..taken]);
            self.dealt += taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_is_dealt_equally_often() {
        let digits = Digits::shipped().unwrap();
        let training = digits.training();
        let mut order = BatchOrder::new(&digits, 3);
        let mut times = vec![0; digits.len()];
        let mut share = Vec::new();
        for _ in 0..training.len() {
            order.deal(5, &mut share);
            assert_eq!(share.len(), 5);
            share.iter().for_each(|&image| times[image] += 1);
        }
        assert!(training.iter().all(|&image| times[image] == 5));
        assert!(digits.held_back().iter().all(|&image| times[image] == 0));
    }

    #[test]
    fn shares_may_be_larger_than_the_data_set() {
        let digits = Digits::shipped().unwrap();
        let mut share = Vec::new();
        BatchOrder::new(&digits, 3).deal(4000, &mut share);
        assert_eq!(share.len(), 4000);
    }

    #[test]
    fn order_depends_on_the_seed_alone() {
        let digits = Digits::shipped().unwrap();
        let first_of = |seed| {
            let mut share = Vec::new();
            BatchOrder::new(&digits, seed).deal(64, &mut share);
            share
        };
        assert_eq!(first_of(3), first_of(3));
        assert_ne!(first_of(3), first_of(4));
    }
}
