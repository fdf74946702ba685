//! Transposes of small squares in registers: how strided lines become adjacent ones, and lanes become sums.
//!
//! Invariant: the sums keep the order of `order`; all else only moves elements. Only `tile` calls this.

use std::arch::x86_64::*;

/// Transposes an 8 × 8 square of `f32`.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub fn transpose_f32(r: [__m256; 8]) -> [__m256; 8] {
    let pairs = |a: __m256, b: __m256| (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    let ((a0, a1), (a2, a3)) = (pairs(r[0], r[1]), pairs(r[2], r[3]));
    let ((a4, a5), (a6, a7)) = (pairs(r[4], r[5]), pairs(r[6], r[7]));
    let quads = |a: __m256, b: __m256| (_mm256_shuffle_ps::<0x44>(a, b), _mm256_shuffle_ps::<0xee>(a, b));
    let ((b0, b1), (b2, b3)) = (quads(a0, a2), quads(a1, a3));
    let ((b4, b5), (b6, b7)) = (quads(a4, a6), quads(a5, a7));
    let low = |a: __m256, b: __m256| _mm256_permute2f128_ps::<0x20>(a, b);
    let high = |a: __m256, b: __m256| _mm256_permute2f128_ps::<0x31>(a, b);
    [low(b0, b4), low(b1, b5), low(b2, b6), low(b3, b7), high(b0, b4), high(b1, b5), high(b2, b6), high(b3, b7)]
}

/// Transposes a 4 × 4 square of `f64`.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub fn transpose_f64(r: [__m256d; 4]) -> [__m256d; 4] {
    let (a0, a1) = (_mm256_unpacklo_pd(r[0], r[1]), _mm256_unpackhi_pd(r[0], r[1]));
    let (a2, a3) = (_mm256_unpacklo_pd(r[2], r[3]), _mm256_unpackhi_pd(r[2], r[3]));
    let low = |a: __m256d, b: __m256d| _mm256_permute2f128_pd::<0x20>(a, b);
    let high = |a: __m256d, b: __m256d| _mm256_permute2f128_pd::<0x31>(a, b);
    [low(a0, a2), low(a1, a3), high(a0, a2), high(a1, a3)]
}

/// The sum over lanes of each of eight vectors: lane l and l + 4, then l and l + 2, then l and l + 1.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub fn sums_f32(r: [__m256; 8]) -> __m256 {
    let t = transpose_f32(r);
    let add = |a: __m256, b: __m256| _mm256_add_ps(a, b);
    add(add(add(t[0], t[4]), add(t[2], t[6])), add(add(t[1], t[5]), add(t[3], t[7])))
}

/// The sum over lanes of each of four vectors: lane l and l + 2, then l and l + 1.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub fn sums_f64(r: [__m256d; 4]) -> __m256d {
    let t = transpose_f64(r);
    _mm256_add_pd(_mm256_add_pd(t[0], t[2]), _mm256_add_pd(t[1], t[3]))
}

/// The vector that a cache line is.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
pub fn whole_f32([all]: [__m512; 1]) -> __m512 {
    all
}

/// The vector that a cache line is.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
pub fn whole_f64([all]: [__m512d; 1]) -> __m512d {
    all
}

/// The halves of a cache line, lane by lane.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub fn halves_f32([low, high]: [__m256; 2]) -> __m256 {
    _mm256_add_ps(low, high)
}

/// The halves of a cache line, lane by lane.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub fn halves_f64([low, high]: [__m256d; 2]) -> __m256d {
    _mm256_add_pd(low, high)
}

