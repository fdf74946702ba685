//! Kernels that move elements and compute nothing: strided copy (transpose, broadcast, slice, flip), pad, concat, iota,
//! fill.
//!
//! Invariant: elements are uninterpreted words of their size (`u8` … `u128`). Destinations are dense. Used by the
//! lowering of layout ops that are not views.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`strided_copy_kernel`] | x: whole buffer | `T[dims]` | [`StridedCopy`] |
//! | [`pad_kernel`] | x: `T[src]` | `T[low + src + high]` | [`Pad`] |
//! | [`concat_kernel`] | x₀ …: `T[outer, nᵢ, inner]` | `T[outer, Σ nᵢ, inner]` | [`Concat`] |
//! | [`iota_kernel`] | | `T[outer, n, inner]` | [`Iota`] |
//! | [`fill_kernel`] | | `T[len]` | [`Fill`] |

use crate::abi::Args;
use crate::by_dtype::by_size;
use bytemuck::Pod;

pub mod byte_copies;
mod concat;
mod fill;
mod iota;
mod pad;
pub use concat::{Concat, concat_kernel, concat_kernel_for};
pub use fill::{Fill, fill_kernel, fill_kernel_for};
pub use iota::{Iota, iota_kernel, iota_kernel_for};
pub use pad::{Pad, pad_kernel, pad_kernel_for};

/// Approximate number of elements in a unit.
const UNIT: usize = 512;
/// Elements of a row of tiles at most, if units of a transpose are rows of tiles.
const TRANSPOSED: usize = 1 << 16;
/// Maximal number of axes of a copy.
pub const MAX_RANK: usize = 8;
/// Columns of the source in a tile of a transpose. They are adjacent in each source row.
const TILE_ROWS: usize = 64;
/// Rows of the source in a tile: one cache line of each output row.
const TILE: usize = 16;

/// A tile of the source during a transpose.
type Tile<T> = [[T; TILE_ROWS]; TILE];

/// An element as an uninterpreted word.
pub trait CopyBits: Pod + Send + Sync {
    /// The low bits of a parameter word.
    fn from_word(word: u64) -> Self;
}

macro_rules! bits {
    ($($t:ident)*) => {$(
        impl CopyBits for $t {
            #[inline(always)]
            fn from_word(word: u64) -> $t {
                word as $t
            }
        }
    )*};
}

bits!(u8 u16 u32 u64 u128);

/// Params of [`strided_copy_kernel`]: `out[i₀, …] = x[base + Σ iₖ·stridesₖ]`, in elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StridedCopy {
    rank: usize,
    base: i64,
    dims: [usize; MAX_RANK],
    strides: [i64; MAX_RANK],
}

impl StridedCopy {
    /// The copy with the fewest axes: axes of length 1 are dropped, and adjacent axes with contiguous strides are
    /// merged. `None` if more than [`MAX_RANK`] axes remain.
    pub fn new(dims: &[usize], strides: &[i64], base: usize) -> Option<StridedCopy> {
        let mut s = StridedCopy { rank: 0, base: base as i64, dims: [0; MAX_RANK], strides: [0; MAX_RANK] };
        if dims.contains(&0) {
            s.rank = 1;
            return Some(s);
        }
        for (&dim, &stride) in dims.iter().zip(strides).filter(|(dim, _)| **dim != 1) {
            match s.rank.checked_sub(1) {
                Some(last) if s.strides[last] == stride * dim as i64 => {
                    s.dims[last] *= dim;
                    s.strides[last] = stride;
                }
                _ => {
                    *s.dims.get_mut(s.rank)? = dim;
                    s.strides[s.rank] = stride;
                    s.rank += 1;
                }
            }
        }
        if s.rank == 0 {
            (s.rank, s.dims[0], s.strides[0]) = (1, 1, 1);
        }
        Some(s)
    }

    /// Elements of the output.
    pub fn out_len(&self) -> usize {
        self.dims[..self.rank].iter().product()
    }

