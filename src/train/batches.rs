//! The order of examples: shuffled epochs, addressed by seed, epoch and position.
//!
//! Invariant: the order of an epoch is a function of seed, epoch and number of examples, so a checkpoint needs only
//! epoch and position. Taking a batch allocates nothing.

use crate::arena::rng::permutation;
use crate::error::{Error, Kind, Result};

/// What happens to the last examples of an epoch if they do not fill a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Partial {
    /// They are left out.
    #[default]
    Drop,
    /// The first examples of the epoch fill up the batch. They should not count a second time: a
    /// [`Trainer`](super::Trainer) writes 1 for each real example and 0 for each that fills up into the input
    /// [`MASK`](super::trainer::MASK), and the loss multiplies by it.
    Pad,
    /// They are a smaller batch, which a [`Trainer`](super::Trainer) gives to a method of that size; see
    /// [`Trainer::method_of`](super::Trainer::method_of).
    Short,
}

/// An endless stream of batches, epoch after epoch. Each epoch has its own order. Examples that do not fill a last
/// batch are left out, unless [`Batches::partial`] says otherwise.
///
/// ```
/// use arenagrad::train::{Batches, Partial};
/// # fn main() -> arenagrad::error::Result<()> {
/// let mut b = Batches::new(10, 4, 0)?.partial(Partial::Short);
/// let sizes = [0; 4].map(|_| b.advance().len());
/// assert_eq!((sizes, b.cursor()), ([4, 4, 2, 4], (1, 4)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Batches {
    seed: u64,
    batch: usize,
    partial: Partial,
    epoch: u64,
    /// Examples of the epoch that were taken.
    at: usize,
    examples: usize,
    /// The epoch's examples; with [`Partial::Pad`], those that fill up its last batch follow.
    order: Vec<u32>,
    share: Share,
}

/// What one rank takes of each batch.
#[derive(Clone, Debug)]
struct Share {
    rank: usize,
    ranks: usize,
    /// Its examples of the batch taken last; unused if there is one rank.
    taken: Vec<u32>,
}

impl Batches {
    /// Batches of `batch` out of `examples` examples. Fails with [`Kind::Data`] unless `1 <= batch <= examples < 2³²`.
    pub fn new(examples: usize, batch: usize, seed: u64) -> Result<Batches> {
        if batch == 0 || batch > examples || u32::try_from(examples).is_err() {
            let text = format!("a batch of {batch} cannot be taken out of {examples} examples");
            return Err(Error::new(Kind::Data, text));
        }
        let (partial, order) = (Partial::default(), vec![0; examples]);
        let share = Share { rank: 0, ranks: 1, taken: Vec::new() };
        let mut b = Batches { seed, batch, partial, epoch: 0, at: 0, examples, order, share };
        b.shuffle();
        Ok(b)
    }

    /// The batches from epoch 0 on, with another choice for the last examples of an epoch. It undoes
    /// [`Batches::share`].
    pub fn partial(mut self, how: Partial) -> Batches {
        self.partial = how;
        self.share = Share { rank: 0, ranks: 1, taken: Vec::new() };
        let filling = if how == Partial::Pad { self.examples.div_ceil(self.batch) * self.batch } else { self.examples };
        self.order = vec![0; filling];
        (self.epoch, self.at) = (0, 0);
        self.shuffle();
        self
    }

    /// The choice for the last examples of an epoch.
    pub fn partial_choice(&self) -> Partial {
        self.partial
    }

