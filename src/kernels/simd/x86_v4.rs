//! x86-64 with AVX-512 F, VL, BW and DQ: 32 registers of 64 bytes.
//!
//! Invariant: a [`V4`] exists only where [`detect_isa`](super::detect_isa) saw the instructions.

use super::hsum_x86 as hsum;
use super::pair_products::PairProducts;
use super::transpose_x86::{self as transpose, here};
use super::vector::{Simd, SimdOp, Vectors};
use std::arch::x86_64::*;

/// The token of AVX-512.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V4(pub(super) ());

impl Simd for V4 {
    const BYTES: usize = 64;
    const REGS: usize = 32;

    #[inline(always)]
    fn vectorize<O: SimdOp>(self, op: O) -> O::Out {
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
        fn within<O: SimdOp>(op: O) -> O::Out {
            op.call()
        }
        here!(within(op))
    }

    #[inline(always)]
    fn prefetch<T>(self, at: *const T) {
        here!(_mm_prefetch::<_MM_HINT_T0>(at.cast()));
    }
}

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

macro_rules! vectors {
    ($t:ident, $v:ident, $mask:ident, $lanes:literal, $block:literal, $broadcast:ident, $add:ident, $fma:ident,
     $load:ident, $load_partial:ident, $store:ident, $store_partial:ident,
     $transpose:ident, $hsum:ident, $hsum_alone:ident) => {
        impl Vectors<$t> for V4 {
            type V = $v;
            type Half = super::V3;
            type Mask = $mask;
            const BLOCK: usize = $block;

            #[inline(always)]
            fn half(self) -> Self::Half {
                super::V3(())
            }
            #[inline(always)]
            fn broadcast(self, x: $t) -> $v {
                here!($broadcast(x))
            }
            #[inline(always)]
            fn add(self, a: $v, b: $v) -> $v {
                here!($add(a, b))
            }
            #[inline(always)]
            fn fma(self, a: $v, b: $v, c: $v) -> $v {
                here!($fma(a, b, c))
            }
            #[inline(always)]
            fn mask(self, lanes: usize) -> $mask {
                ((1u32 << lanes) - 1) as $mask
            }
            // SAFETY: as the trait says, here and below.
            #[inline(always)]
            #[allow(unsafe_code)]
            unsafe fn load(self, from: *const $t) -> $v {
                here!($load(from))
            }
            // SAFETY: as the trait says.
            #[inline(always)]
            #[allow(unsafe_code)]
            unsafe fn load_partial(self, from: *const $t, mask: $mask) -> $v {
                here!($load_partial(mask, from))
            }
            // SAFETY: as the trait says.
            #[inline(always)]
            #[allow(unsafe_code)]
            unsafe fn store(self, to: *mut $t, v: $v) {
                here!($store(to, v));
            }
            // SAFETY: as the trait says.
            #[inline(always)]
            #[allow(unsafe_code)]
            unsafe fn store_partial(self, to: *mut $t, mask: $mask, v: $v) {
                here!($store_partial(to, mask, v));
            }
            // SAFETY: as the trait says.
            #[inline(always)]
            #[allow(unsafe_code)]
            unsafe fn transpose_block(self, from: *const $t, step: usize, to: *mut $t, to_step: usize) {
                here!(transpose::$transpose(from, step, to, to_step));
            }
            #[inline(always)]
            fn hsum<const J: usize>(self, r: [$v; J]) -> [$t; J] {
                transpose::resize_array(here!(hsum::$hsum(transpose::resize_array(r))))
            }
            #[inline(always)]
            fn hsum_alone<const J: usize>(self, r: [$v; J]) -> [$t; J] {
                transpose::resize_array(here!(hsum::$hsum_alone(transpose::resize_array(r))))
            }
        }
    };
}

vectors! {
    f32, __m512, __mmask16, 16, 4, _mm512_set1_ps, _mm512_add_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_maskz_loadu_ps, _mm512_storeu_ps, _mm512_mask_storeu_ps,
    interleave_f32, sum_16_f32, sum_16_f32_alone
}
vectors! {
    f64, __m512d, __mmask8, 8, 2, _mm512_set1_pd, _mm512_add_pd, _mm512_fmadd_pd,
    _mm512_loadu_pd, _mm512_maskz_loadu_pd, _mm512_storeu_pd, _mm512_mask_storeu_pd,
    interleave_f64, sum_8_f64, sum_8_f64_alone
}