    /// Elements of the output in a unit.
    pub fn per_unit(&self) -> usize {
        let tiles = TILE_ROWS * self.dims[self.rank - 1];
        match self.transposes() && tiles <= TRANSPOSED {
            true => tiles * (UNIT / tiles).max(1),
            false => UNIT,
        }
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.out_len().div_ceil(self.per_unit())
    }

    /// The parameter words of the instruction.
    pub fn to_words(self) -> Vec<u64> {
        let axes = self.dims.iter().zip(&self.strides).take(self.rank);
        [self.rank as u64, self.base as u64].into_iter().chain(axes.flat_map(|(d, s)| [*d as u64, *s as u64])).collect()
    }

    /// Reads the words back.
    pub fn from_words(words: &[u64]) -> StridedCopy {
        let mut s =
            StridedCopy { rank: words[0] as usize, base: words[1] as i64, dims: [0; MAX_RANK], strides: [0; MAX_RANK] };
        for (i, axis) in words[2..].chunks_exact(2).take(s.rank).enumerate() {
            (s.dims[i], s.strides[i]) = (axis[0] as usize, axis[1] as i64);
        }
        s
    }

    /// Whether rows of the output are columns of the source, and adjacent rows are adjacent columns.
    fn transposes(&self) -> bool {
        self.rank >= 2 && self.strides[self.rank - 2] == 1 && self.strides[self.rank - 1] != 0
    }
}

/// A cursor over the rows of the output: the index of the row, and the offset of its first element in the source.
struct CopyRow<'a> {
    shape: &'a StridedCopy,
    index: [usize; MAX_RANK],
    at: i64,
}

impl CopyRow<'_> {
    /// Row `r` of the output.
    fn new(shape: &StridedCopy, r: usize) -> CopyRow<'_> {
        let (mut index, mut at, mut left) = ([0; MAX_RANK], shape.base, r);
        for k in (0..shape.rank - 1).rev() {
            index[k] = left % shape.dims[k];
            left /= shape.dims[k];
            at += index[k] as i64 * shape.strides[k];
        }
        CopyRow { shape, index, at }
    }

    /// Advances by `by` rows, which must not pass the end of the second to last axis.
    fn advance(&mut self, by: usize) {
        let mut by = by;
        for k in (0..self.shape.rank - 1).rev() {
            let (dim, stride) = (self.shape.dims[k], self.shape.strides[k]);
            self.index[k] += by;
            self.at += by as i64 * stride;
            if self.index[k] < dim {
                return;
            }
            self.index[k] = 0;
            self.at -= dim as i64 * stride;
            by = 1;
        }
    }

    /// Rows up to the end of the second to last axis.
    fn neighbours(&self) -> usize {
        let k = self.shape.rank - 2;
        self.shape.dims[k] - self.index[k]
    }
}

/// Copies elements `at`, `at + stride`, … of `x`.
fn gather_row<T: Pod>(x: &[T], at: i64, stride: i64, out: &mut [T]) {
    let (at, step, n) = (at as usize, stride.unsigned_abs() as usize, out.len());
    match stride {
        1 => out.copy_from_slice(&x[at..at + n]),
        0 => out.fill(x[at]),
        -1 => {
            for (o, x) in out.iter_mut().zip(x[at + 1 - n..=at].iter().rev()) {
                *o = *x;
            }
        }
        2.. => {
            for (o, x) in out.iter_mut().zip(x[at..].iter().step_by(step)) {
                *o = *x;
            }
        }
        _ => {
            for (o, x) in out.iter_mut().zip(x[..=at].iter().rev().step_by(step)) {
                *o = *x;
            }
        }
    }
}

/// Writes four rows of the output, `n` apart, at column `from`, from columns `r..r + 4` of a full tile. Works in 4 × 4
/// blocks, which compile to register shuffles.
#[inline(always)]
fn write_four_transposed<T: Pod>(tile: &Tile<T>, r: usize, n: usize, from: usize, out: &mut [T]) {
    let (ab, cd) = out.split_at_mut(2 * n);
    let ((a, b), (c, d)) = (ab.split_at_mut(n), cd.split_at_mut(n));
    let rows = [a, b, c, d].map(|row| row[from..from + TILE].as_chunks_mut::<4>().0);
    let [a, b, c, d] = rows;
    let (squares, _) = tile.as_chunks::<4>();
    for ((((a, b), c), d), [w, x, y, z]) in a.iter_mut().zip(b).zip(c).zip(d).zip(squares) {
        let column = |k: usize| [w[r + k], x[r + k], y[r + k], z[r + k]];
        (*a, *b, *c, *d) = (column(0), column(1), column(2), column(3));
    }
}

