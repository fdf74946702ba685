//! The order of examples: shuffled epochs, addressed by seed, epoch and position.
//!
//! Invariant: the order of an epoch is a function of seed, epoch and number of examples, so a checkpoint needs only
//! epoch and position. Taking a batch allocates nothing.

use crate::arena::rng::permutation;
use crate::error::{Error, Kind, Result};

/// An endless stream of batches, epoch after epoch. Each epoch has its own order. Examples that do not fill a last
/// batch are left out.
#[derive(Clone, Debug)]
pub struct Batches {
    seed: u64,
    batch: usize,
    epoch: u64,
    at: usize,
    order: Vec<u32>,
}

impl Batches {
    /// Batches of `batch` out of `examples` examples. Fails with [`Kind::Data`] unless `1 <= batch <= examples < 2³²`.
    pub fn new(examples: usize, batch: usize, seed: u64) -> Result<Batches> {
        if batch == 0 || batch > examples || u32::try_from(examples).is_err() {
            let text = format!("a batch of {batch} cannot be taken out of {examples} examples");
            return Err(Error::new(Kind::Data, text));
        }
        let mut b = Batches { seed, batch, epoch: 0, at: 0, order: vec![0; examples] };
        permutation(seed, 0, &mut b.order);
        Ok(b)
    }

    /// Takes the next batch: the indices of its examples.
    pub fn advance(&mut self) -> &[u32] {
        if self.at + self.batch > self.order.len() {
            self.epoch += 1;
            self.at = 0;
            permutation(self.seed, self.epoch, &mut self.order);
        }
        self.at += self.batch;
        &self.order[self.at - self.batch..self.at]
    }

    /// The position of the stream: the epoch, and the number of its examples taken.
    pub fn cursor(&self) -> (u64, u64) {
        (self.epoch, self.at as u64)
    }

    /// The number of batches before a cursor (epoch, examples taken), in all epochs.
    pub fn before(&self, (epoch, at): (u64, u64)) -> u64 {
        let per_epoch = self.order.len() / self.batch;
        epoch.saturating_mul(per_epoch as u64).saturating_add(at / self.batch as u64)
    }

    /// Continues from a cursor. Fails with [`Kind::Data`] unless `at` is a multiple of the batch within the epoch.
    pub fn seek(&mut self, epoch: u64, at: u64) -> Result<()> {
        if at > self.order.len() as u64 || !at.is_multiple_of(self.batch as u64) {
            let (n, batch) = (self.order.len(), self.batch);
            let text = format!("position {at} is not a multiple of the batch {batch} within {n} examples");
            return Err(Error::new(Kind::Data, text));
        }
        (self.epoch, self.at) = (epoch, at as usize);
        permutation(self.seed, epoch, &mut self.order);
        Ok(())
    }

    /// Number of examples of a batch.
    pub fn batch(&self) -> usize {
        self.batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_visits_each_example_once_and_epochs_differ() {
        let mut b = Batches::new(10, 5, 7).unwrap();
        let mut epochs = Vec::new();
        for _ in 0..3 {
            let mut seen: Vec<u32> = b.advance().to_vec();
            seen.extend(b.advance());
            epochs.push(seen.clone());
            seen.sort_unstable();
            assert_eq!(seen, (0..10).collect::<Vec<_>>());
        }
        assert!(epochs[0] != epochs[1] && epochs[1] != epochs[2]);
    }

    #[test]
    fn what_is_left_over_is_dropped() {
        let mut b = Batches::new(10, 4, 0).unwrap();
        for step in 0..6 {
            b.advance();
            assert_eq!(b.cursor(), (step / 2, 4 * (step % 2 + 1)));
        }
    }

    #[test]
    fn a_stream_continues_from_its_cursor() {
        for steps in 0..9 {
            let mut straight = Batches::new(11, 3, 1).unwrap();
            (0..steps).for_each(|_| {
                straight.advance();
            });
            let mut resumed = Batches::new(11, 3, 1).unwrap();
            let (epoch, at) = straight.cursor();
            resumed.seek(epoch, at).unwrap();
            for _ in 0..10 {
                assert_eq!(straight.advance(), resumed.advance());
            }
        }
    }

    #[test]
    fn orders_are_fixed_for_good() {
        let mut order = [0; 8];
        permutation(0, 0, &mut order);
        assert_eq!(order, PINNED);
        permutation(0, 1, &mut order);
        assert_ne!(order, PINNED);
    }

    const PINNED: [u32; 8] = [0, 3, 7, 4, 5, 6, 2, 1];

    #[test]
    fn permutations_are_uniform_enough() {
        let mut first = [0u32; 6];
        for seed in 0..6000 {
            let mut order = [0; 6];
            permutation(seed, 3, &mut order);
            first[order[0] as usize] += 1;
        }
        assert!(first.iter().all(|&n| (850..1150).contains(&n)), "{first:?}");
    }

    #[test]
    fn bad_cursors_and_batches_are_refused() {
        let mut b = Batches::new(10, 4, 0).unwrap();
        assert!(b.seek(0, 12).is_err() && b.seek(0, 3).is_err() && b.seek(u64::MAX, 8).is_ok());
        assert!(Batches::new(3, 4, 0).is_err() && Batches::new(3, 0, 0).is_err());
    }
}
