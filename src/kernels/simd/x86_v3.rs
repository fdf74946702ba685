//! x86-64 with AVX2, FMA and F16C: 16 registers of 32 bytes.
//!
//! Invariant: a [`V3`] exists only where [`detect_isa`](super::detect_isa) saw the instructions.

use super::hsum_x86 as hsum;
use super::pair_products::PairProducts;
use super::transpose_x86::{self as transpose, here};
use super::vector::{Simd, SimdOp, Vectors, transpose_square, vectors, x86_token};
use std::arch::x86_64::*;

/// The token of AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V3(pub(super) ());

x86_token! {
    V3, 32 bytes, 16 registers, "avx2,fma,f16c", {
        #[inline(always)]
        fn f16_values(self, bits: [u16; 4]) -> [f32; 4] {
            let bits = i64::from_ne_bytes(bytemuck::cast(bits));
            bytemuck::cast(here!(_mm_cvtph_ps(_mm_cvtsi64_si128(bits))))
        }
    }
}

impl PairProducts for V3 {
    type Lanes = __m256i;

    #[inline(always)]
    fn broadcast_pair(self, pair: i32) -> __m256i {
        here!(_mm256_set1_epi32(pair))
    }
    #[inline(always)]
    fn add_pair_products(self, sums: __m256i, a: __m256i, b: __m256i) -> __m256i {
        here!(_mm256_add_epi32(sums, _mm256_madd_epi16(a, b)))
    }
}

/// All bits in the first lanes.
macro_rules! mask_of_lanes {
    ($int:ident, $n:literal, $lanes:ident) => {{
        let mut mask = [0; $n];
        for i in 0..$n {
            mask[i] = -$int::from(i < $lanes);
        }
        bytemuck::cast::<[$int; $n], __m256i>(mask)
    }};
}

vectors! {
    V3, f32 in __m256, mask __m256i, half V3 = V3(()), block 8,
    broadcast: |x| _mm256_set1_ps(x),
    add: |a, b| _mm256_add_ps(a, b),
    fma: |a, b, c| _mm256_fmadd_ps(a, b, c),
    mask: |lanes| mask_of_lanes!(i32, 8, lanes),
    load: |from| _mm256_loadu_ps(from),
    load_partial: |from, mask| _mm256_maskload_ps(from, mask),
    store: |to, v| _mm256_storeu_ps(to, v),
    // In parts: a masked store takes twelve cycles on CPUs of AMD that have AVX2 alone, and these take two to four.
    store_partial: |to, mask, v| {
        let lanes = u32::BITS - _mm256_movemask_ps(_mm256_castsi256_ps(mask)).leading_zeros();
        if lanes & 8 != 0 {
            return _mm256_storeu_ps(to, v);
        }
        let (mut to, mut left) = (to, _mm256_castps256_ps128(v));
        if lanes & 4 != 0 {
            _mm_storeu_ps(to, left);
            (to, left) = (to.add(4), _mm256_extractf128_ps::<1>(v));
        }
        if lanes & 2 != 0 {
            _mm_storel_pd(to.cast(), _mm_castps_pd(left));
            (to, left) = (to.add(2), _mm_movehl_ps(left, left));
        }
        if lanes & 1 != 0 {
            _mm_store_ss(to, left);
        }
    },
    transpose_block: |from, step, to, to_step| transpose_square!(
        8, _mm256_setzero_ps(), _mm256_loadu_ps, transpose::block_8x8_f32, _mm256_storeu_ps, from, step, to, to_step
    ),
    hsum: |r| transpose::resize_array(hsum::sum_8_f32(transpose::resize_array(r))),
}
vectors! {
    V3, f64 in __m256d, mask __m256i, half V3 = V3(()), block 4,
    broadcast: |x| _mm256_set1_pd(x),
    add: |a, b| _mm256_add_pd(a, b),
    fma: |a, b, c| _mm256_fmadd_pd(a, b, c),
    mask: |lanes| mask_of_lanes!(i64, 4, lanes),
    load: |from| _mm256_loadu_pd(from),
    load_partial: |from, mask| _mm256_maskload_pd(from, mask),
    store: |to, v| _mm256_storeu_pd(to, v),
    store_partial: |to, mask, v| {
        let lanes = u32::BITS - _mm256_movemask_pd(_mm256_castsi256_pd(mask)).leading_zeros();
        if lanes & 4 != 0 {
            return _mm256_storeu_pd(to, v);
        }
        let (mut to, mut left) = (to, _mm256_castpd256_pd128(v));
        if lanes & 2 != 0 {
            _mm_storeu_pd(to, left);
            (to, left) = (to.add(2), _mm256_extractf128_pd::<1>(v));
        }
        if lanes & 1 != 0 {
            _mm_store_sd(to, left);
        }
    },
    transpose_block: |from, step, to, to_step| transpose_square!(
        4, _mm256_setzero_pd(), _mm256_loadu_pd, transpose::block_4x4_f64, _mm256_storeu_pd, from, step, to, to_step
    ),
    hsum: |r| transpose::resize_array(hsum::sum_4_f64(transpose::resize_array(r))),
}
