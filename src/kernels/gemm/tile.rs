//! Register tiles: the innermost loops of every matrix product, written once and compiled for AVX-512 and AVX2.
//!
//! Invariant: a tile computes `c[i][j] = fma(a[i][p], b[p][j], c[i][j])` for `p` ascending, one chain per element,
//! starting from 0 or from C; or C takes a step of SGD by the sums. Neither the height and width of the tile nor the instruction set show in the bits.
//! This is the only file of the folder with `unsafe` in it: loads and stores whose bounds are checked once per tile (those
//! of C by its panel), and calls of functions that are compiled for an instruction set which [`Level`] has seen on this CPU.
//! Only its neighbours in the folder use it.

use super::operands::{Dots, Tile};
use super::portable;
use super::shapes::{shape_of, width_of};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::square;
use crate::kernels::num::Real;
use crate::kernels::simd::{self, Isa};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use std::arch::x86_64::*;

/// An instruction set that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Isa);

impl Level {
    /// The one that kernels use.
    #[inline]
    pub fn current() -> Level {
        Level(simd::isa())
    }

    /// The best one that is at most `isa`.
    #[cfg(test)]
    pub fn at_most(isa: Isa) -> Level {
        Level(simd::detect().min(isa))
    }
}

/// Element types that matrix products are compiled for.
pub trait GemmFloat: Real {
    /// The largest tile of an instruction set for a block of `rows` rows: height, and width in columns.
    #[doc(hidden)]
    fn shape(level: Level, rows: usize) -> (usize, usize);
    /// The widest tile of `rows` rows that covers at most `cols` columns.
    #[doc(hidden)]
    fn width(level: Level, rows: usize, cols: usize) -> usize;
    /// Computes one tile; its size must be one that `shape` and `width` gave.
    #[doc(hidden)]
    fn tile(level: Level, t: Tile<'_, Self>);
    /// Computes dot products.
    #[doc(hidden)]
    fn dots(level: Level, d: Dots<'_, Self>);
    /// Copies `to[o * to_step + i] = from[i * step + o]` for `o` below `outer` and `i` below `inner`.
    #[doc(hidden)]
    fn transpose(level: Level, from: &[Self], step: usize, to: &mut [Self], to_step: usize, outer: usize, inner: usize);
}

/// Repeats a block for each row of a tile, unrolled in the source: accumulators stay in registers only where every index
/// is a constant, and the compiler's own unrolling gives up on the larger tiles.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! each_row {
    ($i:ident in $rows:ident $body:block) => { each_row!(@ $i $rows $body 0 1 2 3 4 5) };
    (@ $i:ident $rows:ident $body:block $($row:literal)+) => {
        $(if $row < $rows {
            const $i: usize = $row;
            $body
        })+
    };
}

/// As [`each_row`], for each vector of the row.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! each_vector {
    ($i:ident, $j:ident in $rows:ident, $vectors:ident $body:block) => {
        each_row!($i in $rows {
            for $j in 0..$vectors $body
        });
    };
}

