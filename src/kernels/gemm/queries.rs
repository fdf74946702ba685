//! What op lowerings ask of a product: scratch, and which fused forms it has.
//!
//! Invariant: each answer follows from [`Algorithm::of`].

use super::act::Act;
use super::algorithm::Algorithm;
use super::desc::Gemm;
use super::float::GemmFloat;
use super::gemm_into::SinkPlan;
use super::plan::Plan;
use super::precision::Precision;
use super::sums;
use super::tuning::SUM_UNITS;

impl Gemm {
    /// Elements of scratch that a thread needs.
    pub fn scratch_len<T: GemmFloat>(&self) -> usize {
        if self.is_empty() { 0 } else { Algorithm::of::<T>(self).scratch::<T>(self) }
    }

    /// The precision that it is computed in: what is small stays in f32.
    pub fn runs_in<T: GemmFloat>(&self) -> Precision {
        if self.is_bf16::<T>() { self.precision } else { Precision::F32 }
    }

    /// Whether its tiles can go to a sink instead of memory: one bare product that tiles compute.
    pub fn feeds_sink<T: GemmFloat>(&self) -> bool {
        let matrices = self.m != 1 && self.n != 1 && !self.is_empty();
        self.bare() && matrices && Algorithm::of::<T>(self).makes_tiles()
    }

    fn bare(&self) -> bool {
        self.batch().is_empty() && !self.accumulate && !self.bias && self.act == Act::None
    }

    /// Whether bf16 units compute it.
    fn is_bf16<T: GemmFloat>(&self) -> bool {
        matches!(Algorithm::of::<T>(self), Algorithm::Bf16(_))
    }

    /// Elements of scratch that a thread needs where it [`fuses_sgd`](Gemm::fuses_sgd).
    pub fn sgd_scratch<T: GemmFloat>(&self) -> usize {
        match Algorithm::of::<T>(self) {
            Algorithm::Outer => 0,
            _ => Plan::new::<T>(self).scratch::<T>(),
        }
    }

    /// Elements of scratch that a thread needs where it [`feeds_sink`](Gemm::feeds_sink).
    pub fn sink_scratch<T: GemmFloat>(&self) -> usize {
        match Algorithm::of::<T>(self) {
            Algorithm::Bf16(plan) => plan.scratch(self.k),
            _ => SinkPlan::new::<T>(self).scratch(),
        }
    }

    /// Whether a step of SGD can take this product tile by tile, no sum being cut, or row by row.
    pub fn fuses_sgd<T: GemmFloat>(&self) -> bool {
        match Algorithm::of::<T>(self) {
            Algorithm::Bf16(_) => false,
            Algorithm::Outer => self.bare() && !self.is_empty(),
            _ => self.feeds_sink::<T>() && Plan::new::<T>(self).whole(self.k),
        }
    }

    /// The same product with the columns of C summed, block of rows by block of rows, if that costs neither bits nor
    /// units: one product of several rows that no bf16 units compute.
    pub fn with_sums<T: GemmFloat>(self) -> Option<Gemm> {
        let g = Gemm { sums: true, ..self };
        if self.m <= 1 || self.is_empty() || !self.batch().is_empty() || self.is_bf16::<T>() {
            return None;
        }
        let (before, units) = (self.division().1, g.division().1);
        let enough = if before > 2 { before.min(SUM_UNITS) } else { 1 };
        (sums::fit(self.m, self.n, units == 1) && units >= enough).then_some(g)
    }
}
