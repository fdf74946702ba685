//! x86-64 with AVX2, FMA and F16C: 16 registers of 32 bytes.
//!
//! Invariant: a [`V3`] exists only where [`detect_isa`](super::detect_isa) saw the instructions.

use super::hsum_x86 as hsum;
use super::pair_products::PairProducts;
use super::transpose_x86::{self as transpose, here};
use super::vector::{Simd, SimdOp, Vectors};
use std::arch::x86_64::*;

/// The token of AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V3(pub(super) ());

impl Simd for V3 {
    const BYTES: usize = 32;
    const REGS: usize = 16;

    #[inline(always)]
    fn vectorize<O: SimdOp>(self, op: O) -> O::Out {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn within<O: SimdOp>(op: O) -> O::Out {
            op.call()
        }
        here!(within(op))
    }

    #[inline(always)]
    fn prefetch<T>(self, at: *const T) {
        here!(_mm_prefetch::<_MM_HINT_T0>(at.cast()));
    }

    #[inline(always)]
    fn f16_values(self, bits: [u16; 4]) -> [f32; 4] {
        let bits = i64::from_ne_bytes(bytemuck::cast(bits));
        bytemuck::cast(here!(_mm_cvtph_ps(_mm_cvtsi64_si128(bits))))
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

macro_rules! vectors {
    ($t:ident, $int:ident, $v:ident, $lanes:literal, $broadcast:ident, $add:ident, $fma:ident,
     $load:ident, $load_partial:ident, $store:ident, $store_partial:ident, $transpose:ident, $hsum:ident) => {
        impl Vectors<$t> for V3 {
            type V = $v;
            type Half = Self;
            type Mask = __m256i;
            const BLOCK: usize = $lanes;

            #[inline(always)]
            fn half(self) -> Self::Half {
                self
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
            fn mask(self, lanes: usize) -> __m256i {
                let mut mask = [0; $lanes];
                for i in 0..$lanes {
                    mask[i] = -$int::from(i < lanes);
                }
                bytemuck::cast::<[$int; $lanes], __m256i>(mask)
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
            unsafe fn load_partial(self, from: *const $t, mask: __m256i) -> $v {
                here!($load_partial(from, mask))
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
            unsafe fn store_partial(self, to: *mut $t, mask: __m256i, v: $v) {
                here!($store_partial(to, mask, v));
            }
            // SAFETY: as the trait says.
            #[inline(always)]
            #[allow(unsafe_code)]
            unsafe fn transpose_block(self, from: *const $t, step: usize, to: *mut $t, to_step: usize) {
                let mut square = [here!($broadcast(0.0)); $lanes];
                for l in 0..$lanes {
                    square[l] = here!($load(from.add(l * step)));
                }
                let square = here!(transpose::$transpose(square));
                for l in 0..$lanes {
                    here!($store(to.add(l * to_step), square[l]));
                }
            }
            #[inline(always)]
            fn hsum<const J: usize>(self, r: [$v; J]) -> [$t; J] {
                transpose::resize_array(here!(hsum::$hsum(transpose::resize_array(r))))
            }
        }
    };
}

vectors! {
    f32, i32, __m256, 8, _mm256_set1_ps, _mm256_add_ps, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_maskload_ps, _mm256_storeu_ps, _mm256_maskstore_ps, block_8x8_f32, sum_8_f32
}
vectors! {
    f64, i64, __m256d, 4, _mm256_set1_pd, _mm256_add_pd, _mm256_fmadd_pd,
    _mm256_loadu_pd, _mm256_maskload_pd, _mm256_storeu_pd, _mm256_maskstore_pd, block_4x4_f64, sum_4_f64
}
