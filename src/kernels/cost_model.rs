//! The cost model: kernel times on one thread, from a table of measured figures. With a fixed table, the same program
//! is divided among the same threads in every run.
//!
//! Invariant: nothing here reads a clock. No result depends on the table, only which thread computes it. Lowering names
//! the [`CostClass`] of each call; `sched` adds the times. `arenagrad trace` prints these times beside measured ones;
//! docs/performance.md tells how to measure the table again.

use super::tile::{TileOp, TileStep};
use crate::gemm::{Precision, bf16_engine};

/// The cost of one kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostClass {
    /// Nanoseconds per call, independent of its size.
    call: u32,
    /// Femtoseconds per operation. The lowering of a call says how many operations it has.
    op: u32,
    /// Femtoseconds per byte read or written, with data in caches, as in a step of a small network.
    byte: u32,
}

const fn cost_row(call: u32, op: u32, byte: u32) -> CostClass {
    CostClass { call, op, byte }
}

impl CostClass {
    /// Copies, fills, slices, and kernels without a class.
    pub const COPY: CostClass = cost_row(60, 0, 33_000);
    /// Gathers and scatters.
    pub const INDEX: CostClass = cost_row(60, 0, 100_000);
    /// Products in f32.
    pub const PRODUCT: CostClass = cost_row(180, 8_700, 10_000);
    /// Products in f64.
    pub const PRODUCT_F64: CostClass = cost_row(120, 17_500, 10_000);
    /// Products of f32 numbers split into three bf16 terms.
    pub const PRODUCT_THIRDS: CostClass = cost_row(200, 5_000, 35_000);
    /// Products of f32 numbers split into two bf16 terms.
    pub const PRODUCT_HALVES: CostClass = cost_row(200, 3_700, 25_000);
    /// Products of f32 numbers rounded to bf16, with AMX tiles.
    pub const PRODUCT_BF16: CostClass = cost_row(200, 1_700, 25_000);
    /// The same with AVX512-BF16 vectors, at most twice as fast as f32.
    pub const PRODUCT_BF16_VECTORS: CostClass = cost_row(200, 5_400, 15_000);
    /// Convolutions and their derivatives.
    pub const CONV: CostClass = cost_row(300, 13_000, 5_000);
    /// Pools and their derivatives.
    pub const POOL: CostClass = cost_row(100, 0, 50_000);
    /// Attention.
    pub const ATTENTION: CostClass = cost_row(300, 53_000, 10_000);
    /// The derivative of attention.
    pub const ATTENTION_BACKWARD: CostClass = cost_row(300, 34_000, 10_000);
    /// Factors of matrices and solves with them: an operation is a multiplication and an addition of a row.
    pub const LINALG: CostClass = cost_row(150, 150_000, 30_000);
    /// Images of splats. An estimate: the rate of attention.
    pub const SPLAT: CostClass = cost_row(300, 53_000, 30_000);
    /// Softmax along rows, and the derivatives of softmax and of cross entropy.
    pub const SOFTMAX: CostClass = cost_row(100, 150_000, 30_000);
    /// Cross entropy of rows.
    pub const CROSS_ENTROPY: CostClass = cost_row(300, 400_000, 30_000);
    /// Norms of rows and their derivatives.
    pub const NORM: CostClass = cost_row(100, 0, 50_000);
    /// Sums and other reductions.
    pub const REDUCE: CostClass = cost_row(80, 0, 25_000);
    /// Running sums, products and extremes along an axis.
    pub const RUNNING: CostClass = cost_row(80, 1_000_000, 30_000);
    /// Sorts; an operation is a comparison.
    pub const SORT: CostClass = cost_row(100, 7_000_000, 30_000);
    /// The largest elements of rows; an operation is a comparison.
    pub const TOP_K: CostClass = cost_row(120, 2_000_000, 30_000);
    /// Draws of tokens; an operation is an element that is sorted and weighed.
    pub const SAMPLE: CostClass = cost_row(150, 30_000_000, 30_000);
    /// Activations with their derivatives.
    pub const ACTIVATION: CostClass = cost_row(100, 500_000, 29_000);
    /// Random numbers.
    pub const RANDOM: CostClass = cost_row(100, 150_000, 30_000);
    /// Kernels that read their large operands in rare cases only. Their time does not depend on sizes.
    pub const RARE: CostClass = cost_row(60, 0, 0);
    /// Updates of params.
    pub const OPTIMISER: CostClass = cost_row(80, 0, 33_000);
    /// Fourier transforms. An estimate: half the rate of convolutions and less.
    pub const FFT: CostClass = cost_row(200, 60_000, 30_000);
    /// Recurrences with a state of their own, and their gradients. An estimate: half the rate of convolutions and less.
    pub const RECURRENT: CostClass = cost_row(250, 60_000, 30_000);
    /// Pointwise programs. [`steps_cost`] gives the number of operations: one is a femtosecond.
    pub const TILE: CostClass = cost_row(90, 1, 29_000);

