//! Sums over lanes on x86-64. `x86_v3` and `x86_v4` share them.
//!
//! Invariant: a sum adds the upper half of the lanes to the lower half until one is left.

use super::transpose_x86::{block_4x4_f64, block_8x8_f32};
use std::arch::x86_64::*;

/// The sum over lanes of each of eight vectors: lanes l and l + 4, then l and l + 2, then l and l + 1.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub fn sum_8_f32(r: [__m256; 8]) -> [f32; 8] {
    let t = block_8x8_f32(r);
    let add = |a: __m256, b: __m256| _mm256_add_ps(a, b);
    bytemuck::cast(add(add(add(t[0], t[4]), add(t[2], t[6])), add(add(t[1], t[5]), add(t[3], t[7]))))
}

/// The sum over lanes of each of four vectors: lanes l and l + 2, then l and l + 1.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub fn sum_4_f64(r: [__m256d; 4]) -> [f64; 4] {
    let t = block_4x4_f64(r);
    bytemuck::cast(_mm256_add_pd(_mm256_add_pd(t[0], t[2]), _mm256_add_pd(t[1], t[3])))
}

/// The sum of the halves of a vector, lane by lane.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
fn sum_halves_f32(x: __m512) -> __m256 {
    let [low, high]: [__m256; 2] = bytemuck::cast(x);
    _mm256_add_ps(low, high)
}

/// The sum of the halves of a vector, lane by lane.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
fn sum_halves_f64(x: __m512d) -> __m256d {
    let [low, high]: [__m256d; 2] = bytemuck::cast(x);
    _mm256_add_pd(low, high)
}

/// The sum over lanes of each of eight vectors: lanes l and l + 8, then as [`sum_8_f32`]. Each step makes one
/// vector of two, by a blend and one shuffle. That is half of the shuffles of a transpose.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
pub fn sum_16_f32(r: [__m512; 8]) -> [f32; 8] {
    let add = |a: __m512, b: __m512| _mm512_add_ps(a, b);
    // The compiler would turn blends with known masks into shuffles, for which there is only one port.
    let [halves, quarters, eighths] = std::hint::black_box([0xff00, 0xf0f0, 0xcccc]);
    // Halves of a, of b.
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
    bytemuck::cast(_mm512_castps512_ps256(_mm512_permutexvar_ps(order, all)))
}

/// The sum over lanes of each of four vectors: lanes l and l + 4, then as [`sum_4_f64`].
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
pub fn sum_8_f64(r: [__m512d; 4]) -> [f64; 4] {
    let add = |a: __m512d, b: __m512d| _mm512_add_pd(a, b);
    let two = |a: __m512d, b: __m512d| add(_mm512_mask_blend_pd(0xf0, a, b), _mm512_shuffle_f64x2::<0x4e>(a, b));
    let (a, b) = (two(r[0], r[2]), two(r[1], r[3]));
    let crossed = _mm512_setr_epi64(2, 3, 8, 9, 6, 7, 12, 13);
    let pairs = add(_mm512_mask_blend_pd(0xcc, a, b), _mm512_permutex2var_pd(a, crossed, b));
    let all = add(pairs, _mm512_shuffle_pd::<0x55>(pairs, pairs));
    bytemuck::cast(_mm512_castpd512_pd256(_mm512_permutexvar_pd(_mm512_setr_epi64(0, 2, 4, 6, 0, 0, 0, 0), all)))
}

/// As [`sum_16_f32`], in more instructions but less latency.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
pub fn sum_16_f32_alone(r: [__m512; 8]) -> [f32; 8] {
    sum_8_f32(r.map(|r| sum_halves_f32(r)))
}

/// As [`sum_8_f64`], in more instructions but less latency.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
pub fn sum_8_f64_alone(r: [__m512d; 4]) -> [f64; 4] {
    sum_4_f64(r.map(|r| sum_halves_f64(r)))
}
