//! AArch64 Advanced SIMD (NEON): 32 registers of 16 bytes. Every AArch64 CPU has it.

use super::pair_products::{PairProducts, add_four_pairs};
use super::vector::{Simd, SimdOp, Vectors, first_lanes, transpose_square, vectors, write_first_lanes};
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

/// The sum of the lanes of each vector.
macro_rules! sums_of_lanes {
    ($sum:ident, $r:ident, $zero:literal) => {{
        let mut sums = [$zero; J];
        for j in 0..J {
            sums[j] = $sum($r[j]);
        }
        sums
    }};
}

vectors! {
    Neon, f32 in float32x4_t, mask usize, half Neon = Neon(()), block 4,
    broadcast: |x| vdupq_n_f32(x),
    add: |a, b| vaddq_f32(a, b),
    fma: |a, b, c| vfmaq_f32(c, a, b),
    mask: |lanes| lanes,
    load: |from| vld1q_f32(from),
    load_partial: |from, lanes| vld1q_f32(first_lanes::<f32, 4>(from, lanes).as_ptr()),
    store: |to, v| vst1q_f32(to, v),
    store_partial: |to, lanes, v| {
        let mut all = [0f32; 4];
        vst1q_f32(all.as_mut_ptr(), v);
        write_first_lanes(to, lanes, all);
    },
    transpose_block: |from, step, to, to_step| transpose_square!(
        4, vdupq_n_f32(0.0), vld1q_f32, transpose_square_f32, vst1q_f32, from, step, to, to_step
    ),
    hsum: |r| sums_of_lanes!(sum_lanes_f32, r, 0f32),
}
vectors! {
    Neon, f64 in float64x2_t, mask usize, half Neon = Neon(()), block 2,
    broadcast: |x| vdupq_n_f64(x),
    add: |a, b| vaddq_f64(a, b),
    fma: |a, b, c| vfmaq_f64(c, a, b),
    mask: |lanes| lanes,
    load: |from| vld1q_f64(from),
    load_partial: |from, lanes| vld1q_f64(first_lanes::<f64, 2>(from, lanes).as_ptr()),
    store: |to, v| vst1q_f64(to, v),
    store_partial: |to, lanes, v| {
        let mut all = [0f64; 2];
        vst1q_f64(all.as_mut_ptr(), v);
        write_first_lanes(to, lanes, all);
    },
    transpose_block: |from, step, to, to_step| transpose_square!(
        2, vdupq_n_f64(0.0), vld1q_f64, transpose_square_f64, vst1q_f64, from, step, to, to_step
    ),
    hsum: |r| sums_of_lanes!(sum_lanes_f64, r, 0f64),
}
