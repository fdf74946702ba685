//! Register tiles: the innermost loop of every matrix product, generic over the instruction set.
//!
//! Invariant: a tile computes `c[i][j] = fma(a[i][p], b[p][j], c[i][j])` for `p` ascending, one chain for each element,
//! from 0 or from C; or it updates C by an SGD step whose gradient is the sums. The bits depend neither on the tile's
//! size nor on the instruction set. Bounds of A and B are checked once for each tile; those of C hold by its type. The
//! SGD step of a partial tile reads sums that were stored first, which halves the compiled code
//! ([`apply_partial_step`]).

// Sums stay in registers only where every index is a constant, so loops are over indices: they are unrolled.
#![allow(clippy::needless_range_loop)]

use super::gemm_float::GemmFloat;
use super::operands::RegisterTileOperands;
use super::sgd_epilogue::SgdEpilogue;
use crate::abi::MatrixMut;
use crate::simd::{SimdOp, TileTerms, Vectors};

/// Elements of the largest tile: 24 vectors of 64 bytes.
const MOST_ELEMENTS: usize = 24 * 16;

/// The SGD step of a partial tile: `compute` makes the sums, and C is updated row by row.
#[inline(never)]
pub fn apply_partial_step<T: GemmFloat>(
    mut t: RegisterTileOperands<'_, T>,
    step: SgdEpilogue<T>,
    compute: impl FnOnce(RegisterTileOperands<'_, T>),
) {
    let (rows, cols) = (t.c.rows(), t.c.cols());
    let mut sums = [T::ZERO; MOST_ELEMENTS];
    let to = MatrixMut::new(&mut sums, rows, cols);
    compute(RegisterTileOperands { c: to, add: false, prefetch_c: false, prefetch: t.prefetch, step: None, ..t });
    for (i, sums) in sums.chunks_exact(cols).take(rows).enumerate() {
        for (param, gradient) in t.c.row(i).iter_mut().zip(sums) {
            *param = step.apply(*param, *gradient);
        }
    }
}

/// A tile as two: its first `whole` columns and the rest. Columns are independent, so the bits are those of one tile.
#[inline(never)]
pub fn split_columns<T>(
    mut t: RegisterTileOperands<'_, T>,
    whole: usize,
    mut compute: impl FnMut(RegisterTileOperands<'_, T>),
) {
    let (rows, cols) = (t.c.rows(), t.c.cols());
    let RegisterTileOperands { a, a_row, a_col, b, b_row, k, add, prefetch_c, .. } = t;
    let c = t.c.part(0..rows, 0..whole);
    let prefetch = t.prefetch.as_deref_mut();
    compute(RegisterTileOperands { a, a_row, a_col, b, b_row, k, c, add, prefetch_c, prefetch, step: None });
    let c = t.c.part(0..rows, whole..cols);
    compute(RegisterTileOperands {
        a,
        a_row,
        a_col,
        b: &b[whole..],
        b_row,
        k,
        c,
        add,
        prefetch_c,
        prefetch: None,
        step: None,
    });
}

/// Repeats a block for each row of a tile, unrolled in the source. Accumulators stay in registers only where every
/// index is a constant, and the compiler's own unrolling gives up on larger tiles.
macro_rules! each_row {
    ($i:ident in $rows:ident $body:block) => { each_row!(@ $i $rows $body 0 1 2 3 4 5) };
    (@ $i:ident $rows:ident $body:block $($row:literal)+) => {
        $(if const { $row < $rows } {
            const $i: usize = $row;
            $body
        })+
    };
}

/// As [`each_row`], for each vector of each row.
macro_rules! each_vector {
    ($i:ident, $j:ident in $rows:ident, $vectors:ident $body:block) => {
        each_row!($i in $rows {
            for $j in 0..$vectors $body
        });
    };
}

/// Reads vector `$j` of a row of B or C. The last one may be partial.
macro_rules! load {
    ($s:ident, $lanes:ident, $mask:ident, $row:expr, $j:expr) => {
        if PART && $j == NV - 1 {
            $s.load_partial($row.add($j * $lanes), $mask)
        } else {
            $s.load($row.add($j * $lanes))
        }
    };
}

/// Writes vector `$j` of a row of C. The last one may be partial.
macro_rules! put {
    ($s:ident, $lanes:ident, $mask:ident, $row:expr, $j:expr, $v:expr) => {{
        let (p, v) = ($row.add($j * $lanes), $v);
        if PART && $j == NV - 1 { $s.store_partial(p, $mask, v) } else { $s.store(p, v) }
    }};
}

/// The kernel of tiles of `MR` rows and `NV` vectors. With `PART`, the last vector is partial.
pub struct RegisterTileKernel<'t, 'a, S, T, const MR: usize, const NV: usize, const PART: bool>(
    pub S,
    pub &'t mut RegisterTileOperands<'a, T>,
);

impl<S: Vectors<T>, T: GemmFloat, const MR: usize, const NV: usize, const PART: bool> SimdOp
    for RegisterTileKernel<'_, '_, S, T, MR, NV, PART>
{
    type Out = ();

    #[inline(always)]
    fn call(self) {
        let RegisterTileKernel(s, t) = self;
        let (lanes, cols) = (S::LANES, t.c.cols());
        assert!(t.fits() && t.c.rows() == MR && cols <= NV * lanes && cols > (NV - 1) * lanes);
        assert!(!PART || t.step.is_none());
        let (mut a, mut b, c) = (t.a.as_ptr(), t.b.as_ptr(), t.c.as_mut_ptr());
        let (a_row, a_col, b_row, c_row) = (t.a_row, t.a_col, t.b_row, t.c.step());
        let (mask, mut acc) = (s.mask(cols - (NV - 1) * lanes), [[s.broadcast(T::ZERO); NV]; MR]);
        // Rows are addressed from every third one. The compiler must not see that those are equally far apart: it would
        // compute each address from the one before, in a chain as long as the tile's arithmetic.
        let third: [usize; 2] = std::hint::black_box([0, a_row.wrapping_mul(3)]);
        // SAFETY: by `fits`, row i < MR and column p < k of A and row p of B with `cols` columns are inside the slices.
        // By `MatrixMut`, row i of C has `cols` columns. Whole vectors end at or before `cols`. The last one is masked
        // there (it is whole if `PART` is false). Pointers advance by wrapping, so they may pass the end unread.
        #[allow(unsafe_code)]
        unsafe {
            if t.add {
                each_vector!(I, j in MR, NV { acc[I][j] = load!(s, lanes, mask, c.add(I * c_row), j); });
            }
            if t.prefetch_c {
                each_vector!(I, j in MR, NV {
                    s.prefetch(c.wrapping_add((MR + I) * c_row + j * lanes));
                });
            }
            let mut left = t.k;
            while left > 0 {
                let run = t.prefetch.as_ref().map_or(left, |lines| lines.terms.min(left));
                if S::ADDS_TERMS {
                    (a, b) = s.add_terms(&mut acc, TileTerms { a, a_row, a_col, b, b_row, terms: run, cols });
                }
                for _ in 0..if S::ADDS_TERMS { 0 } else { run } {
                    let mut row = [s.broadcast(T::ZERO); NV];
                    for j in 0..NV {
                        row[j] = load!(s, lanes, mask, b, j);
                    }
                    each_row!(I in MR {
                        let x = s.broadcast(*a.add(third[I / 3] + I % 3 * a_row));
                        for j in 0..NV {
                            acc[I][j] = s.fma(x, row[j], acc[I][j]);
                        }
                    });
                    a = a.wrapping_add(a_col);
                    b = b.wrapping_add(b_row);
                }
                left -= run;
                if let Some(lines) = &mut t.prefetch {
                    lines.visit();
                }
            }
            // The test of `PART` comes first: what follows is then compiled for whole tiles only.
            if PART || t.step.is_none() {
                each_vector!(I, j in MR, NV { put!(s, lanes, mask, c.add(I * c_row), j, acc[I][j]); });
                return;
            }
            let Some(step) = t.step else { return };
            // Sums and products, each rounded by itself, made of `fma`.
            let (one, minus, none) = (s.broadcast(T::ONE), s.broadcast(-T::ONE), s.broadcast(-T::ZERO));
            let (lr, decay) = (s.broadcast(step.lr), s.broadcast(step.decay));
            // One branch for the whole tile: a branch for each vector would cost more than the step.
            if step.decay != T::ZERO {
                each_vector!(I, j in MR, NV {
                    acc[I][j] = s.fma(one, s.fma(load!(s, lanes, mask, c.add(I * c_row), j), decay, none), acc[I][j]);
                });
            }
            each_vector!(I, j in MR, NV {
                let old = load!(s, lanes, mask, c.add(I * c_row), j);
                put!(s, lanes, mask, c.add(I * c_row), j, s.fma(minus, s.fma(lr, acc[I][j], none), old));
            });
        }
    }
}
