//! The two inner loops of every convolution: a product whose right operand is read from a strip, and dot products
//! along a strip.
//!
//! Invariant: an output element is one chain of `mul_add` in the order of the taps ([`panel`]), or a fixed number of
//! lane chains added up in a fixed tree ([`dots`]). The tile sizes differ between instruction sets and never show in
//! the bits. Used by the sibling files only.

use crate::kernels::float::Float;
use crate::kernels::simd::{Isa, isa};
use crate::simd;

/// What [`panel`] computes: `rows` output rows of `width` positions.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Rows of the output that exist; the packed rows after them are padding.
    pub rows: usize,
    /// Positions.
    pub width: usize,
    /// Elements from one output row to the next.
    pub ld: usize,
    /// Whether negative results become 0.
    pub relu: bool,
}

/// A tile of `M` rows by `W` positions, `H` where fewer are left.
#[derive(Clone, Copy)]
struct Tile<const M: usize, const W: usize, const H: usize>;

/// Most rows that one block may have.
pub(super) fn max_rows() -> usize {
    if isa() == Isa::Avx512 { 8 } else { 6 }
}

/// Rows of the next block when `left` rows are left: the smallest of 1, 2, 4, 6, 8 that holds them, or the most.
pub(super) fn block_rows(left: usize, most: usize) -> usize {
    [1, 2, 4, 6, 8].into_iter().find(|b| *b >= left).unwrap_or(8).min(most)
}

#[inline(always)]
fn tile<T: Float, const M: usize, const W: usize>(a: &[T], offs: &[u32], strip: &[T]) -> [[T; W]; M] {
    let mut acc = [[T::ZERO; W]; M];
    for (a, &off) in a.as_chunks::<M>().0.iter().zip(offs) {
        let b = &strip[off as usize..][..W];
        for (acc, a) in acc.iter_mut().zip(a) {
            for (c, b) in acc.iter_mut().zip(b) {
                *c = a.mul_add(*b, *c);
            }
        }
    }
    acc
}

#[inline(always)]
fn store<T: Float, const M: usize, const W: usize>(
    acc: &mut [[T; W]; M],
    bias: &[T],
    s: Span,
    dst: &mut [T],
    keep: usize,
) {
    for (acc, b) in acc.iter_mut().zip(bias) {
        acc.iter_mut().for_each(|v| *v += *b);
    }
    if s.relu {
        // A NaN is not below 0 and stays.
        acc.iter_mut().flatten().for_each(|v| *v = if *v < T::ZERO { T::ZERO } else { *v });
    }
    for (acc, row) in acc.iter().zip(dst.chunks_mut(s.ld)).take(s.rows) {
        if keep >= W {
            row[..W].copy_from_slice(acc);
        } else {
            row[..keep].copy_from_slice(&acc[..keep]);
        }
    }
}

simd! {
    fn walk[T: Float, const M: usize, const W: usize, const H: usize](
        _t: Tile<M, W, H>, a: &[T], offs: &[u32], strip: &[T], bias: &[T], s: Span, dst: &mut [T],
    ) {
        let mut q = 0;
        while q < s.width {
            let left = s.width - q;
            if left > W - H {
                let mut acc = tile::<T, M, W>(a, offs, &strip[q..]);
                store(&mut acc, bias, s, &mut dst[q..], left);
                q += W;
            } else {
                let mut acc = tile::<T, M, H>(a, offs, &strip[q..]);
                store(&mut acc, bias, s, &mut dst[q..], left);
                q += H;
            }
        }
    }
}

/// `dst[r][q] = Σ_k a[k][r] * strip[offs[k] + q]` (+ `bias[r]`, then relu) for a block of `m` packed rows: one of 1, 2, 4, 6, 8.
///
/// Reads up to [`SLACK`](super::plan::SLACK) elements past the last position and drops what comes of them.
pub(super) fn panel<T: Float>(m: usize, a: &[T], offs: &[u32], strip: &[T], bias: &[T], s: Span, dst: &mut [T]) {
    macro_rules! by_rows {
        ($w1:literal, $w2:literal, $w4:literal, $w:literal, $h:literal) => {
            match m {
                1 => walk(Tile::<1, $w1, $h>, a, offs, strip, bias, s, dst),
                2 => walk(Tile::<2, $w2, $h>, a, offs, strip, bias, s, dst),
                4 => walk(Tile::<4, $w4, $h>, a, offs, strip, bias, s, dst),
                6 => walk(Tile::<6, $w, $h>, a, offs, strip, bias, s, dst),
                _ => walk(Tile::<8, $w, $h>, a, offs, strip, bias, s, dst),
            }
        };
    }
    match (size_of::<T>(), isa()) {
        (4, Isa::Avx512) => by_rows!(64, 64, 32, 32, 16),
        (4, _) => by_rows!(32, 32, 16, 16, 8),
        (_, Isa::Avx512) => by_rows!(32, 32, 16, 16, 8),
        _ => by_rows!(16, 16, 8, 8, 4),
    }
}

