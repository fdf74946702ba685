//! Transposes of small blocks in registers, on x86-64. `x86_v3` and `x86_v4` share them.
//!
//! Invariant: a transpose only moves elements.

use std::arch::x86_64::*;

/// An unsafe operation of the token's instruction set that the contract of the function around it allows.
macro_rules! here {
    ($e:expr) => {{
        // SAFETY: a token exists only where the check before its constructor (`detect_isa`, or `vnni` for `Vnni`) saw
        // its instructions on this CPU. Addresses are those of the trait's contract, which the caller keeps.
        #[allow(unsafe_code, unused_unsafe)]
        unsafe {
            $e
        }
    }};
}
pub(super) use here;

/// Transposes an 8 × 8 square of `f32`.
#[target_feature(enable = "avx2,fma")]
#[inline]
pub fn block_8x8_f32(r: [__m256; 8]) -> [__m256; 8] {
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
pub fn block_4x4_f64(r: [__m256d; 4]) -> [__m256d; 4] {
    let (a0, a1) = (_mm256_unpacklo_pd(r[0], r[1]), _mm256_unpackhi_pd(r[0], r[1]));
    let (a2, a3) = (_mm256_unpacklo_pd(r[2], r[3]), _mm256_unpackhi_pd(r[2], r[3]));
    let low = |a: __m256d, b: __m256d| _mm256_permute2f128_pd::<0x20>(a, b);
    let high = |a: __m256d, b: __m256d| _mm256_permute2f128_pd::<0x31>(a, b);
    [low(a0, a2), low(a1, a3), high(a0, a2), high(a1, a3)]
}

/// The transposes of the four 4 × 4 squares of `r`: lane `l` of row `i` is row `4l + i` of 16.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
#[inline]
fn four_4x4_f32(r: [__m512; 4]) -> [__m512; 4] {
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
fn four_2x2_f64(r: [__m512d; 2]) -> [__m512d; 2] {
    [_mm512_unpacklo_pd(r[0], r[1]), _mm512_unpackhi_pd(r[0], r[1])]
}

/// Transposes a block, a cache line of the result at a time. A vector is loaded from quarters of four lines, which the
/// load ports do. The one shuffle port then has half the work of a square transpose.
macro_rules! interleave {
    ($name:ident, $t:ident, $load:ident, $store:ident, $cast:ident, $insert:ident, $transpose:ident) => {
        /// Element `q` of line `l` becomes element `l` of line `q`, for lines of 16 bytes that become lines of 64.
        ///
        /// # Safety
        /// The lines of `from`, `step` elements apart, may be read, and those of `to`, `to_step` apart, written.
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
        #[inline]
        #[allow(unsafe_code)]
        pub unsafe fn $name(from: *const $t, step: usize, to: *mut $t, to_step: usize) {
            const Q: usize = 16 / size_of::<$t>();
            let mut rows = [$cast(here!($load(from))); Q];
            for q in 0..Q {
                let part = |l: usize| here!($load(from.add(l * step).cast()));
                let two = $insert::<1>($cast(part(q)), part(Q + q));
                rows[q] = $insert::<3>($insert::<2>(two, part(2 * Q + q)), part(3 * Q + q));
            }
            for (q, row) in $transpose(rows).into_iter().enumerate() {
                here!($store(to.add(q * to_step), row));
            }
        }
    };
}

interleave!(
    interleave_f32,
    f32,
    _mm_loadu_ps,
    _mm512_storeu_ps,
    _mm512_castps128_ps512,
    _mm512_insertf32x4,
    four_4x4_f32
);
interleave!(
    interleave_f64,
    f64,
    _mm_loadu_pd,
    _mm512_storeu_pd,
    _mm512_castpd128_pd512,
    _mm512_insertf64x2,
    four_2x2_f64
);

/// The first elements of an array, as an array of another length.
#[inline(always)]
#[allow(clippy::manual_memcpy)]
pub fn resize_array<T: Copy, const A: usize, const B: usize>(from: [T; A]) -> [T; B] {
    let mut to = [from[0]; B];
    for i in 0..B {
        to[i] = from[i];
    }
    to
}