/// The sum over lanes of each of eight vectors: lane l and l + 8, then as [`sums_f32`]. Two vectors become one in each step,
/// of what a blend keeps in place and what one shuffle moves: half of the shuffles of a transpose.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
pub fn wide_sums_f32(r: [__m512; 8]) -> __m256 {
    let add = |a: __m512, b: __m512| _mm512_add_ps(a, b);
    // The compiler would make shuffles of blends whose masks it knows, and for shuffles there is one port.
    let [halves, quarters, eighths] = std::hint::black_box([0xff00, 0xf0f0, 0xcccc]);
    // Halves: a, b.
    let two = |a: __m512, b: __m512| add(_mm512_mask_blend_ps(halves, a, b), _mm512_shuffle_f32x4::<0x4e>(a, b));
    // Quarters of a (of halves 0, 1) and b (2, 3): 0, 2, 1, 3.
    let crossed = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    let four = |a: __m512, b: __m512| add(_mm512_mask_blend_ps(quarters, a, b), _mm512_permutex2var_ps(a, crossed, b));
    let (a, b) = (four(two(r[0], r[4]), two(r[1], r[5])), four(two(r[2], r[6]), two(r[3], r[7])));
    // Lanes in pairs: 0, 2; 1, 3; 4, 6; 5, 7.
    let moved = _mm512_castpd_ps(_mm512_shuffle_pd::<0x55>(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    let pairs = add(_mm512_mask_blend_ps(eighths, a, b), moved);
    let all = add(pairs, _mm512_shuffle_ps::<0xb1>(pairs, pairs));
    let order = _mm512_setr_epi32(0, 4, 2, 6, 8, 12, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm512_castps512_ps256(_mm512_permutexvar_ps(order, all))
}

/// The sum over lanes of each of four vectors: lane l and l + 4, then as [`sums_f64`].
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
pub fn wide_sums_f64(r: [__m512d; 4]) -> __m256d {
    let add = |a: __m512d, b: __m512d| _mm512_add_pd(a, b);
    let two = |a: __m512d, b: __m512d| add(_mm512_mask_blend_pd(0xf0, a, b), _mm512_shuffle_f64x2::<0x4e>(a, b));
    let (a, b) = (two(r[0], r[2]), two(r[1], r[3]));
    let crossed = _mm512_setr_epi64(2, 3, 8, 9, 6, 7, 12, 13);
    let pairs = add(_mm512_mask_blend_pd(0xcc, a, b), _mm512_permutex2var_pd(a, crossed, b));
    let all = add(pairs, _mm512_shuffle_pd::<0x55>(pairs, pairs));
    _mm512_castpd512_pd256(_mm512_permutexvar_pd(_mm512_setr_epi64(0, 2, 4, 6, 0, 0, 0, 0), all))
}

/// As [`wide_sums_f32`], sooner done, but more to do: for sums that nothing else goes on beside.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
pub fn lone_sums_f32(r: [__m512; 8]) -> __m256 {
    sums_f32(r.map(|r| halves_f32(bytemuck::cast(r))))
}

/// As [`wide_sums_f64`], sooner done, but more to do.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
pub fn lone_sums_f64(r: [__m512d; 4]) -> __m256d {
    sums_f64(r.map(|r| halves_f64(bytemuck::cast(r))))
}

macro_rules! copy {
    ($name:ident, $t:ident, $v:ident, $transpose:ident) => {
        /// Copies `to[o * to_step + i] = from[i * step + o]` for `o` below `outer` and `i` below `inner`.
        #[target_feature(enable = "avx2,fma")]
        pub fn $name(from: &[$t], step: usize, to: &mut [$t], to_step: usize, outer: usize, inner: usize) {
            const S: usize = 32 / size_of::<$t>();

            /// Copies squares into columns `at ..` of a strip as wide as two of them. All lengths are known where the loop
            /// begins, so that nothing is checked in it.
            #[target_feature(enable = "avx2,fma")]
            fn strip(from: &[$t], step: usize, to: &mut [$t], at: usize, outer: usize) {
                let count = outer / S;
                let lines: [&[[$t; S]]; S] =
                    std::array::from_fn(|l| &from[l * step..][..outer].as_chunks::<S>().0[..count]);
                let squares = to.as_chunks_mut::<{ 2 * S }>().0[..outer].as_chunks_mut::<S>().0;
                for (a, to) in squares[..count].iter_mut().enumerate() {
                    let mut square: [$v; S] = bytemuck::Zeroable::zeroed();
                    for l in 0..S {
                        square[l] = bytemuck::cast(lines[l][a]);
                    }
                    let square = $transpose(square);
                    for l in 0..S {
                        let line: [$t; S] = bytemuck::cast(square[l]);
                        to[l][at..][..S].copy_from_slice(&line);
                    }
                }
            }

            let (whole_o, whole_i) = (outer / S * S, inner / S * S);
            // One square after the other along the lines of the longer side.
            let (along, across) = if outer < inner { (whole_i, whole_o) } else { (whole_o, whole_i) };
            for b in (0..across).step_by(S) {
                if outer >= inner && to_step == 2 * S && to.len() >= outer * to_step {
                    strip(&from[b * step..], step, to, b, whole_o);
                    continue;
                }
                for a in (0..along).step_by(S) {
                    let (i, o) = if outer < inner { (a, b) } else { (b, a) };
                    let from = &from[i * step + o..][..(S - 1) * step + S];
                    let mut square: [$v; S] = bytemuck::Zeroable::zeroed();
                    for l in 0..S {
                        let mut line = [0.0; S];
                        line.copy_from_slice(&from[l * step..][..S]);
                        square[l] = bytemuck::cast(line);
                    }
                    let to = &mut to[o * to_step + i..][..(S - 1) * to_step + S];
                    let square = $transpose(square);
                    for l in 0..S {
                        let line: [$t; S] = bytemuck::cast(square[l]);
                        to[l * to_step..][..S].copy_from_slice(&line);
                    }
                }
            }
            for o in 0..outer {
                for i in if o < whole_o { whole_i } else { 0 }..inner {
                    to[o * to_step + i] = from[i * step + o];
                }
            }
        }
    };
}

copy!(copy_f32, f32, __m256, transpose_f32);
copy!(copy_f64, f64, __m256d, transpose_f64);

/// The transposes of the four 4 × 4 squares of `r`: lane `l` of row `i` is row `4l + i` of 16.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
pub fn quarters_f32(r: [__m512; 4]) -> [__m512; 4] {
    let (a, b) = (_mm512_unpacklo_ps(r[0], r[1]), _mm512_unpackhi_ps(r[0], r[1]));
    let (c, d) = (_mm512_unpacklo_ps(r[2], r[3]), _mm512_unpackhi_ps(r[2], r[3]));
    let low = |x: __m512, y: __m512| _mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y));
    let high = |x: __m512, y: __m512| _mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y));
    let [e, f, g, h] = [low(a, c), high(a, c), low(b, d), high(b, d)];
    [_mm512_castpd_ps(e), _mm512_castpd_ps(f), _mm512_castpd_ps(g), _mm512_castpd_ps(h)]
}

/// The transposes of the four 2 × 2 squares of `r`: lane `l` of row `i` is row `2l + i` of 8.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
pub fn quarters_f64(r: [__m512d; 2]) -> [__m512d; 2] {
    [_mm512_unpacklo_pd(r[0], r[1]), _mm512_unpackhi_pd(r[0], r[1])]
}
