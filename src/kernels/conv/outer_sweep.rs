//! The weight gradient with output channels in the lanes: each pixel of x is multiplied by the [`BLOCK`] values of dy
//! at its position. Rows of any width fill the vectors, and no sum runs across lanes.
//!
//! Invariant: an element is one chain of `mul_add` over images, rows and columns of dy, in this order. The number of
//! taps that are computed at once does not affect the bits. Used by `weight_grad`; `conv_plan` reads [`BLOCK`].

use super::conv_micro::{fma_arrays, load_array};
use crate::float::Float;
use crate::gemm::{GemmFloat, transpose};
use crate::simd;
use crate::simd::Token;

/// Output channels of a block.
pub(super) const BLOCK: usize = 16;

/// The positions that a call sums over: `images` strips of x, `rows` rows of `cols` positions each.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub images: usize,
    pub rows: usize,
    pub cols: usize,
    /// Strides of x: from row to row, from image to image.
    pub x: [usize; 2],
}

/// Adjacent taps of x that are summed together: the largest of a few widths that divides a kernel's row.
pub(super) fn widest_tap_run(kw: usize) -> usize {
    [5, 3, 2].into_iter().find(|r| kw.is_multiple_of(*r)).unwrap_or(1)
}

/// `R` runs of `K` taps on `V` vectors of `L` channels.
struct Tile<const R: usize, const K: usize, const V: usize, const L: usize>;

/// One position: `K` pixels of each run, each times the values of the channels.
#[inline(always)]
fn add_position<T: Float, const R: usize, const K: usize, const V: usize, const L: usize>(
    rows: [&[T]; R],
    q: usize,
    dy: &[T; BLOCK],
    mut acc: [[[[T; L]; V]; K]; R],
) -> [[[[T; L]; V]; K]; R] {
    // A pixel is loaded once for all vectors of channels, which stay in registers.
    let d: [[T; L]; V] = std::array::from_fn(|v| load_array(&dy[v * L..]));
    for r in 0..R {
        let x = &rows[r][q..][..K];
        for k in 0..K {
            for v in 0..V {
                acc[r][k][v] = fma_arrays([x[k]; L], d[v], acc[r][k][v]);
            }
        }
    }
    acc
}

/// The sums stay in registers only if all indices are constants: hence the copy to `out` at the end.
#[inline(always)]
fn sum_in_registers<T: Float, const R: usize, const K: usize, const V: usize, const L: usize>(
    x: &[T],
    offs: [usize; R],
    dy: &[T],
    f: Field,
    out: &mut [[[[T; L]; V]; K]; R],
) {
    let mut acc = [[[[T::ZERO; L]; V]; K]; R];
    let mut dy = dy.as_chunks::<BLOCK>().0;
    for image in 0..f.images {
        for row in 0..f.rows {
            let base = image * f.x[1] + row * f.x[0];
            let mut rows: [&[T]; R] = [&[]; R];
            for r in 0..R {
                rows[r] = &x[offs[r] + base..][..f.cols + K - 1];
            }
            let (now, rest) = dy.split_at(f.cols);
            for (q, d) in now.iter().enumerate() {
                acc = add_position(rows, q, d, acc);
            }
            dy = rest;
        }
    }
    *out = acc;
}

/// `sums[(r * K + k) * ld + channel] += Σ x[offs[r] + k + position] * dy[position][channel]`.
#[inline(always)]
fn outer_sweep<T: Float, const R: usize, const K: usize, const V: usize, const L: usize>(
    x: &[T],
    offs: [usize; R],
    dy: &[T],
    f: Field,
    sums: &mut [T],
    ld: usize,
) {
    let mut out = [[[[T::ZERO; L]; V]; K]; R];
    sum_in_registers::<T, R, K, V, L>(x, offs, dy, f, &mut out);
    // Runs after the last one repeat it and are discarded.
    for (sums, out) in sums.chunks_mut(ld).zip(out.as_flattened()) {
        for (s, a) in sums.iter_mut().zip(out.as_flattened()) {
            *s += *a;
        }
    }
}

simd! { wide
    fn outer_sweep_wide[T: Float, const R: usize, const K: usize, const V: usize, const L: usize](
        _t: Tile<R, K, V, L>, x: &[T], offs: [usize; R], dy: &[T], f: Field, sums: &mut [T], ld: usize,
    ) {
        outer_sweep::<T, R, K, V, L>(x, offs, dy, f, sums, ld);
    }
}

