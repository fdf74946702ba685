//! x86-64 with AVX-512 F, VL, BW and DQ: 32 registers of 64 bytes.
//!
//! Invariant: a [`V4`] exists only where [`detect_isa`](super::detect_isa) saw the instructions.

use super::hsum_x86 as hsum;
use super::pair_products::PairProducts;
use super::transpose_x86::{self as transpose, here};
use super::vector::{Simd, SimdOp, Vectors, vectors, x86_token};
use super::x86_v3::V3;
use std::arch::x86_64::*;

/// The token of AVX-512.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V4(pub(super) ());

x86_token! { V4, 64 bytes, 32 registers, "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma" }

impl PairProducts for V4 {
    type Lanes = __m512i;

    #[inline(always)]
    fn broadcast_pair(self, pair: i32) -> __m512i {
        here!(_mm512_set1_epi32(pair))
    }
    #[inline(always)]
    fn add_pair_products(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        here!(_mm512_add_epi32(sums, _mm512_madd_epi16(a, b)))
    }
}

vectors! {
    V4, f32 in __m512, mask __mmask16, half V3 = V3(()), block 4,
    broadcast: |x| _mm512_set1_ps(x),
    add: |a, b| _mm512_add_ps(a, b),
    fma: |a, b, c| _mm512_fmadd_ps(a, b, c),
    mask: |lanes| ((1u32 << lanes) - 1) as __mmask16,
    load: |from| _mm512_loadu_ps(from),
    load_partial: |from, mask| _mm512_maskz_loadu_ps(mask, from),
    store: |to, v| _mm512_storeu_ps(to, v),
    store_partial: |to, mask, v| _mm512_mask_storeu_ps(to, mask, v),
    transpose_block: |from, step, to, to_step| transpose::interleave_f32(from, step, to, to_step),
    hsum: |r| transpose::resize_array(hsum::sum_16_f32(transpose::resize_array(r))),
    hsum_alone: |r| transpose::resize_array(hsum::sum_16_f32_alone(transpose::resize_array(r))),
}
vectors! {
    V4, f64 in __m512d, mask __mmask8, half V3 = V3(()), block 2,
    broadcast: |x| _mm512_set1_pd(x),
    add: |a, b| _mm512_add_pd(a, b),
    fma: |a, b, c| _mm512_fmadd_pd(a, b, c),
    mask: |lanes| ((1u32 << lanes) - 1) as __mmask8,
    load: |from| _mm512_loadu_pd(from),
    load_partial: |from, mask| _mm512_maskz_loadu_pd(mask, from),
    store: |to, v| _mm512_storeu_pd(to, v),
    store_partial: |to, mask, v| _mm512_mask_storeu_pd(to, mask, v),
    transpose_block: |from, step, to, to_step| transpose::interleave_f64(from, step, to, to_step),
    hsum: |r| transpose::resize_array(hsum::sum_8_f64(transpose::resize_array(r))),
    hsum_alone: |r| transpose::resize_array(hsum::sum_8_f64_alone(transpose::resize_array(r))),
}
