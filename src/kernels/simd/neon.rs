//! AArch64 Advanced SIMD (NEON): 32 registers of 16 bytes. Every AArch64 CPU has it.

use super::pair_products::{PairProducts, add_four_pairs};
use super::vector::{Simd, SimdOp, Vectors};
use std::arch::aarch64::*;

/// The token of NEON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neon(pub(super) ());

/// An unsafe operation of the instruction set.
macro_rules! here {
    ($e:expr) => {{
        // SAFETY: every AArch64 CPU has the instructions. The caller of the function around it keeps the trait's
        // contract.
        #[allow(unsafe_code, unused_unsafe)]
        unsafe {
            $e
        }
    }};
}

impl Simd for Neon {
    const BYTES: usize = 16;
    const REGS: usize = 32;

    #[inline(always)]
    fn vectorize<O: SimdOp>(self, op: O) -> O::Out {
        /// A separate function, as on the other instruction sets.
        fn within<O: SimdOp>(op: O) -> O::Out {
            op.call()
        }
        within(op)
    }

    #[inline(always)]
    fn prefetch<T>(self, at: *const T) {
        here!(std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, readonly, preserves_flags)));
    }
}

// Plain Rust, of which the compiler makes `smlal`.
impl PairProducts for Neon {
    type Lanes = [i32; 4];

    #[inline(always)]
    fn broadcast_pair(self, pair: i32) -> [i32; 4] {
        [pair; 4]
    }
    #[inline(always)]
    fn add_pair_products(self, sums: [i32; 4], a: [i32; 4], b: [i32; 4]) -> [i32; 4] {
        add_four_pairs(sums, a, b)
    }
}

macro_rules! vectors {
    ($t:ident, $v:ident, $lanes:literal, $broadcast:ident, $add:ident, $fma:ident, $load:ident, $store:ident,
     $transpose:ident, $hsum:ident) => {
        impl Vectors<$t> for Neon {
            type V = $v;
            type Half = Self;
            type Mask = usize;
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
                here!($fma(c, a, b))
            }
            #[inline(always)]
            fn mask(self, lanes: usize) -> usize {
                lanes
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
            unsafe fn load_partial(self, from: *const $t, lanes: usize) -> $v {
                let mut v = [0.0; $lanes];
                for i in 0..lanes.min($lanes) {
                    v[i] = here!(from.add(i).read());
                }
                here!($load(v.as_ptr()))
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
            unsafe fn store_partial(self, to: *mut $t, lanes: usize, v: $v) {
                let mut all = [0.0; $lanes];
                here!($store(all.as_mut_ptr(), v));
                for i in 0..lanes.min($lanes) {
                    here!(to.add(i).write(all[i]));
                }
            }
            // SAFETY: as the trait says.
            #[inline(always)]
            #[allow(unsafe_code)]
            unsafe fn transpose_block(self, from: *const $t, step: usize, to: *mut $t, to_step: usize) {
                let mut square = [here!($broadcast(0.0)); $lanes];
                for l in 0..$lanes {
                    square[l] = here!($load(from.add(l * step)));
                }
                let square = here!($transpose(square));
                for l in 0..$lanes {
                    here!($store(to.add(l * to_step), square[l]));
                }
            }
            #[inline(always)]
            fn hsum<const J: usize>(self, r: [$v; J]) -> [$t; J] {
                let mut sums = [0.0; J];
                for j in 0..J {
                    sums[j] = here!($hsum(r[j]));
                }
                sums
            }
        }
    };
}

/// Transposes a 4 × 4 square.
#[target_feature(enable = "neon")]
#[inline]
fn transpose_square_f32(r: [float32x4_t; 4]) -> [float32x4_t; 4] {
    let pairs = |a, b| (vreinterpretq_f64_f32(vtrn1q_f32(a, b)), vreinterpretq_f64_f32(vtrn2q_f32(a, b)));
    let ((a, b), (c, d)) = (pairs(r[0], r[1]), pairs(r[2], r[3]));
    [vtrn1q_f64(a, c), vtrn1q_f64(b, d), vtrn2q_f64(a, c), vtrn2q_f64(b, d)].map(|x| vreinterpretq_f32_f64(x))
}

/// Transposes a 2 × 2 square.
#[target_feature(enable = "neon")]
#[inline]
fn transpose_square_f64(r: [float64x2_t; 2]) -> [float64x2_t; 2] {
    [vtrn1q_f64(r[0], r[1]), vtrn2q_f64(r[0], r[1])]
}

/// The sum over lanes: lanes l and l + 2, then l and l + 1.
#[target_feature(enable = "neon")]
#[inline]
fn sum_lanes_f32(x: float32x4_t) -> f32 {
    vpadds_f32(vadd_f32(vget_low_f32(x), vget_high_f32(x)))
}

/// The sum of both lanes.
#[target_feature(enable = "neon")]
#[inline]
fn sum_lanes_f64(x: float64x2_t) -> f64 {
    vpaddd_f64(x)
}

vectors! {
    f32, float32x4_t, 4, vdupq_n_f32, vaddq_f32, vfmaq_f32, vld1q_f32, vst1q_f32, transpose_square_f32, sum_lanes_f32
}
vectors! {
    f64, float64x2_t, 2, vdupq_n_f64, vaddq_f64, vfmaq_f64, vld1q_f64, vst1q_f64, transpose_square_f64, sum_lanes_f64
}
