//! Memory over the events of a trace of unknown length, in at most some thousand samples.

use crate::report::MemorySample;

const MAX_SAMPLES: usize = 2048;

/// Keeps of each stretch of events the moment at which most was held. Stretches double when there are too many.
#[derive(Debug)]
pub(super) struct Sampler {
    samples: Vec<MemorySample>,
    stretch: u64,
}

impl Sampler {
    pub(super) fn new() -> Self {
        Self {
            samples: Vec::with_capacity(MAX_SAMPLES),
            stretch: 1,
        }
    }

    /// Takes one sample; positions ascend.
    pub(super) fn record(&mut self, sample: MemorySample) {
        let (stretch, is_full) = (self.stretch, self.samples.len() == MAX_SAMPLES);
        match self.samples.last_mut() {
            Some(last) if last.at / stretch == sample.at / stretch => {
                *last = highest(*last, sample)
            }
            _ if is_full => {
                self.double();
                self.record(sample);
            }
            _ => self.samples.push(sample),
        }
    }

    fn double(&mut self) {
        self.stretch *= 2;
        let stretch = self.stretch;
        self.samples.dedup_by(|later, earlier| {
            let is_same = later.at / stretch == earlier.at / stretch;
            if is_same {
                *earlier = highest(*earlier, *later);
            }
            is_same
        });
    }

    pub(super) fn into_samples(self) -> Vec<MemorySample> {
        self.samples
    }
}

fn highest(a: MemorySample, b: MemorySample) -> MemorySample {
    if (b.live, b.held) > (a.live, a.held) {
        b
    } else {
        a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_histories_keep_their_peak_in_few_samples() {
        let mut sampler = Sampler::new();
        for at in 0..100_000 {
            let live = if at == 54_321 { 9 } else { 1 };
            sampler.record(MemorySample { at, live, held: 10 });
        }
        let samples = sampler.into_samples();
        assert!(samples.len() <= MAX_SAMPLES && samples.len() > MAX_SAMPLES / 4);
        assert!(samples.contains(&MemorySample {
            at: 54_321,
            live: 9,
            held: 10
        }));
        assert!(samples.is_sorted_by_key(|sample| sample.at));
    }
}
