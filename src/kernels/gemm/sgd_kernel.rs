//! Fused weight updates: plain SGD steps in the epilogue of the product that is their gradient.
//!
//! Invariant: C = p − lr·(A · B + decay·p), with the bits of a product and a step after it.

use super::blocked::{self, BlockedProduct};
use super::blocked_plan::BlockedPlan;
use super::epilogue::{GemmEpilogue, Kind};
use super::gemm_desc::Gemm;
use super::gemm_float::GemmFloat;
use super::gemm_kernel::{Corner, each_matrix_part};
use super::gemm_units::gemm_unit_row;
use super::outer_product;
use super::sgd_epilogue::SgdEpilogue;
use crate::abi::{Args, Kernel, MatrixMut};
use crate::by_dtype;
use crate::simd::Token;
use arenagrad_arena::dtype::DType;

/// The kernel of a product that [`Gemm::fuses_sgd`]: [`run_sgd_step`], or a faster one with the same operands, words
/// and bits.
pub fn sgd_kernel<T: GemmFloat>(g: &Gemm) -> Kernel {
    let lone = g.batch().is_empty();
    if lone && outer_product::can_compute(g) { run_outer_step::<T> } else { run_sgd_step::<T> }
}

/// [`sgd_kernel`] for an element type.
#[inline(never)]
pub fn sgd_step_kernel_for(dtype: DType, g: &Gemm) -> Result<Kernel, String> {
    match dtype {
        DType::F32 => Ok(sgd_kernel::<f32>(g)),
        #[cfg(any(not(target_arch = "wasm32"), feature = "f64"))]
        DType::F64 => Ok(sgd_kernel::<f64>(g)),
        d => by_dtype::missing_kernel_error(d),
    }
}

/// C = p − lr·(A · B + decay·p), for a product that [`Gemm::fuses_sgd`].
///
/// * Reads a, b, p `T[batch.., m, n]`, lr `T[]`.
/// * Writes C `T[batch.., m, n]` (`Split::PerUnit(per_unit())`), which may be in place of read 2; then scratch
///   (`Split::PerThread(sgd_scratch())`, may be left out if that is 0).
/// * Words: [`Gemm::to_words`], then the bits of the decay, an `f64`.
pub fn run_sgd_step<T: GemmFloat>(args: &mut Args<'_>) {
    let g = Gemm::from_words(args.params());
    let decay = T::from_f64(f64::from_bits(args.params().last().copied().unwrap_or(0)));
    let (a, b, lr) = (args.read::<T>(0), args.read::<T>(1), args.read::<T>(3)[0]);
    g.assert_fits(a.len(), b.len());
    let whole = g.unit_elements(&args.units());
    let c = args.write::<T>(0);
    if c.is_empty() {
        return;
    }
    if args.inplace(2).is_none() {
        c.copy_from_slice(&args.read::<T>(2)[whole.clone()]);
    }
    let step = SgdEpilogue { lr, decay };
    let end = GemmEpilogue { bias: None, kind: Kind::Sgd(step) };
    let scratch = if args.writes() > 1 { args.write::<T>(1) } else { &mut [] };
    let (token, plan, outer) = (Token::current(), BlockedPlan::with_old_c::<T>(&g), outer_product::can_compute(&g));
    let at = Corner { row: gemm_unit_row(whole.start, &g), col: 0 };
    each_matrix_part(&g, at, MatrixMut::new(c, whole.len() / g.n, g.n), |from, mut c| {
        let (a, b) = (&a[from.a..], &b[from.b..]);
        match c.flat() {
            Some(c) if outer => outer_product::outer_product(a, g.a.row, &b[..g.n], c, Some(step)),
            _ => blocked::multiply_block(token, &g, &plan, BlockedProduct { a, b, c, sums: None }, &end, scratch),
        }
    });
}

/// As [`run_sgd_step`], for the outer product of a column and a row. There is no batch, so less of the descriptor is
/// read.
fn run_outer_step<T: GemmFloat>(args: &mut Args<'_>) {
    let words = args.params();
    let g = Gemm::unbatched(words);
    let decay = T::from_f64(f64::from_bits(words.last().copied().unwrap_or(0)));
    let (a, b, lr) = (args.read::<T>(0), args.read::<T>(1), args.read::<T>(3)[0]);
    let (from, c) = (args.units().start * g.per_unit(), args.write::<T>(0));
    if args.inplace(2).is_none() {
        c.copy_from_slice(&args.read::<T>(2)[from..from + c.len()]);
    }
    outer_product::outer_product(
        &a[gemm_unit_row(from, &g).saturating_mul(g.a.row)..],
        g.a.row,
        &b[..g.n],
        c,
        Some(SgdEpilogue { lr, decay }),
    );
}