/// Fills `out`, rows of `n` elements, from adjacent columns of `x`. Row `r` is column `at + r`; source rows are
/// `stride` apart.
fn transpose_rows<T: Pod>(x: &[T], at: i64, stride: i64, n: usize, tile: &mut Tile<T>, out: &mut [T]) {
    let rows = out.len() / n;
    for from in (0..n).step_by(TILE) {
        let w = TILE.min(n - from);
        for (i, line) in tile[..w].iter_mut().enumerate() {
            let at = (at + (from + i) as i64 * stride) as usize;
            let x = &x[at..at + rows];
            match x.first_chunk::<TILE_ROWS>() {
                Some(whole) => *line = *whole,
                None => line[..rows].copy_from_slice(x),
            }
        }
        let mut done = 0;
        if w == TILE {
            for four in out.chunks_exact_mut(4 * n) {
                write_four_transposed(tile, done, n, from, four);
                done += 4;
            }
        }
        for (r, out) in out.chunks_exact_mut(n).enumerate().skip(done) {
            for (o, line) in out[from..].iter_mut().zip(tile.iter()) {
                *o = line[r];
            }
        }
    }
}

/// Elements `lo..` of the output of a strided copy, row by row.
fn gather_rows<T: Pod>(p: &StridedCopy, x: &[T], lo: usize, out: &mut [T]) {
    let (n, stride) = (p.dims[p.rank - 1], p.strides[p.rank - 1]);
    let mut row = CopyRow::new(p, lo / n);
    let (mut from, mut rest) = (lo % n, out);
    while !rest.is_empty() {
        let (part, after) = rest.split_at_mut((n - from).min(rest.len()));
        gather_row(x, row.at + from as i64 * stride, stride, part);
        row.advance(1);
        (from, rest) = (0, after);
    }
}

/// [`gather_rows`] if rows are columns of the source: copies tiles of many rows, so that each cache line of the
/// source is read once.
fn gather_columns<T: Pod>(p: &StridedCopy, x: &[T], lo: usize, out: &mut [T]) {
    let (n, stride) = (p.dims[p.rank - 1], p.strides[p.rank - 1]);
    let head = ((n - lo % n) % n).min(out.len());
    let (head, mut rest) = out.split_at_mut(head);
    gather_rows(p, x, lo, head);
    let mut at = lo + head.len();
    let mut row = CopyRow::new(p, at / n);
    let mut tile = [[T::zeroed(); TILE_ROWS]; TILE];
    while rest.len() >= n {
        let rows = TILE_ROWS.min(row.neighbours()).min(rest.len() / n);
        let (part, after) = rest.split_at_mut(rows * n);
        transpose_rows(x, row.at, stride, n, &mut tile, part);
        row.advance(rows);
        at += part.len();
        rest = after;
    }
    gather_rows(p, x, at, rest);
}

/// Elements `lo..` of the output of a strided copy.
pub fn gather_strided<T: Pod>(p: &StridedCopy, x: &[T], lo: usize, out: &mut [T]) {
    match p.transposes() {
        _ if out.is_empty() => {}
        true => gather_columns(p, x, lo, out),
        false => gather_rows(p, x, lo, out),
    }
}

/// Copies a strided view into a dense tensor: transpose, broadcast (stride 0), slice with a step, flip (negative
/// stride).
///
/// Reads x: the whole source buffer; writes `T[dims]`, [`StridedCopy::per_unit`]; params [`StridedCopy`].
pub fn strided_copy_kernel<T: Pod>(args: &mut Args<'_>) {
    let p = StridedCopy::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    gather_strided(&p, args.read::<T>(0), lo, args.write::<T>(0));
}

by_size!(strided_copy_kernel_for = strided_copy_kernel);

#[cfg(test)]
mod tests;
