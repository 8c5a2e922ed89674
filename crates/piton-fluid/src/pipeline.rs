//! A copy in chunks through several stages, with few buffers between two of them.
//!
//! A relay or a stop in host memory is two copies; the second half of one chunk goes beside the first half of
//! the next. Each chunk in a stage is a flow of its own, a stage works on one chunk at a time, and a chunk
//! enters a stage only when a buffer behind it is free. So filling and draining the line are in the answer.

use std::collections::BTreeMap;

use crate::error::FluidError;
use crate::flow::{FlowId, FlowSpec, Use};
use crate::fluid::Fluid;

/// A copy in chunks.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// What each stage uses, in order; at least one stage.
    pub stages: Vec<Box<[Use]>>,
    /// Bytes of the whole copy.
    pub bytes: u64,
    /// Bytes of a chunk; at least 1.
    pub chunk: u64,
    /// Buffers between a stage and the next; at least 1.
    pub buffers: u64,
    /// Nanoseconds to start a chunk in a stage.
    pub launch: u64,
}

/// How far the chunks of one pipeline are.
struct Progress<'p> {
    pipeline: &'p Pipeline,
    /// Chunks each stage has begun and ended.
    begun: Vec<u64>,
    ended: Vec<u64>,
}

impl Pipeline {
    /// Runs the copies at once in `fluid`, beside whatever else flows there, until all have ended. Returns when each
    /// ended, in nanoseconds of virtual time. A copy without stages or bytes ends when it starts.
    ///
    /// # Errors
    /// As [`Fluid::start`] and [`Fluid::next_ended`].
    pub fn run(pipelines: &[Self], fluid: &mut Fluid) -> Result<Vec<u64>, FluidError> {
        let mut ends = vec![fluid.now(); pipelines.len()];
        let mut lines: Vec<Progress<'_>> = pipelines.iter().map(Progress::new).collect();
        let mut whose: BTreeMap<FlowId, (usize, usize)> = BTreeMap::new();
        for (number, line) in lines.iter_mut().enumerate() {
            line.start_all(number, fluid, &mut whose)?;
        }
        while !whose.is_empty() {
            let Some(ended) = fluid.next_ended()? else {
                break;
            };
            let Some((number, stage)) = whose.remove(&ended.flow) else {
                continue;
            };
            lines[number].ended[stage] += 1;
            ends[number] = ended.at;
            lines[number].start_all(number, fluid, &mut whose)?;
        }
        Ok(ends)
    }

    fn chunks(&self) -> u64 {
        self.bytes.div_ceil(self.chunk.max(1))
    }
}

impl<'p> Progress<'p> {
    fn new(pipeline: &'p Pipeline) -> Self {
        let stages = pipeline.stages.len();
        Self {
            pipeline,
            begun: vec![0; stages],
            ended: vec![0; stages],
        }
    }

    /// Starts whatever can start.
    fn start_all(
        &mut self,
        number: usize,
        fluid: &mut Fluid,
        whose: &mut BTreeMap<FlowId, (usize, usize)>,
    ) -> Result<(), FluidError> {
        for stage in 0..self.begun.len() {
            if self.can_start(stage) {
                let flow = fluid.start(self.chunk(stage))?;
                whose.insert(flow, (number, stage));
                self.begun[stage] += 1;
            }
        }
        Ok(())
    }

    fn can_start(&self, stage: usize) -> bool {
        let next = self.begun[stage];
        let is_idle = next == self.ended[stage];
        let is_there = match stage.checked_sub(1) {
            None => next < self.pipeline.chunks(),
            Some(before) => next < self.ended[before],
        };
        // A buffer is taken when a chunk sets out for it, and free when the next stage has ended it.
        let behind = self.ended.get(stage + 1);
        let has_room = behind.is_none_or(|gone| next < gone + self.pipeline.buffers.max(1));
        is_idle && is_there && has_room
    }

    fn chunk(&self, stage: usize) -> FlowSpec {
        let chunk = self.pipeline.chunk.max(1);
        let done = self.begun[stage].saturating_mul(chunk);
        let bytes = chunk.min(self.pipeline.bytes.saturating_sub(done));
        FlowSpec {
            delay: self.pipeline.launch,
            ..FlowSpec::new(self.pipeline.stages[stage].clone(), bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::ResourceId;

    fn pipeline(buffers: u64) -> Pipeline {
        let stage = |id| Box::from([Use::whole(ResourceId(id))]);
        Pipeline {
            stages: vec![stage(0), stage(1)],
            bytes: 1_000,
            chunk: 100,
            buffers,
            launch: 0,
        }
    }

    fn time(pipelines: &[Pipeline]) -> Vec<u64> {
        // A byte a nanosecond each.
        let mut fluid = Fluid::new(vec![1_000_000_000; 2]);
        Pipeline::run(pipelines, &mut fluid).unwrap()
    }

    #[test]
    fn halves_overlap_but_for_one_chunk_and_one_buffer_forbids_it() {
        assert_eq!(time(&[pipeline(2)]), [1_100]);
        assert_eq!(time(&[pipeline(1)]), [2_000]);
    }

    #[test]
    fn two_copies_share_the_stages() {
        let ends = time(&[pipeline(2), pipeline(2)]);
        assert!(
            ends.iter().all(|end| (2_000..=2_200).contains(end)),
            "{ends:?}"
        );
    }

    #[test]
    fn the_last_chunk_may_be_short_and_nothing_is_over_at_once() {
        let mut short = pipeline(2);
        short.bytes = 150;
        assert_eq!(time(&[short]), [200 + 50]);
        let mut nothing = pipeline(2);
        nothing.bytes = 0;
        assert_eq!(time(&[nothing]), [0]);
    }
}