/// The kernels of one instruction set and element type, and the choice among them by the tile's size.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! kernels {
    ($name:ident, $features:literal, $t:ident, $lanes:literal, $deep:literal, $by:literal, $alone:literal, $part:ident, $fold:ident, $sums:ident, $lone:ident, [$($rows:literal: $($vectors:literal)+),+ $(,)?],
     $zero:ident, $splat:ident, $fma:ident, $load:ident, $store:ident, $mask:expr, $load_part:expr, $store_part:expr) => {
        mod $name {
            use super::super::order::LANES_BYTES;
            use super::super::square;
            use super::{Dots, Tile};
            use std::arch::x86_64::*;

            /// The tile of `MR` rows and `NV` vectors, the last of which may be cut (`PART`).
            #[target_feature(enable = $features)]
            fn kernel<const MR: usize, const NV: usize, const PART: bool>(t: &mut Tile<'_, $t>) {
                let cols = t.c.cols();
                assert!(t.fits() && t.c.rows() == MR && cols <= NV * $lanes && cols > (NV - 1) * $lanes);
                let mask = $mask(cols - (NV - 1) * $lanes);
                let (mut a, mut b, c) = (t.a.as_ptr(), t.b.as_ptr(), t.c.as_mut_ptr());
                let (a_row, a_col, b_row, c_row) = (t.a_row, t.a_col, t.b_row, t.c.step());
                let mut acc = [[$zero(); NV]; MR];
                // Rows are addressed from every third one. Hiding that those are equally far apart keeps the compiler
                // from finding each row by adding to the one before: a chain as long as the tile's arithmetic.
                let third: [usize; 2] = std::hint::black_box(std::array::from_fn(|i| i * 3 * a_row));
                // SAFETY: `fits` holds: row i < MR and column p < k of A and row p of B with `cols` columns lie inside the
                // slices; row i of C with `cols` columns is the panel's. Whole vectors end at or before `cols`; the last one is
                // cut there by `mask` (it is whole if `PART` is false). The pointers advance by wrapping, so they may pass the end unread.
                #[allow(unsafe_code)]
                unsafe {
                    let load = |p: *const $t, j: usize| {
                        if PART && j == NV - 1 { $load_part(p.add(j * $lanes), mask) } else { $load(p.add(j * $lanes)) }
                    };
                    if t.add {
                        each_vector!(I, j in MR, NV { acc[I][j] = load(c.add(I * c_row), j); });
                    }
                    if t.ahead {
                        each_vector!(I, j in MR, NV {
                            _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add((MR + I) * c_row + j * $lanes).cast());
                        });
                    }
                    let mut left = t.k;
                    while left > 0 {
                        let run = t.fetch.as_ref().map_or(left, |lines| lines.terms.min(left));
                        for _ in 0..run {
                            let mut row = [$zero(); NV];
                            for j in 0..NV {
                                row[j] = load(b, j);
                            }
                            each_row!(I in MR {
                                let x = $splat(*a.add(third[I / 3] + I % 3 * a_row));
                                for j in 0..NV {
                                    acc[I][j] = $fma(x, row[j], acc[I][j]);
                                }
                            });
                            a = a.wrapping_add(a_col);
                            b = b.wrapping_add(b_row);
                        }
                        left -= run;
                        if let Some(lines) = &mut t.fetch {
                            lines.visit();
                        }
                    }
                    let put = |i: usize, j: usize, v| {
                        let p = c.add(i * c_row + j * $lanes);
                        if PART && j == NV - 1 { $store_part(p, mask, v) } else { $store(p, v) }
                    };
                    let Some(s) = t.step else {
                        each_vector!(I, j in MR, NV { put(I, j, acc[I][j]); });
                        return;
                    };
                    // Sums and products, rounded one by one, by the one operation at hand.
                    let (one, minus, none) = ($splat(1.0), $splat(-1.0), $splat(-0.0));
                    let (lr, decay) = ($splat(s.lr), $splat(s.decay));
                    // One look for the whole tile: a branch for each vector would cost more than the step.
                    if s.decay != 0.0 {
                        each_vector!(I, j in MR, NV {
                            acc[I][j] = $fma(one, $fma(load(c.add(I * c_row), j), decay, none), acc[I][j]);
                        });
                    }
                    each_vector!(I, j in MR, NV {
                        put(I, j, $fma(minus, $fma(lr, acc[I][j], none), load(c.add(I * c_row), j)));
                    });
                }
            }

            /// Computes a tile of any size that the table has.
            #[target_feature(enable = $features)]
            pub(super) fn tile(mut t: Tile<'_, $t>) {
                let (rows, cols) = (t.c.rows(), t.c.cols());
                let part = cols % $lanes != 0;
                match (rows, cols.div_ceil($lanes), part) {
                    $($(($rows, $vectors, false) => kernel::<$rows, $vectors, false>(&mut t),
                        ($rows, $vectors, true) => kernel::<$rows, $vectors, true>(&mut t),)+)+
                    (rows, vectors, _) => unreachable!("no tile of {rows} rows and {vectors} vectors"),
                }
            }

            const NOTHING: [$t; size_of::<$part>() / size_of::<$t>()] = [0.0; size_of::<$part>() / size_of::<$t>()];

            /// The lanes of `I` · `J` dot products, those of a cache line folded to one vector; `AHEAD` asks for the next rows.
            #[target_feature(enable = $features)]
            #[inline]
            fn lanes<const I: usize, const J: usize, const AHEAD: bool>(
                (x, x_step): (&[$t], usize),
                (rows, step): (&[$t], usize),
                k: usize,
            ) -> [[$part; J]; I] {
                const NV: usize = LANES_BYTES / size_of::<$t>() / $lanes;
                assert!(k >= 1 && x.len() >= (I - 1) * x_step + k && rows.len() >= (J - 1) * step + k);
                let mut acc = [[[$zero(); NV]; J]; I];
                // SAFETY: row i < I has k elements from `i * x_step`, row j < J from `j * step`; whole vectors end at or
                // before k, and the others are cut there.
                #[allow(unsafe_code)]
                unsafe {
                    let (x, rows) = (x.as_ptr(), rows.as_ptr());
                    let mut p = 0;
                    while p + NV * $lanes <= k {
                        for v in 0..NV {
                            let mut xv = [$zero(); I];
                            for i in 0..I {
                                xv[i] = $load(x.add(i * x_step + p + v * $lanes));
                            }
                            for j in 0..J {
                                let y = $load(rows.add(j * step + p + v * $lanes));
                                if I == 1 && AHEAD {
                                    let next = rows.wrapping_add((j + J) * step + p + v * $lanes);
                                    _mm_prefetch::<_MM_HINT_T0>(next.cast());
                                }
                                for i in 0..I {
                                    acc[i][j][v] = $fma(xv[i], y, acc[i][j][v]);
                                }
                            }
                        }
                        p += NV * $lanes;
                    }
                    for v in 0..NV {
                        if p < k {
                            let mask = $mask((k - p).min($lanes));
                            let mut xv = [$zero(); I];
                            for i in 0..I {
                                xv[i] = $load_part(x.add(i * x_step + p), mask);
                            }
                            for j in 0..J {
                                let y = $load_part(rows.add(j * step + p), mask);
                                for i in 0..I {
                                    acc[i][j][v] = $fma(xv[i], y, acc[i][j][v]);
                                }
                            }
                            p += $lanes;
                        }
                    }
                }
                // Loops, not closures: those would be calls, with all of this in memory.
                let mut folded: [[$part; J]; I] = [[bytemuck::cast(NOTHING); J]; I];
                for i in 0..I {
                    for j in 0..J {
                        folded[i][j] = square::$fold(acc[i][j]);
                    }
                }
                folded
            }

            /// Dot products that one vector of sums holds.
            const J: usize = 32 / size_of::<$t>();

            /// The dot products of `I` rows with `J` others, or with fewer if they are not `WHOLE`, into columns `at ..` of `out`.
            #[target_feature(enable = $features)]
            #[inline]
            fn block<const I: usize, const AHEAD: bool, const WHOLE: bool>(d: &mut Dots<'_, $t>, from: usize, at: usize) {
                let (x, rows) = ((&d.x[from * d.x_step..], d.x_step), &d.rows[at * d.step..]);
                let mut parts = [[bytemuck::cast(NOTHING); J]; I];
                let n = if WHOLE { J } else { J.min(d.out.cols() - at) };
                let mut j = 0;
                while WHOLE && I == 1 && j < J {
                    let lanes = lanes::<1, $alone, AHEAD>(x, (&rows[j * d.step..], d.step), d.k);
                    parts[0][j..j + $alone].copy_from_slice(&lanes[0]);
                    j += $alone;
                }
                while WHOLE && j < J {
                    let lanes = lanes::<I, $by, AHEAD>(x, (&rows[j * d.step..], d.step), d.k);
                    for i in 0..I {
                        parts[i][j..j + $by].copy_from_slice(&lanes[i]);
                    }
                    j += $by;
                }
                while !WHOLE && j < n {
                    let lanes = lanes::<I, 1, false>(x, (&rows[j * d.step..], d.step), d.k);
                    for i in 0..I {
                        parts[i][j] = lanes[i][0];
                    }
                    j += 1;
                }
                for i in 0..I {
                    let sums = if I == 1 { square::$lone(parts[i]) } else { square::$sums(parts[i]) };
                    let sums: [$t; J] = bytemuck::cast(sums);
                    let out = &mut d.out.row(from + i)[at..][..n];
                    if d.add {
                        out.iter_mut().zip(sums).for_each(|(out, sum)| *out += sum);
                    } else {
                        out.copy_from_slice(&sums[..n]);
                    }
                }
            }

            /// Columns `at ..` of all rows: `J` of them, or fewer if they are not `WHOLE`.
            #[target_feature(enable = $features)]
            fn columns<const WHOLE: bool>(d: &mut Dots<'_, $t>, at: usize) {
                let (mut from, count) = (0, d.out.rows());
                while count - from >= $deep {
                    block::<$deep, false, WHOLE>(d, from, at);
                    from += $deep;
                }
                if $deep > 2 && count - from >= 2 {
                    block::<2, false, WHOLE>(d, from, at);
                    from += 2;
                }
                // A matrix that a lone row passes once comes from L2 in any case: better early.
                if from < count && count == 1 && d.out.cols() * d.step * size_of::<$t>() > (32 << 10) {
                    block::<1, true, WHOLE>(d, from, at);
                } else if from < count {
                    block::<1, false, WHOLE>(d, from, at);
                }
            }

            /// Computes any number of dot products. A few rows of the second matrix stay in L1 while the first passes by.
            #[target_feature(enable = $features)]
            pub(super) fn dots(mut d: Dots<'_, $t>) {
                let (n, whole) = (d.out.cols(), d.out.cols() / J * J);
                for at in (0..whole).step_by(J) {
                    columns::<true>(&mut d, at);
                }
                if whole < n {
                    columns::<false>(&mut d, whole);
                }
            }
        }
    };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! avx512 {
    ($name:ident, $t:ident, $lanes:literal, $deep:literal, $by:literal, $alone:literal, $part:ident, $fold:ident, $sums:ident, $lone:ident, $($op:tt)+) => {
        kernels!($name, "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma", $t, $lanes, $deep, $by, $alone, $part, $fold, $sums, $lone,
            [1: 1 2 3 4 8, 2: 1 2 3 4 8, 3: 1 2 3 4 8, 4: 1 2 3 4, 5: 1 2 3 4, 6: 1 2 3 4],
            $($op)+);
    };
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! avx2 {
    ($name:ident, $t:ident, $lanes:literal, $deep:literal, $by:literal, $alone:literal, $part:ident, $fold:ident, $sums:ident, $lone:ident, $($op:tt)+) => {
        kernels!($name, "avx2,fma", $t, $lanes, $deep, $by, $alone, $part, $fold, $sums, $lone,
            [1: 1 2 3 4 8, 2: 1 2 3 4, 3: 1 2 3, 4: 1 2, 5: 1 2, 6: 1 2], $($op)+);
    };
}

/// As `square::copy!`, a cache line of the result at a time. A vector is put together from quarters of four lines, which the
/// load ports do; what is left to the one port for shuffles is half as much as for whole squares.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! wide {
    ($name:ident, $t:ident, $narrow:ident, $load:ident, $store:ident, $cast:ident, $insert:ident, $transpose:ident) => {
        /// Copies `to[o * to_step + i] = from[i * step + o]` for `o` below `outer` and `i` below `inner`.
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
        fn $name(from: &[$t], step: usize, to: &mut [$t], to_step: usize, outer: usize, inner: usize) {
            const Q: usize = 16 / size_of::<$t>();
            const L: usize = 4 * Q;
            let (whole_o, whole_i) = (outer / Q * Q, inner / L * L);
            if whole_o > 0 && whole_i > 0 {
                let last = |lines: usize, step: usize, len: usize| {
                    (lines - 1).checked_mul(step).and_then(|at| at.checked_add(len)).expect("a block in memory")
                };
                assert!(last(whole_i, step, whole_o) <= from.len() && last(whole_o, to_step, whole_i) <= to.len());
            }
            for i in (0..whole_i).step_by(L) {
                for o in (0..whole_o).step_by(Q) {
                    // SAFETY: `o + Q <= whole_o` and `i + L <= whole_i`, which are multiples of Q and L; so the lines read are
                    // below `whole_i` and their elements below `whole_o`, those written the reverse: checked above.
                    #[allow(unsafe_code)]
                    unsafe {
                        let from = from.as_ptr().add(i * step + o);
                        let part = |l: usize| $load(from.add(l * step).cast());
                        let rows = std::array::from_fn(|q| {
                            let two = $insert::<1>($cast(part(q)), part(Q + q));
                            $insert::<3>($insert::<2>(two, part(2 * Q + q)), part(3 * Q + q))
                        });
                        for (q, row) in square::$transpose(rows).into_iter().enumerate() {
                            $store(to.as_mut_ptr().add((o + q) * to_step + i), row);
                        }
                    }
                }
            }
            for o in whole_o..outer {
                (0..whole_i).for_each(|i| to[o * to_step + i] = from[i * step + o]);
            }
            if whole_i < inner {
                square::$narrow(&from[whole_i * step..], step, &mut to[whole_i..], to_step, outer, inner - whole_i);
            }
        }
    };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
wide! {
    wide_f32, f32, copy_f32, _mm_loadu_ps, _mm512_storeu_ps, _mm512_castps128_ps512, _mm512_insertf32x4, quarters_f32
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
wide! {
    wide_f64, f64, copy_f64, _mm_loadu_pd, _mm512_storeu_pd, _mm512_castpd128_pd512, _mm512_insertf64x2, quarters_f64
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
avx512! {
    v4_f32, f32, 16, 3, 8, 8, __m512, whole_f32, wide_sums_f32, lone_sums_f32, _mm512_setzero_ps, _mm512_set1_ps,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_storeu_ps, |n: usize| ((1u32 << n) - 1) as u16,
    |p, m| _mm512_maskz_loadu_ps(m, p), |p, m, v| _mm512_mask_storeu_ps(p, m, v)
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
avx512! {
    v4_f64, f64, 8, 4, 4, 4, __m512d, whole_f64, wide_sums_f64, lone_sums_f64, _mm512_setzero_pd, _mm512_set1_pd,
    _mm512_fmadd_pd, _mm512_loadu_pd, _mm512_storeu_pd, |n: usize| ((1u32 << n) - 1) as u8,
    |p, m| _mm512_maskz_loadu_pd(m, p), |p, m, v| _mm512_mask_storeu_pd(p, m, v)
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
avx2! {
    v3_f32, f32, 8, 3, 2, 4, __m256, halves_f32, sums_f32, sums_f32, _mm256_setzero_ps, _mm256_set1_ps, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_storeu_ps,
    |n: usize| bytemuck::cast::<[i32; 8], __m256i>(std::array::from_fn(|i| -i32::from(i < n))),
    |p, m| _mm256_maskload_ps(p, m), |p, m, v| _mm256_maskstore_ps(p, m, v)
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
avx2! {
    v3_f64, f64, 4, 3, 2, 4, __m256d, halves_f64, sums_f64, sums_f64, _mm256_setzero_pd, _mm256_set1_pd,
    _mm256_fmadd_pd, _mm256_loadu_pd, _mm256_storeu_pd,
    |n: usize| bytemuck::cast::<[i64; 4], __m256i>(std::array::from_fn(|i| -i64::from(i < n))),
    |p, m| _mm256_maskload_pd(p, m), |p, m, v| _mm256_maskstore_pd(p, m, v)
}

macro_rules! gemm_float {
    ($t:ident, $v4:ident, $v3:ident, $wide:ident, $transpose:ident) => {
        impl GemmFloat for $t {
            fn shape(level: Level, rows: usize) -> (usize, usize) {
                shape_of::<$t>(level.0, rows)
            }
            fn width(level: Level, rows: usize, cols: usize) -> usize {
                width_of::<$t>(level.0, rows, cols)
            }
            #[inline]
            fn tile(Level(isa): Level, t: Tile<'_, $t>) {
                match isa {
                    // SAFETY: a `Level` is never more than what `detect` saw on this CPU.
                    #[cfg(all(target_arch = "x86_64", not(miri)))]
                    #[allow(unsafe_code)]
                    Isa::Avx512 => unsafe { $v4::tile(t) },
                    // SAFETY: as above.
                    #[cfg(all(target_arch = "x86_64", not(miri)))]
                    #[allow(unsafe_code)]
                    Isa::Avx2 => unsafe { $v3::tile(t) },
                    _ => portable::tile(t),
                }
            }
            #[inline]
            fn dots(Level(isa): Level, d: Dots<'_, $t>) {
                match isa {
                    // SAFETY: a `Level` is never more than what `detect` saw on this CPU.
                    #[cfg(all(target_arch = "x86_64", not(miri)))]
                    #[allow(unsafe_code)]
                    Isa::Avx512 => unsafe { $v4::dots(d) },
                    // SAFETY: as above.
                    #[cfg(all(target_arch = "x86_64", not(miri)))]
                    #[allow(unsafe_code)]
                    Isa::Avx2 => unsafe { $v3::dots(d) },
                    _ => portable::dots(d),
                }
            }
            fn transpose(
                Level(isa): Level,
                from: &[$t],
                step: usize,
                to: &mut [$t],
                to_step: usize,
                outer: usize,
                inner: usize,
            ) {
                match isa {
                    // SAFETY: a `Level` is never more than what `detect` saw on this CPU.
                    #[cfg(all(target_arch = "x86_64", not(miri)))]
                    #[allow(unsafe_code)]
                    Isa::Avx512 => unsafe { $wide(from, step, to, to_step, outer, inner) },
                    // SAFETY: as above.
                    #[cfg(all(target_arch = "x86_64", not(miri)))]
                    #[allow(unsafe_code)]
                    Isa::Avx2 => unsafe { square::$transpose(from, step, to, to_step, outer, inner) },
                    _ => portable::transpose(from, step, to, to_step, outer, inner),
                }
            }
        }
    };
}

gemm_float!(f32, v4_f32, v3_f32, wide_f32, copy_f32);
gemm_float!(f64, v4_f64, v3_f64, wide_f64, copy_f64);