    /// The share of rank `rank` of `ranks` in the same batches: each takes the examples of a batch whose place in it is
    /// `rank` modulo `ranks`. Together the ranks take what one process takes. Cursors, [`Batches::batch`] and
    /// [`Batches::real`] stay those of whole batches. Fails with [`Kind::Data`] unless `ranks` divides the batch and
    /// there is such a rank; and for partial batches, of which the ranks would take different numbers.
    ///
    /// ```
    /// # use arenagrad::train::Batches;
    /// # fn main() -> arenagrad::error::Result<()> {
    /// let mut whole = Batches::new(10, 4, 0)?;
    /// let mut second = whole.clone().share(1, 2)?;
    /// let whole = whole.advance();
    /// assert_eq!(second.advance(), [whole[1], whole[3]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn share(mut self, rank: usize, ranks: usize) -> Result<Batches> {
        let bad = |text: String| Err(Error::new(Kind::Data, text));
        if rank >= ranks || !self.batch.is_multiple_of(ranks) {
            let batch = self.batch;
            return bad(format!("rank {rank} of {ranks} has no equal share of a batch of {batch} examples"));
        }
        if self.partial != Partial::Drop {
            return bad("ranks share whole batches: partial ones must be dropped".to_string());
        }
        self.share = Share { rank, ranks, taken: Vec::with_capacity(self.batch / ranks) };
        self.take_share();
        Ok(self)
    }

    /// Writes this rank's examples of the batch taken last.
    fn take_share(&mut self) {
        if self.share.ranks > 1 {
            let whole = &self.order[self.at - self.real()..self.at];
            self.share.taken.clear();
            self.share.taken.extend(whole.iter().skip(self.share.rank).step_by(self.share.ranks));
        }
    }

    /// Number of examples that this rank takes of a batch: all of them, unless [`Batches::share`] says otherwise.
    pub fn own_batch(&self) -> usize {
        self.batch / self.share.ranks
    }

    /// Writes the order of the present epoch.
    fn shuffle(&mut self) {
        let (order, filling) = self.order.split_at_mut(self.examples);
        permutation(self.seed, self.epoch, order);
        // There is at least a batch of examples, and less than a batch is missing.
        filling.iter_mut().zip(order).for_each(|(f, o)| *f = *o);
    }

    /// Number of batches of an epoch.
    fn per_epoch(&self) -> usize {
        match self.partial {
            Partial::Drop => self.examples / self.batch,
            Partial::Pad | Partial::Short => self.examples.div_ceil(self.batch),
        }
    }

    /// True if the batch taken last was the last one of its epoch.
    pub fn at_epoch_end(&self) -> bool {
        // An epoch has at least one batch.
        self.at.div_ceil(self.batch) == self.per_epoch()
    }

    /// Takes the next batch: the indices of its examples.
    pub fn advance(&mut self) -> &[u32] {
        if self.at_epoch_end() {
            self.epoch += 1;
            self.at = 0;
            self.shuffle();
        }
        self.at = (self.at + self.batch).min(self.examples);
        self.take_share();
        self.taken()
    }

    /// The indices of the batch taken last; none before the first.
    pub fn taken(&self) -> &[u32] {
        if self.share.ranks > 1 {
            return &self.share.taken;
        }
        let from = self.at - self.real();
        let to = if self.partial == Partial::Pad && self.at > 0 { from + self.batch } else { self.at };
        &self.order[from..to]
    }

    /// The position of the stream: the epoch, and the number of its examples taken.
    pub fn cursor(&self) -> (u64, u64) {
        (self.epoch, self.at as u64)
    }

    /// Number of examples of the batch taken last, without those that fill it up; 0 before the first.
    pub fn real(&self) -> usize {
        match self.at % self.batch {
            0 => self.batch.min(self.at),
            rest => rest,
        }
    }

    /// The number of batches before a cursor (epoch, examples taken), in all epochs.
    pub fn before(&self, (epoch, at): (u64, u64)) -> u64 {
        epoch.saturating_mul(self.per_epoch() as u64).saturating_add(at.div_ceil(self.batch as u64))
    }

    /// Fails with [`Kind::Data`] unless an epoch comes to this number of examples taken.
    fn check_cursor(&self, at: u64) -> Result<()> {
        let (n, batch) = (self.examples as u64, self.batch as u64);
        let ends = at == n && self.partial != Partial::Drop;
        match at <= n && (ends || at.is_multiple_of(batch)) {
            true => Ok(()),
            false => {
                let text = format!("position {at} is not a multiple of the batch {batch} within {n} examples");
                Err(Error::new(Kind::Data, text))
            }
        }
    }

    /// Continues from a cursor. Fails with [`Kind::Data`] unless `at` is a multiple of the batch within the epoch, or
    /// its end where its last batch is partial.
    pub fn seek(&mut self, epoch: u64, at: u64) -> Result<()> {
        self.check_cursor(at)?;
        let moved = epoch != self.epoch;
        (self.epoch, self.at) = (epoch, at as usize);
        if moved {
            self.shuffle();
        }
        self.take_share();
        Ok(())
    }

    /// Number of examples of which batches are taken.
    pub fn examples(&self) -> usize {
        self.examples
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

    /// The last batch of an epoch holds what the others leave, and examples of the epoch where it is filled up.
    #[test]
    fn partial_batches_hold_each_example_once() {
        for (how, sizes) in [(Partial::Pad, [4, 4, 4]), (Partial::Short, [4, 4, 3])] {
            let mut b = Batches::new(11, 4, 9).unwrap().partial(how);
            let mut straight = Vec::new();
            for epoch in 0..3 {
                let mut seen: Vec<u32> = Vec::new();
                for (k, size) in sizes.into_iter().enumerate() {
                    let batch = b.advance().to_vec();
                    assert_eq!((batch.len(), b.real(), b.at_epoch_end()), (size, [4, 4, 3][k], k == 2));
                    assert_eq!(b.before(b.cursor()), 3 * epoch + k as u64 + 1);
                    seen.extend(&batch[..b.real()]);
                    straight.push((b.cursor(), batch));
                }
                let first = seen[0];
                assert!(how == Partial::Short || straight.last().unwrap().1[3] == first);
                seen.sort_unstable();
                assert_eq!(seen, (0..11).collect::<Vec<_>>());
            }
            for k in 1..straight.len() {
                let mut resumed = Batches::new(11, 4, 9).unwrap().partial(how);
                let (epoch, at) = straight[k - 1].0;
                resumed.seek(epoch, at).unwrap();
                assert_eq!(resumed.advance(), straight[k].1);
            }
            assert!(b.seek(0, 12).is_err() && b.seek(0, 10).is_err() && b.seek(0, 11).is_ok());
        }
        // Where the batch divides the examples, nothing is partial.
        let mut b = Batches::new(8, 4, 9).unwrap().partial(Partial::Pad);
        let mut plain = Batches::new(8, 4, 9).unwrap();
        for _ in 0..5 {
            assert_eq!(b.advance(), plain.advance());
            assert_eq!(b.real(), 4);
        }
    }

    /// The ranks together take what one process takes, also after a seek, and each in the order of the batch.
    #[test]
    fn shares_make_up_the_whole() {
        for ranks in [1, 2, 3, 6] {
            let mut whole = Batches::new(20, 6, 5).unwrap();
            let share = |rank| Batches::new(20, 6, 5).unwrap().share(rank, ranks).unwrap();
            let mut shares: Vec<Batches> = (0..ranks).map(share).collect();
            for _ in 0..8 {
                whole.advance();
                for (rank, share) in shares.iter_mut().enumerate() {
                    let want: Vec<u32> = whole.taken().iter().skip(rank).step_by(ranks).copied().collect();
                    assert_eq!(share.advance(), want);
                    let (epoch, at) = share.cursor();
                    let mut there = Batches::new(20, 6, 5).unwrap().share(rank, ranks).unwrap();
                    there.seek(epoch, at).unwrap();
                    assert_eq!((there.taken(), there.own_batch(), there.batch()), (&want[..], 6 / ranks, 6));
                }
            }
        }
        let of = |rank, ranks| Batches::new(20, 6, 5).unwrap().share(rank, ranks).unwrap_err().message;
        assert_eq!(of(1, 4), "rank 1 of 4 has no equal share of a batch of 6 examples");
        assert_eq!(of(2, 2), "rank 2 of 2 has no equal share of a batch of 6 examples");
        assert!(Batches::new(20, 6, 5).unwrap().partial(Partial::Pad).share(0, 2).is_err());
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
        assert!(b.seek(0, 12).is_err() && b.seek(0, 3).is_err() && b.seek(0, 10).is_err());
        assert!(b.seek(u64::MAX, 8).is_ok());
        assert!(Batches::new(3, 4, 0).is_err() && Batches::new(3, 0, 0).is_err());
    }

    #[test]
    fn nothing_is_taken_before_the_first_batch() {
        for how in [Partial::Drop, Partial::Pad, Partial::Short] {
            let mut b = Batches::new(5, 2, 3).unwrap();
            b.advance();
            // Another choice begins with the first epoch.
            b = b.partial(how);
            assert_eq!((b.taken(), b.real(), b.cursor(), b.at_epoch_end()), (&[][..], 0, (0, 0), false));
            assert_eq!((b.batch(), b.partial_choice()), (2, how));
            let first = b.advance().to_vec();
            assert_eq!((b.taken(), b.real(), b.cursor()), (&first[..], 2, (0, 2)));
            b.advance();
            assert_eq!(b.at_epoch_end(), how == Partial::Drop);
            let sizes = [b.advance().len(), b.real()];
            assert_eq!(
                sizes,
                if how == Partial::Short { [1, 1] } else { [2, if how == Partial::Pad { 1 } else { 2 }] }
            );
        }
    }

    #[test]
    fn cursors_tell_how_many_batches_are_before_them() {
        let b = Batches::new(5, 2, 3).unwrap();
        assert_eq!([(0, 0), (0, 2), (0, 4), (3, 2)].map(|at| b.before(at)), [0, 1, 2, 7]);
        let short = b.clone().partial(Partial::Short);
        assert_eq!([(0, 4), (0, 5), (3, 2)].map(|at| short.before(at)), [2, 3, 10]);
        assert_eq!(b.before((u64::MAX, 2)), u64::MAX);
        let mut one = Batches::new(4, 4, 0).unwrap();
        let why = |e: Result<()>| e.unwrap_err().message;
        assert!(one.seek(0, 4).is_ok() && one.at_epoch_end());
        assert_eq!(why(one.seek(0, 3)), "position 3 is not a multiple of the batch 4 within 4 examples");
        assert_eq!(why(one.seek(0, 8)), "position 8 is not a multiple of the batch 4 within 4 examples");
        assert_eq!(one.cursor(), (0, 4));
        for (examples, batch) in [(1 << 32, 4), (3, 0), (3, 4)] {
            let e = Batches::new(examples, batch, 0).unwrap_err().message;
            assert_eq!(e, format!("a batch of {batch} cannot be taken out of {examples} examples"));
        }
    }
}
