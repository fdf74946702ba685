//! How long kernels take on one thread: a table of figures that were measured once, so that the same program is divided
//! among the same threads every time.
//!
//! Invariant: nothing here looks at a clock, and no result depends on it, only which thread computes it. Lowering names
//! the kind of work of each call; `sched` adds times up. `arenagrad trace` prints these times beside those of a step:
//! docs/performance.md tells how to measure the table anew.

use super::tile::{Step, TileOp};
use crate::kernels::gemm::{Precision, bf16_engine};

/// What a kind of work takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostClass {
    /// Nanoseconds of each call, however small.
    call: u32,
    /// Femtoseconds of each operation, as the call counts them.
    op: u32,
    /// Femtoseconds of each byte that is read or written, in caches near enough for a step of a small network.
    byte: u32,
}

const fn row(call: u32, op: u32, byte: u32) -> CostClass {
    CostClass { call, op, byte }
}

impl CostClass {
    /// Copies, fills, slices, and whatever has no row of its own.
    pub const COPY: CostClass = row(60, 0, 33_000);
    /// Elements that indices name.
    pub const INDEX: CostClass = row(60, 0, 100_000);
    /// Products in f32, on its units.
    pub const PRODUCT: CostClass = row(180, 8_700, 10_000);
    /// Products in f64.
    pub const PRODUCT_F64: CostClass = row(120, 17_500, 10_000);
    /// Products of numbers split in three bf16 terms.
    pub const PRODUCT_THIRDS: CostClass = row(200, 5_000, 35_000);
    /// Products of numbers split in two bf16 terms.
    pub const PRODUCT_HALVES: CostClass = row(200, 3_700, 25_000);
    /// Products of numbers rounded to bf16, by tiles of AMX.
    pub const PRODUCT_BF16: CostClass = row(200, 1_700, 25_000);
    /// The same by vectors, which are no more than twice as fast as those of f32.
    pub const PRODUCT_BF16_VECTORS: CostClass = row(200, 5_400, 15_000);
    /// Convolutions and their derivatives.
    pub const CONV: CostClass = row(300, 13_000, 5_000);
    /// Pools and their derivatives.
    pub const POOL: CostClass = row(100, 0, 50_000);
    /// Attention.
    pub const ATTENTION: CostClass = row(300, 53_000, 10_000);
    /// The derivative of attention.
    pub const ATTENTION_BACKWARD: CostClass = row(300, 34_000, 10_000);
    /// Softmax along rows, and derivatives of it and of cross entropy.
    pub const SOFTMAX: CostClass = row(100, 150_000, 30_000);
    /// Cross entropy of rows.
    pub const CROSS_ENTROPY: CostClass = row(300, 400_000, 30_000);
    /// Norms of rows and their derivatives.
    pub const NORM: CostClass = row(100, 0, 50_000);
    /// Sums and other reductions.
    pub const REDUCE: CostClass = row(80, 0, 25_000);
    /// Sums and the like that run along an axis.
    pub const RUNNING: CostClass = row(80, 1_000_000, 30_000);
    /// Sorts: an operation is a comparison.
    pub const SORT: CostClass = row(100, 7_000_000, 30_000);
    /// Activations with their derivatives.
    pub const ACTIVATION: CostClass = row(100, 500_000, 29_000);
    /// Random numbers.
    pub const RANDOM: CostClass = row(100, 150_000, 30_000);
    /// What is looked at in rare cases only, however much it is.
    pub const RARE: CostClass = row(60, 0, 0);
    /// Updates of params.
    pub const OPTIMISER: CostClass = row(80, 0, 33_000);
    /// Point-wise programs: an operation is a [`step`] of one element, in femtoseconds.
    pub const TILE: CostClass = row(90, 1, 29_000);

    /// Products of f32 matrices in this precision, by the units that this CPU has.
    pub fn product(precision: Precision) -> CostClass {
        match precision {
            Precision::F32 => CostClass::PRODUCT,
            Precision::Bf16x3 => CostClass::PRODUCT_THIRDS,
            Precision::Bf16x2 => CostClass::PRODUCT_HALVES,
            Precision::Bf16 if bf16_engine() == Ok("amx") => CostClass::PRODUCT_BF16,
            Precision::Bf16 => CostClass::PRODUCT_BF16_VECTORS,
        }
    }

    /// Picoseconds of a call of `ops` operations that reads and writes `bytes` bytes, all of its units on one thread.
    pub const fn time(self, ops: u64, bytes: u64) -> u64 {
        let ops = ops.saturating_mul(self.op as u64).saturating_add(bytes.saturating_mul(self.byte as u64));
        self.fixed().saturating_add(ops / 1000)
    }

    /// Picoseconds of a call of nothing.
    pub const fn fixed(self) -> u64 {
        self.call as u64 * 1000
    }
}

/// Femtoseconds of one step of a point-wise program for one element, beside the bytes that move.
pub const fn step(op: TileOp) -> u64 {
    use TileOp::*;
    match op {
        Exp | Expm1 | Log | Log1p | Sqrt | Rsqrt | Recip | Sigmoid | Div => 250_000,
        Sin | Cos | Tan | Atan | Erf | Elu | Gelu | GeluGrad | GeluTanh | GeluTanhGrad | Silu | SiluGrad | Softplus => {
            1_000_000
        }
        Tanh => 2_200_000,
        Pow => 4_000_000,
        _ => 15_000,
    }
}

/// [`CostClass::TILE`]'s operations of a program of these steps over `len` elements.
pub fn steps(steps: &[Step], len: usize) -> u64 {
    steps.iter().fold(0, |sum, s| step(s.op).saturating_add(sum)).saturating_mul(len as u64)
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
        assert!(step(TileOp::Tanh) > step(TileOp::Exp) && step(TileOp::Exp) > step(TileOp::Add));
    }
}