simd! { narrow
    fn outer_sweep_narrow[T: Float, const R: usize, const K: usize, const V: usize, const L: usize](
        _t: Tile<R, K, V, L>, x: &[T], offs: [usize; R], dy: &[T], f: Field, sums: &mut [T], ld: usize,
    ) {
        outer_sweep::<T, R, K, V, L>(x, offs, dy, f, sums, ld);
    }
}

/// [`outer_sweep`] for runs of `k` taps at strip offsets `offs`, with [`BLOCK`] channels of dy for each position.
/// `sums` has `ld` channels for each tap.
pub(super) fn sum_tap_runs<T: Float>(k: usize, x: &[T], offs: &[u32], dy: &[T], f: Field, sums: &mut [T], ld: usize) {
    let (mut offs, mut sums) = (offs, sums);
    macro_rules! go {
        ($sweep:ident, $r:literal, $k:literal, $v:literal, $l:literal) => {{
            let some: [usize; $r] = std::array::from_fn(|r| offs[r.min(offs.len() - 1)] as usize);
            $sweep(Tile::<$r, $k, $v, $l>, x, some, dy, f, sums, ld);
            $r
        }};
    }
    // Many runs while they fill the registers, fewer for the rest.
    macro_rules! by {
        ($sweep:ident, $k:literal, $v:literal, $l:literal, $many:literal, $few:literal) => {
            if offs.len() > $many / 2 { go!($sweep, $many, $k, $v, $l) } else { go!($sweep, $few, $k, $v, $l) }
        };
    }
    while !offs.is_empty() {
        let done = match (k, size_of::<T>(), Token::current().shape::<T>().lanes) {
            (5, 4, 16) => by!(outer_sweep_wide, 5, 1, 16, 5, 2),
            (3, 4, 16) => by!(outer_sweep_wide, 3, 1, 16, 8, 3),
            (2, 4, 16) => by!(outer_sweep_wide, 2, 1, 16, 8, 2),
            (_, 4, 16) => by!(outer_sweep_wide, 1, 1, 16, 8, 2),
            (5, 8, 8) => by!(outer_sweep_wide, 5, 2, 8, 2, 1),
            (3, 8, 8) => by!(outer_sweep_wide, 3, 2, 8, 4, 1),
            (2, 8, 8) => by!(outer_sweep_wide, 2, 2, 8, 4, 2),
            (_, 8, 8) => by!(outer_sweep_wide, 1, 2, 8, 8, 2),
            (5, 4, _) => go!(outer_sweep_narrow, 1, 5, 2, 8),
            (3, 4, _) => by!(outer_sweep_narrow, 3, 2, 8, 2, 1),
            (2, 4, _) => by!(outer_sweep_narrow, 2, 2, 8, 2, 1),
            (_, 4, _) => by!(outer_sweep_narrow, 1, 2, 8, 4, 1),
            (5, _, _) => go!(outer_sweep_narrow, 1, 5, 4, 4),
            (3, _, _) => go!(outer_sweep_narrow, 1, 3, 4, 4),
            (2, _, _) => go!(outer_sweep_narrow, 1, 2, 4, 4),
            _ => by!(outer_sweep_narrow, 1, 4, 4, 2, 1),
        };
        let done = done.min(offs.len());
        offs = &offs[done..];
        sums = sums.get_mut(done * k * ld..).unwrap_or_default();
    }
}

simd! {
    /// Transposes rows of positions, one for each channel, to rows of [`BLOCK`] channels; missing channels become
    /// zeros.
    fn outer_sweep_few_channels_innermost[T: Float](from: &[T], plane: usize, len: usize, channels: usize, to: &mut [T]) {
        for c in 0..BLOCK {
            if c < channels {
                let from = &from[c * plane..][..len];
                for (to, v) in to.as_chunks_mut::<BLOCK>().0.iter_mut().zip(from) {
                    to[c] = *v;
                }
            } else {
                to.as_chunks_mut::<BLOCK>().0.iter_mut().for_each(|to| to[c] = T::ZERO);
            }
        }
    }
}

/// Transposes `channels` planes of `len` positions, `plane` elements apart, to rows of [`BLOCK`] channels.
pub(super) fn transpose_channels<T: GemmFloat>(from: &[T], plane: usize, len: usize, channels: usize, to: &mut [T]) {
    let to = &mut to[..len * BLOCK];
    if channels >= BLOCK {
        transpose(from, plane, to, BLOCK, len, BLOCK);
    } else {
        outer_sweep_few_channels_innermost(from, plane, len, channels, to);
    }
}