    /// The class of products of f32 matrices at `precision`, on the bf16 engine of this CPU.
    pub fn product(precision: Precision) -> CostClass {
        match precision {
            Precision::F32 => CostClass::PRODUCT,
            Precision::Bf16x3 => CostClass::PRODUCT_THIRDS,
            Precision::Bf16x2 => CostClass::PRODUCT_HALVES,
            Precision::Bf16 if bf16_engine() == Ok("amx") => CostClass::PRODUCT_BF16,
            Precision::Bf16 => CostClass::PRODUCT_BF16_VECTORS,
        }
    }

    /// Picoseconds of a call with `ops` operations and `bytes` bytes read or written, all units on one thread.
    /// Saturates.
    pub const fn time(self, ops: u64, bytes: u64) -> u64 {
        let ops = ops.saturating_mul(self.op as u64).saturating_add(bytes.saturating_mul(self.byte as u64));
        self.fixed().saturating_add(ops / 1000)
    }

    /// Picoseconds of an empty call.
    pub const fn fixed(self) -> u64 {
        self.call as u64 * 1000
    }
}

/// Femtoseconds per element of one step of a pointwise program, without memory traffic.
pub const fn step_cost(op: TileOp) -> u64 {
    use TileOp::*;
    match op {
        Exp | Expm1 | Log | Log1p | Sqrt | Rsqrt | Recip | Sigmoid | Div => 250_000,
        Sin | Cos | Tan | Atan | Erf | Elu | Gelu | GeluGrad | GeluTanh | GeluTanhGrad | Silu | SiluGrad | Softplus => {
            1_000_000
        }
        Tanh => 2_200_000,
        Asin | Acos | Sinh | Cosh | Asinh | Acosh | Atanh | Exp2 | Log2 | Log10 | Erfc | Atan2 | Hypot => 2_000_000,
        Pow | Fmod | Remainder | FloorDivide => 4_000_000,
        Erfinv | Erfcinv | Lgamma | Digamma => 12_000_000,
        Polygamma => 40_000_000,
        _ => 15_000,
    }
}

/// Operations of class [`CostClass::TILE`]: those of a program with these steps over `len` elements.
pub fn steps_cost(steps: &[TileStep], len: usize) -> u64 {
    steps.iter().fold(0, |sum, s| step_cost(s.op).saturating_add(sum)).saturating_mul(len as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_grow_with_work_and_saturate() {
        assert_eq!(CostClass::COPY.time(5, 0), CostClass::COPY.fixed());
        assert_eq!(CostClass::PRODUCT.time(1000, 100), 180_000 + 8_700 + 1_000);
        assert!(CostClass::PRODUCT.time(u64::MAX, u64::MAX) > u64::MAX / 1001);
        let time = |work: CostClass| work.time(1 << 30, 1 << 20);
        let [f32, thirds, halves, half] = Precision::ALL.map(|(p, _)| time(CostClass::product(p)));
        assert!(f32 > thirds && thirds > halves && halves > time(CostClass::PRODUCT_BF16) && f32 > half);
        assert!(step_cost(TileOp::Tanh) > step_cost(TileOp::Exp) && step_cost(TileOp::Exp) > step_cost(TileOp::Add));
    }
}
