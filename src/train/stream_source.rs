//! Streams of batches that need not fit in memory and may be endless.
//!
//! Invariant: a position is the number of an epoch and the number of its batches that were taken, so a checkpoint needs
//! only these two.

use crate::error::{Error, Kind, Result};
use crate::session::Program;

/// A position in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamPosition {
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// Batches of the epoch that were taken.
    pub batch: u64,
}

/// What a stream gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Supply {
    /// A batch with this number of examples: they are in the program's inputs.
    Batch(usize),
    /// The epoch is over; the next call begins another.
    EndOfEpoch,
    /// There are no more batches.
    End,
}

/// A stream of batches.
pub trait Source {
    /// Writes the next batch into the inputs of `program`. After an error the caller seeks before it calls again.
    fn next(&mut self, program: &mut Program) -> Result<Supply>;

    /// Goes to `position`: the next call of [`Source::next`] gives the batch after it. A resumed run seeks once; so
    /// does a run whose step failed, to see its batch again. Fails if the stream cannot go there.
    fn seek(&mut self, position: StreamPosition) -> Result<()>;
}

/// A [`Source`] over iterators, one for each epoch: `open(epoch)` begins an epoch, and `write(program, item)` writes an
/// item into the program's inputs and returns its number of examples. The stream ends after the iterators of `epochs`
/// epochs; an iterator may itself be endless.
///
/// The items of epoch `e` must depend on `e` alone, so that a resumed run, which skips those that were taken, sees the
/// others.
///
/// ```
/// use arenagrad::prelude::*;
/// use arenagrad::train::stream;
/// # fn main() -> Result<()> {
/// let g = Builder::new("line");
/// let (x, y) = (g.input("x", [1], DType::F32), g.input("y", [1], DType::F32));
/// let w = g.param("w", [1], DType::F32, Init::Zeros);
/// let step = train(&g.finish([(x * w).mse(y).named("loss")])?, "loss", optim::Sgd::new(0.1))?;
/// let program = Session::new().compile(&step)?;
/// let (x, y) = (program.input::<f32>("x")?, program.input::<f32>("y")?);
///
/// // Numbers without end, as a sensor or a file that is read piece by piece would give them.
/// let mut numbers = stream(
///     1,
///     |_| Ok((0u32..).map(|i| Ok((i % 5) as f32))),
///     |p: &mut Program, number: f32| {
///         p[x][0] = number;
///         p[y][0] = 3.0 * number;
///         Ok(1)
///     },
/// );
/// let mut trainer = Trainer::streaming(program, "loss", Schedule::Constant { lr: 0.05 }, 0)?;
/// for _ in 0..100 {
///     trainer.step_from(&mut numbers)?;
/// }
/// assert!((trainer.program().values::<f32>("w")?[0] - 3.0).abs() < 1e-3);
/// # Ok(())
/// # }
/// ```
pub fn stream<T, I, O, W>(epochs: u64, open: O, write: W) -> Stream<I, O, W>
where
    I: Iterator<Item = Result<T>>,
    O: FnMut(u64) -> Result<I>,
    W: FnMut(&mut Program, T) -> Result<usize>,
{
    Stream { epochs, open, write, items: None, epoch: 0 }
}

/// What [`stream`] makes.
pub struct Stream<I, O, W> {
    epochs: u64,
    open: O,
    write: W,
    /// The rest of the present epoch, once it is open.
    items: Option<I>,
    /// The present epoch.
    epoch: u64,
}

impl<T, I, O, W> Source for Stream<I, O, W>
where
    I: Iterator<Item = Result<T>>,
    O: FnMut(u64) -> Result<I>,
    W: FnMut(&mut Program, T) -> Result<usize>,
{
    fn next(&mut self, program: &mut Program) -> Result<Supply> {
        if self.epoch >= self.epochs {
            return Ok(Supply::End);
        }
        let items = match &mut self.items {
            Some(items) => items,
            None => self.items.insert((self.open)(self.epoch)?),
        };
        match items.next() {
            Some(item) => Ok(Supply::Batch((self.write)(program, item?)?)),
            None => {
                self.items = None;
                self.epoch += 1;
                Ok(Supply::EndOfEpoch)
            }
        }
    }

    fn seek(&mut self, position: StreamPosition) -> Result<()> {
        self.items = None;
        if position.epoch < self.epochs {
            let mut items = (self.open)(position.epoch)?;
            for k in 0..position.batch {
                match items.next() {
                    Some(item) => drop(item.map_err(|e| e.context(format!("batch {k} of epoch {}", position.epoch)))?),
                    None => {
                        let StreamPosition { epoch, batch } = position;
                        let text = format!("epoch {epoch} of the stream has {k} batches; {batch} of it were taken");
                        return Err(Error::new(Kind::Data, text));
                    }
                }
            }
            self.items = Some(items);
        }
        self.epoch = position.epoch;
        Ok(())
    }
}
