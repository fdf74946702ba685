//! How units divide a batch of sequences of independent channels: by members of the batch, or by runs of channels,
//! whichever makes more units.
//!
//! Invariant: the units follow from the shape alone. A unit has all steps of its sequences, so a result `[batch, steps,
//! channels]` is divided by rows in the first case and by columns in the second.

use crate::abi::{Args, MatrixMut, Split};
use bytemuck::Pod;
use std::ops::Range;

/// The division of a batch of sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SequenceUnits {
    /// Sequences of the batch.
    pub batch: usize,
    /// Channels of each.
    pub channels: usize,
    /// Channels of a unit, if units are runs of channels; at least 1.
    pub width: usize,
}

/// The sequences and channels of one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceUnit {
    /// Members of the batch.
    pub batch: Range<usize>,
    /// Channels.
    pub channels: Range<usize>,
}

impl SequenceUnits {
    /// True if a unit is a member of the batch, with all channels.
    pub fn by_batch(&self) -> bool {
        self.batch >= self.runs()
    }

    /// Runs of channels.
    fn runs(&self) -> usize {
        self.channels.div_ceil(self.width)
    }

    /// Number of units.
    pub fn count(&self) -> usize {
        if self.by_batch() { self.batch } else { self.runs() }
    }

    /// Units that a sum over the channels is divided among.
    pub fn sums(&self) -> usize {
        if self.by_batch() { 1 } else { self.runs() }
    }

    /// Unit number `unit`.
    pub fn unit(&self, unit: usize) -> SequenceUnit {
        match self.by_batch() {
            true => SequenceUnit { batch: unit..unit + 1, channels: 0..self.channels },
            false => {
                let from = unit * self.width;
                SequenceUnit { batch: 0..self.batch, channels: from..(from + self.width).min(self.channels) }
            }
        }
    }

    /// The split of a result `[batch, rows, channels, columns]`.
    pub fn split(&self, rows: usize, columns: usize) -> Split {
        let row = self.channels * columns;
        match self.by_batch() {
            true => Split::PerUnit(rows * row),
            false => Split::Columns { row, width: self.width * columns },
        }
    }

    /// This call's part of write `j`, a result `[batch, rows, channels, columns]`.
    pub fn part<'a, T: Pod>(&self, args: &mut Args<'a>, j: usize, rows: usize, columns: usize) -> SequencePart<'a, T> {
        let units = args.units();
        let matrix = match self.by_batch() {
            true => MatrixMut::new(args.write(j), units.len() * rows, self.channels * columns),
            false => args.panel(j),
        };
        let SequenceUnit { batch, channels } = self.unit(units.start);
        SequencePart { matrix, rows, columns, first: [batch.start, channels.start] }
    }
}

/// A call's part of a result `[batch, rows, channels, columns]`.
pub struct SequencePart<'a, T> {
    matrix: MatrixMut<'a, T>,
    rows: usize,
    columns: usize,
    /// The first member of the batch and the first channel.
    first: [usize; 2],
}

impl<T> SequencePart<'_, T> {
    /// The rows of member `b`, with the columns of some channels.
    pub fn at(&mut self, b: usize, channels: &Range<usize>) -> MatrixMut<'_, T> {
        let (row, [_, first]) = ((b - self.first[0]) * self.rows, self.first);
        let columns = (channels.start - first) * self.columns..(channels.end - first) * self.columns;
        self.matrix.part(row..row + self.rows, columns)
    }
}

/// The number of steps between two kept states: ⌈√steps⌉, at least 1.
pub(super) fn sequence_stretch(steps: usize) -> usize {
    let root = steps.isqrt();
    (root + usize::from(root * root < steps)).max(1)
}
