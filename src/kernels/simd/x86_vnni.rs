//! x86-64 with AVX-512 VNNI: one instruction adds the products of a pair.
//!
//! Invariant: a [`Vnni`] exists only where [`vnni`] saw the instructions.

use super::pair_products::PairProducts;
use super::transpose_x86::here;
use super::vector::{Simd, SimdOp, x86_token};
use super::{Isa, isa};
use std::arch::x86_64::*;

/// The token of AVX-512 VNNI, for products of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vnni(());

/// The token, if this CPU has the instructions and kernels use AVX-512.
#[inline]
pub fn vnni() -> Option<Vnni> {
    (isa() == Isa::Avx512 && std::arch::is_x86_feature_detected!("avx512vnni")).then_some(Vnni(()))
}

x86_token! { Vnni, 64 bytes, 32 registers, "avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,avx2,fma" }

impl PairProducts for Vnni {
    type Lanes = __m512i;

    #[inline(always)]
    fn broadcast_pair(self, pair: i32) -> __m512i {
        here!(_mm512_set1_epi32(pair))
    }
    #[inline(always)]
    fn add_pair_products(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // `vpdpwssd`: it wraps. `vpdpwssds`, which saturates, would be another one.
        here!(_mm512_dpwssd_epi32(sums, a, b))
    }
}

impl Vnni {
    /// `sums` plus four products of an unsigned byte of `a` and a signed byte of `b` in each lane of 32 bits. It wraps.
    #[inline(always)]
    pub fn add_quad_products(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // `vpdpbusd`. `vpdpbusds`, which saturates, would be another one.
        here!(_mm512_dpbusd_epi32(sums, a, b))
    }
}
