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

impl CostClass {
    /// A class: nanoseconds of a call, femtoseconds of an operation, and femtoseconds of a byte that is read or
    /// written. Measure them on one thread, with data in caches.
    pub const fn new(call: u32, op: u32, byte: u32) -> CostClass {
        CostClass { call, op, byte }
    }

    /// Copies, fills, slices, and kernels without a class.
    pub const COPY: CostClass = CostClass::new(60, 0, 33_000);
    /// Scatters.
    pub const INDEX: CostClass = CostClass::new(60, 0, 100_000);
    /// Rows and elements of tables by index; an operation is a byte that is read or written. The rest of a table costs
    /// nothing.
    pub const GATHER: CostClass = CostClass::new(60, 100_000, 0);
    /// Products in f32.
    pub const PRODUCT: CostClass = CostClass::new(180, 8_700, 10_000);
    /// Products in f64.
    pub const PRODUCT_F64: CostClass = CostClass::new(120, 17_500, 10_000);
    /// Products of 8-bit integers.
    pub const PRODUCT_I8: CostClass = CostClass::new(250, 5_000, 10_000);
    /// Codes as numbers, and sums as codes: an operation is a conversion.
    pub const DEQUANT: CostClass = CostClass::new(80, 150_000, 25_000);
    /// Products of f32 numbers split into three bf16 terms.
    pub const PRODUCT_THIRDS: CostClass = CostClass::new(200, 5_000, 35_000);
    /// Products of f32 numbers split into two bf16 terms.
    pub const PRODUCT_HALVES: CostClass = CostClass::new(200, 3_700, 25_000);
    /// Products of f32 numbers rounded to bf16, with AMX tiles.
    pub const PRODUCT_BF16: CostClass = CostClass::new(200, 1_700, 25_000);
    /// The same with AVX512-BF16 vectors, at most twice as fast as f32.
    pub const PRODUCT_BF16_VECTORS: CostClass = CostClass::new(200, 5_400, 15_000);
    /// Convolutions and their derivatives.
    pub const CONV: CostClass = CostClass::new(300, 13_000, 5_000);
    /// Pools and their derivatives.
    pub const POOL: CostClass = CostClass::new(100, 0, 50_000);
    /// Attention.
    pub const ATTENTION: CostClass = CostClass::new(300, 53_000, 10_000);
    /// The derivative of attention.
    pub const ATTENTION_BACKWARD: CostClass = CostClass::new(300, 34_000, 10_000);
    /// Softmax along rows, and the derivatives of softmax and of cross entropy.
    pub const SOFTMAX: CostClass = CostClass::new(100, 150_000, 30_000);
    /// Cross entropy of rows.
    pub const CROSS_ENTROPY: CostClass = CostClass::new(300, 400_000, 30_000);
    /// Norms of rows and their derivatives.
    pub const NORM: CostClass = CostClass::new(100, 0, 50_000);
    /// Sums and other reductions.
    pub const REDUCE: CostClass = CostClass::new(80, 0, 25_000);
    /// Running sums, products and extremes along an axis.
    pub const RUNNING: CostClass = CostClass::new(80, 1_000_000, 30_000);
    /// Sorts; an operation is a comparison.
    pub const SORT: CostClass = CostClass::new(100, 7_000_000, 30_000);
    /// The largest elements of rows; an operation is a comparison.
    pub const TOP_K: CostClass = CostClass::new(120, 2_000_000, 30_000);
    /// Draws of tokens; an operation is an element that is sorted and weighed.
    pub const SAMPLE: CostClass = CostClass::new(150, 30_000_000, 30_000);
    /// Activations with their derivatives.
    pub const ACTIVATION: CostClass = CostClass::new(100, 500_000, 29_000);
    /// Random numbers.
    pub const RANDOM: CostClass = CostClass::new(100, 150_000, 30_000);
    /// Kernels that read their large operands in rare cases only. Their time does not depend on sizes.
    pub const RARE: CostClass = CostClass::new(60, 0, 0);
    /// Updates of the rows of a table that a step has read; an operation is an element of them. The rows that stay as
    /// they are cost nothing.
    pub const ROWS: CostClass = CostClass::new(150, 500_000, 0);
    /// Updates of params.
    pub const OPTIMISER: CostClass = CostClass::new(80, 0, 33_000);
    /// Pointwise programs. [`tile_operations`] gives the number of operations: one is a femtosecond.
    pub const TILE: CostClass = CostClass::new(90, 1, 29_000);

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

    /// Whether the time depends on the bytes of the operands.
    pub const fn counts_bytes(self) -> bool {
        self.byte > 0
    }

    /// Picoseconds of an empty call.
    pub const fn fixed(self) -> u64 {
        self.call as u64 * 1000
    }
}

/// Femtoseconds per element of one step of a pointwise program, without memory traffic.
pub const fn step_femtoseconds(op: TileOp) -> u64 {
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
pub fn tile_operations(steps: &[TileStep], len: usize) -> u64 {
    steps.iter().fold(0, |sum, s| step_femtoseconds(s.op).saturating_add(sum)).saturating_mul(len as u64)
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
        use Precision::{Bf16, Bf16x2, Bf16x3, F32};
        let [f32, thirds, halves, half] = [F32, Bf16x3, Bf16x2, Bf16].map(|p| time(CostClass::product(p)));
        assert!(f32 > thirds && thirds > halves && halves > time(CostClass::PRODUCT_BF16) && f32 > half);
        assert!(
            step_femtoseconds(TileOp::Tanh) > step_femtoseconds(TileOp::Exp)
                && step_femtoseconds(TileOp::Exp) > step_femtoseconds(TileOp::Add)
        );
    }
}
