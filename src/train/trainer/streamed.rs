//! Steps on batches of a stream.
//!
//! Invariant: the position counts the batches whose steps are done. After a step that failed, the source seeks back to
//! it.

use super::{Feed, Progress, Trainer, wrong_feed};
use crate::error::{Error, Kind, Result};
use crate::session::Program;
use crate::train::Rate;
use crate::train::stream_source::{Source, StreamPosition, Supply};

/// What [`Trainer::pull_streamed`] came to.
pub enum Pulled {
    Step(Progress),
    EndOfEpoch,
    End,
}

/// Where a stream is.
pub struct StreamFeed {
    pub at: StreamPosition,
    /// Batches taken in all epochs.
    pub taken: u64,
    /// Whether the source is known to be at `at`.
    pub there: bool,
}

impl Default for StreamFeed {
    fn default() -> StreamFeed {
        StreamFeed { at: StreamPosition::default(), taken: 0, there: true }
    }
}

impl Trainer {
    /// As [`Trainer::new`], for batches that come from a stream ([`Trainer::step_from`]) or from the caller, one by one
    /// ([`Trainer::step`], whose `fill` then gets no indices).
    pub fn streaming(program: Program, loss: &str, rate: impl Into<Rate>, seed: u64) -> Result<Trainer> {
        Trainer::new_with_feed(program, loss, rate.into(), Feed::Stream(StreamFeed::default()), seed)
    }

    /// Whether batches come one by one, not from shuffled examples.
    pub(in crate::train) fn is_streaming(&self) -> bool {
        matches!(self.feed, Feed::Stream(_))
    }

    /// Where the stream is; at its start without a stream.
    pub(in crate::train) fn stream_position(&self) -> StreamPosition {
        match &self.feed {
            Feed::Shuffled(_) => StreamPosition::default(),
            Feed::Stream(s) => s.at,
        }
    }

    /// As [`Trainer::step_from`], but returns at the end of an epoch, too.
    pub(in crate::train) fn pull_streamed(&mut self, source: &mut dyn Source) -> Result<Pulled> {
        let lr = self.next_lr()?;
        let Feed::Stream(s) = &mut self.feed else { return Err(wrong_feed("shuffled batches", "step")) };
        let at = s.at;
        let named = |e: Error| e.context(format!("batch {} of epoch {}", at.batch, at.epoch));
        // Until the step is done, the source is where a failed step leaves it.
        if !std::mem::take(&mut s.there) {
            source.seek(at).map_err(named)?;
        }
        let examples = match source.next(&mut self.program).map_err(named)? {
            Supply::Batch(examples) => examples,
            Supply::End => {
                s.there = true;
                return Ok(Pulled::End);
            }
            Supply::EndOfEpoch => {
                (s.at, s.there) = (StreamPosition { epoch: at.epoch + 1, batch: 0 }, true);
                return Ok(Pulled::EndOfEpoch);
            }
        };
        // The first method is for batches of any size.
        let method = self.steps.iter().skip(1).position(|io| io.examples == examples).map_or(0, |i| i + 1);
        self.steps[method].lr.write(&mut self.program, lr)?;
        let ns = self.run(method).map_err(named)?;
        self.took_streamed(true);
        self.done(method, examples, lr, ns).map(Pulled::Step)
    }

    /// Runs one step on a batch that `fill` writes, without indices.
    pub(super) fn step_streamed_alone(
        &mut self,
        lr: f64,
        fill: &mut dyn FnMut(&mut Program, &[u32]) -> Result<()>,
    ) -> Result<Progress> {
        self.steps[0].lr.write(&mut self.program, lr)?;
        fill(&mut self.program, &[])?;
        let ns = self.run(0)?;
        // The caller took the batch, not a source.
        self.took_streamed(false);
        self.done(0, 0, lr, ns)
    }

    /// Counts a batch of the stream.
    fn took_streamed(&mut self, by_source: bool) {
        if let Feed::Stream(s) = &mut self.feed {
            s.at.batch += 1;
            s.taken += 1;
            s.there = by_source;
        }
    }

    /// The error of a stream that would never give a batch. The stream is at `start` again, where it was before.
    #[cold]
    pub(in crate::train) fn empty_streamed_epoch(&mut self, start: StreamPosition) -> Error {
        let epoch = self.epoch().saturating_sub(1);
        if let Feed::Stream(s) = &mut self.feed {
            (s.at, s.there) = (start, false);
        }
        Error::new(Kind::Data, format!("the source gives no batch in epoch {epoch}"))
    }
}
