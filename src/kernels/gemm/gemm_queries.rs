//! Queries of op lowerings about a product: its scratch and its fused forms.
//!
//! Invariant: each answer follows from the descriptor and [`Algorithm::of`].
//!
//! A query is generic over the element type. Its form with `_for` takes the type as a value.

use super::algorithm::Algorithm;
use super::blocked_plan::BlockedPlan;
use super::column_sums;
use super::gemm_desc::Gemm;
use super::gemm_float::GemmFloat;
use super::gemm_into::GemmIntoPlan;
use super::precision::Precision;
use super::tuning::{LINE, SUM_UNITS};
use arenagrad_arena::dtype::DType;

impl Gemm {
    /// Elements of scratch of each thread.
    pub fn scratch_len<T: GemmFloat>(&self) -> usize {
        if self.is_empty() { 0 } else { Algorithm::of::<T>(self).scratch::<T>(self) }
    }

    /// Elements of a cache line, if each element of C is a dot product with a partial sum for each of them (`dots`);
    /// `None` if it is one chain. The order of a bf16 engine is neither.
    pub fn sum_lanes<T: GemmFloat>(&self) -> Option<usize> {
        match Algorithm::of::<T>(self) {
            Algorithm::Gemv(gemv) if gemv.sums_by_lanes() => Some(LINE / size_of::<T>()),
            Algorithm::Dots => Some(LINE / size_of::<T>()),
            _ => None,
        }
    }

    /// The precision that it is computed in: `F32` if it is too small to gain from the bf16 engine.
    pub fn runs_in<T: GemmFloat>(&self) -> Precision {
        if self.is_bf16::<T>() { self.precision } else { Precision::F32 }
    }

    /// Whether its tiles can go to a [`TileSink`](super::TileSink) instead of memory: one product without epilogue,
    /// not with a vector, whose algorithm computes tiles.
    pub fn feeds_sink<T: GemmFloat>(&self) -> bool {
        self.batch().is_empty() && self.makes_bare_tiles::<T>()
    }

    /// Whether its matrices, not vectors, are computed in tiles and without epilogue.
    fn makes_bare_tiles<T: GemmFloat>(&self) -> bool {
        let matrices = self.m != 1 && self.n != 1 && !self.is_empty();
        self.bare() && matrices && Algorithm::of::<T>(self).makes_tiles()
    }

    /// Whether the bf16 engine computes it.
    fn is_bf16<T: GemmFloat>(&self) -> bool {
        matches!(Algorithm::of::<T>(self), Algorithm::Bf16(_))
    }

    /// Elements of scratch of each thread where it [`fuses_sgd`](Gemm::fuses_sgd).
    pub fn sgd_scratch<T: GemmFloat>(&self) -> usize {
        match Algorithm::of::<T>(self) {
            Algorithm::Outer => 0,
            _ => BlockedPlan::with_old_c::<T>(self).scratch::<T>(),
        }
    }

    /// Elements of scratch of each thread where it [`feeds_sink`](Gemm::feeds_sink).
    pub fn sink_scratch<T: GemmFloat>(&self) -> usize {
        match Algorithm::of::<T>(self) {
            Algorithm::Bf16(plan) => plan.scratch(self.k),
            _ => GemmIntoPlan::new::<T>(self).scratch(),
        }
    }

    /// Whether a plain SGD step by this product, which is a gradient, can run in its epilogue: it is computed tile by
    /// tile with each sum complete, or as an outer product.
    pub fn fuses_sgd<T: GemmFloat>(&self) -> bool {
        match Algorithm::of::<T>(self) {
            Algorithm::Bf16(_) => false,
            Algorithm::Outer => self.bare() && !self.is_empty(),
            _ => self.makes_bare_tiles::<T>() && BlockedPlan::new::<T>(self).whole(self.k),
        }
    }

    /// The same product with the columns of C summed, for each block of rows. `None` if the sums would not have the
    /// bits of a reduction, if too few units would be left, or for a lone row, a batch or a product of the bf16 engine.
    pub fn with_sums<T: GemmFloat>(self) -> Option<Gemm> {
        let g = Gemm { sums: true, ..self };
        if self.m <= 1 || self.is_empty() || !self.batch().is_empty() || self.is_bf16::<T>() {
            return None;
        }
        let (before, units) = (self.division().1, g.division().1);
        let enough = if before > 2 { before.min(SUM_UNITS) } else { 1 };
        (column_sums::can_keep_bits(self.m, self.n, units == 1) && units >= enough).then_some(g)
    }
}

macro_rules! queries_for {
    ($($name:ident = $query:ident -> $answer:ty;)*) => {
        impl Gemm {
            $(#[doc = concat!("[`", stringify!($query), "`](Gemm::", stringify!($query), ") in f32, or else in f64.")]
            #[inline(never)]
            pub fn $name(&self, dtype: DType) -> $answer {
                if dtype == DType::F32 { self.$query::<f32>() } else { self.$query::<f64>() }
            })*
        }
    };
}

queries_for! {
    scratch_len_for = scratch_len -> usize;
    runs_in_for = runs_in -> Precision;
    feeds_sink_for = feeds_sink -> bool;
    sgd_scratch_for = sgd_scratch -> usize;
    sink_scratch_for = sink_scratch -> usize;
    fuses_sgd_for = fuses_sgd -> bool;
    sum_lanes_for = sum_lanes -> Option<usize>;
    with_sums_for = with_sums -> Option<Gemm>;
}
