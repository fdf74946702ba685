//! Padding with a constant.
//!
//! Invariant: only padded axes are stored; the others are merged into their neighbours. Used by the lowering of `pad`
//! and of the adjoint of `slice`.

use super::{CopyBits, MAX_RANK, UNIT};
use crate::abi::Args;
use crate::by_dtype::by_size;

/// One axis of a [`Pad`], in elements: before the source, of the source, and of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PadAxis {
    low: usize,
    src: usize,
    out: usize,
}

/// Params of [`pad_kernel`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pad {
    rank: usize,
    value: u64,
    axes: [PadAxis; MAX_RANK],
}

impl Pad {
    /// Pads each axis of `src` with `low` and `high` elements of `value` (its bits). Axes without padding are merged
    /// into those before them. `None` if more than [`MAX_RANK`] axes remain.
    pub fn new(src: &[usize], low: &[usize], high: &[usize], value: u64) -> Option<Pad> {
        let mut p = Pad { rank: 0, value, axes: [PadAxis::default(); MAX_RANK] };
        // Elements of the unpadded axes after this one, which move together.
        let mut inner = 1;
        for ((&src, &low), &high) in src.iter().zip(low).zip(high).rev() {
            if low == 0 && high == 0 {
                inner *= src;
                continue;
            }
            // Axes are collected from last to first.
            *p.axes.get_mut(p.rank)? = PadAxis { low: low * inner, src: src * inner, out: (low + src + high) * inner };
            (p.rank, inner) = (p.rank + 1, 1);
        }
        if inner != 1 || p.rank == 0 {
            *p.axes.get_mut(p.rank)? = PadAxis { low: 0, src: inner, out: inner };
            p.rank += 1;
        }
        p.axes[..p.rank].reverse();
        Some(p)
    }

    /// Elements of the output.
    pub fn out_len(&self) -> usize {
        self.axes[..self.rank].iter().map(|a| a.out).product()
    }

    /// Elements of the output in a unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.out_len().div_ceil(UNIT)
    }

    /// The parameter words of the instruction.
    pub fn to_words(self) -> Vec<u64> {
        let axes = self.axes[..self.rank].iter().flat_map(|a| [a.low, a.src, a.out]);
        [self.rank as u64, self.value].into_iter().chain(axes.map(|x| x as u64)).collect()
    }

    /// Reads the words back.
    pub fn from_words(words: &[u64]) -> Pad {
        let mut p = Pad { rank: words[0] as usize, value: words[1], axes: [PadAxis::default(); MAX_RANK] };
        for (axis, w) in p.axes.iter_mut().zip(words[2..].chunks_exact(3)).take(p.rank) {
            *axis = PadAxis { low: w[0] as usize, src: w[1] as usize, out: w[2] as usize };
        }
        p
    }

    /// The source row of row `r` of the output; `None` for padding.
    fn source_row(&self, r: usize) -> Option<usize> {
        let (mut left, mut row, mut size) = (r, 0, 1);
        for a in self.axes[..self.rank - 1].iter().rev() {
            let i = (left % a.out).checked_sub(a.low).filter(|i| *i < a.src)?;
            left /= a.out;
            row += i * size;
            size *= a.src;
        }
        Some(row)
    }
}

/// Columns `from..` of a row of the output: padding, source, padding.
fn fill_row<T: CopyBits>(axis: &PadAxis, x: &[T], value: T, from: usize, out: &mut [T]) {
    let (start, end) = (axis.low.max(from) - from, (axis.low + axis.src).max(from) - from);
    let (start, end) = (start.min(out.len()), end.min(out.len()));
    let (before, rest) = out.split_at_mut(start);
    let (window, after) = rest.split_at_mut(end - start);
    before.fill(value);
    if !window.is_empty() {
        window.copy_from_slice(&x[from + start - axis.low..][..end - start]);
    }
    after.fill(value);
}

/// Padding with a constant.
///
/// Reads x: `T[src]`; writes `T[low + src + high]`, [`Pad::per_unit`]; params [`Pad`].
pub fn pad_kernel<T: CopyBits>(args: &mut Args<'_>) {
    let p = Pad::from_words(args.params());
    let (x, value) = (args.read::<T>(0), T::from_word(p.value));
    let mut at = args.units().start * UNIT;
    let mut rest = args.write::<T>(0);
    let last = p.axes[p.rank - 1];
    while !rest.is_empty() {
        let (row, from) = (at / last.out, at % last.out);
        let (out, after) = rest.split_at_mut((last.out - from).min(rest.len()));
        at += out.len();
        match p.source_row(row) {
            None => out.fill(value),
            Some(row) => fill_row(&last, &x[row * last.src..][..last.src], value, from, out),
        }
        rest = after;
    }
}

by_size!(pad_kernel_for = pad_kernel);