/// The operands of [`dots`]: `images` pairs of strips, `rows` rows of `width` positions each.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub images: usize,
    pub rows: usize,
    pub width: usize,
    /// Elements from one row of x to the next, and from one image to the next.
    pub x: [usize; 2],
    /// Elements of dy from one row to the next, from one channel to the next, and from one image to the next.
    pub dy: [usize; 3],
}

/// Taps of a [`dots`] tile: three, because kernels of 3 × 3 are the common ones.
pub(super) const TAPS: usize = 3;

#[derive(Clone, Copy)]
struct Dots<const M: usize, const L: usize>;

#[inline(always)]
fn tree<T: Float, const L: usize>(mut v: [T; L]) -> T {
    let mut half = L / 2;
    while half > 0 {
        let (low, high) = v.split_at_mut(half);
        for (l, h) in low.iter_mut().zip(high) {
            *l += *h;
        }
        half /= 2;
    }
    v[0]
}

simd! {
    fn dots_of[T: Float, const M: usize, const L: usize](
        _d: Dots<M, L>, x: &[T], offs: [usize; TAPS], dy: &[T], s: Rows, out: &mut [[T; TAPS]],
    ) {
        let mut acc = [[[T::ZERO; L]; TAPS]; M];
        for image in 0..s.images {
            for row in 0..s.rows {
                let (xr, dyr) = (&x[image * s.x[1] + row * s.x[0]..], &dy[image * s.dy[2] + row * s.dy[0]..]);
                let mut q = 0;
                while q + L <= s.width {
                    for m in 0..M {
                        let d = &dyr[m * s.dy[1] + q..][..L];
                        for (acc, off) in acc[m].iter_mut().zip(offs) {
                            for ((acc, x), d) in acc.iter_mut().zip(&xr[off + q..][..L]).zip(d) {
                                *acc = x.mul_add(*d, *acc);
                            }
                        }
                    }
                    q += L;
                }
                let left = s.width - q;
                if left > 0 {
                    // Past the row's end stand pixels that do not belong to it: they are masked, not multiplied by
                    // zero, because they may be infinite.
                    for m in 0..M {
                        let d = &dyr[m * s.dy[1] + q..][..L];
                        for (acc, off) in acc[m].iter_mut().zip(offs) {
                            for (i, ((acc, x), d)) in acc.iter_mut().zip(&xr[off + q..][..L]).zip(d).enumerate() {
                                let v = x.mul_add(*d, *acc);
                                *acc = if i < left { v } else { *acc };
                            }
                        }
                    }
                }
            }
        }
        for (out, acc) in out.iter_mut().zip(acc) {
            for (out, acc) in out.iter_mut().zip(acc) {
                *out = tree(acc);
            }
        }
    }
}

/// `out[m][j] = Σ x[offs[j] + position] * dy[m][position]` over all images, rows and positions, for `m` channels of dy:
/// one of 1, 2, 4, 6, 8.
pub(super) fn dots<T: Float>(m: usize, x: &[T], offs: [usize; TAPS], dy: &[T], s: Rows, out: &mut [[T; TAPS]]) {
    macro_rules! by_rows {
        ($l:literal) => {
            match m {
                1 => dots_of(Dots::<1, $l>, x, offs, dy, s, out),
                2 => dots_of(Dots::<2, $l>, x, offs, dy, s, out),
                4 => dots_of(Dots::<4, $l>, x, offs, dy, s, out),
                6 => dots_of(Dots::<6, $l>, x, offs, dy, s, out),
                _ => dots_of(Dots::<8, $l>, x, offs, dy, s, out),
            }
        };
    }
    if size_of::<T>() == 4 { by_rows!(16) } else { by_rows!(8) }
}
