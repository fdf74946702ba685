//! Steps of a run on shuffled batches or on a stream, with the ends of their epochs.
//!
//! Invariant: each end of an epoch is reported once, also in a run that resumes there.

use crate::error::Result;
use crate::session::Program;
use crate::train::stream_source::Source;
use crate::train::trainer::streamed::Pulled;
use crate::train::trainer::{Progress, Trainer};

/// Where a run's batches come from.
pub enum Feed<'f> {
    Fill(&'f mut dyn FnMut(&mut Program, &[u32]) -> Result<()>),
    Source(&'f mut dyn Source),
}

/// What a run took.
pub enum Taken {
    Step(Progress),
    /// The last step of an epoch.
    LastStep(Progress),
    /// The end of a stream's epoch.
    EndOfEpoch(u64),
    End,
}

impl Feed<'_> {
    /// Runs the next step, or comes to the end of an epoch or of the stream.
    pub fn take(&mut self, t: &mut Trainer) -> Result<Taken> {
        match self {
            Feed::Fill(fill) => {
                let p = t.step(fill)?;
                Ok(if t.epochs_done() > p.epoch { Taken::LastStep(p) } else { Taken::Step(p) })
            }
            Feed::Source(source) => {
                let before = t.stream_position();
                match t.pull_streamed(*source)? {
                    Pulled::Step(p) => Ok(Taken::Step(p)),
                    Pulled::End => Ok(Taken::End),
                    Pulled::EndOfEpoch if before.batch == 0 => Err(t.empty_streamed_epoch(before)),
                    Pulled::EndOfEpoch => Ok(Taken::EndOfEpoch(t.epoch() - 1)),
                }
            }
        }
    }
}
