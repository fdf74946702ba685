//! Fused weight updates: a step of plain SGD by a gradient that is a product, taken while the product is computed.
//!
//! Invariant: C = p − lr·(A · B + decay·p), each element in the order of a product and a step after it.
//! Op lowerings take these kernels where [`Gemm::fuses_sgd`].

use super::blocked::{self, Product};
use super::desc::Gemm;
use super::epilogue::{Epilogue, Kind};
use super::float::GemmFloat;
use super::outer;
use super::plan::Plan;
use super::sgd::SgdEpilogue;
use super::units::row_of;
use crate::kernels::abi::{Args, Kernel, MatrixMut};
use crate::kernels::simd::Token;

/// The kernel of a product that [`Gemm::fuses_sgd`]: [`run_sgd`], or one that does the same for less.
pub fn sgd_kernel<T: GemmFloat>(g: &Gemm) -> Kernel {
    if outer::fits(g) { sgd_by_outer::<T> } else { run_sgd::<T> }
}

/// The kernel of a product that is a gradient and goes into a step of plain SGD at once, where [`Gemm::fuses_sgd`]:
/// C = p − lr·(A · B + decay·p), each element in the order of a product and a step after it.
///
/// Reads a, b, p: `T[m, n]`, lr: `T[]`; writes C (`Split::PerUnit(per_unit())`), in place of read 2 or not, and scratch
/// (`Split::PerThread(sgd_scratch())`; may be left out if that is 0); params: those of the product, then the bits of
/// the decay, an `f64`.
pub fn run_sgd<T: GemmFloat>(args: &mut Args<'_>) {
    let g = Gemm::from_words(args.params());
    let decay = T::from_f64(f64::from_bits(args.params().last().copied().unwrap_or(0)));
    let (a, b, lr) = (args.read::<T>(0), args.read::<T>(1), args.read::<T>(3)[0]);
    let whole = g.elements(&args.units());
    let c = args.write::<T>(0);
    if c.is_empty() {
        return;
    }
    if args.inplace(2).is_none() {
        c.copy_from_slice(&args.read::<T>(2)[whole.clone()]);
    }
    let (step, a) = (SgdEpilogue { lr, decay }, &a[row_of(whole.start, &g) * g.a.row..]);
    if outer::fits(&g) {
        return outer::outer(a, g.a.row, &b[..g.n], c, Some(step));
    }
    let (end, p) = (
        Epilogue { bias: None, kind: Kind::Sgd(step) },
        Product { a, b, c: MatrixMut::new(c, whole.len() / g.n, g.n), sums: None },
    );
    let scratch = if args.writes() > 1 { args.write::<T>(1) } else { &mut [] };
    blocked::product(Token::current(), &g, &Plan::new::<T>(&g), p, &end, scratch);
}

/// A step by a column and a row. A descriptor that has no batch is read sooner.
fn sgd_by_outer<T: GemmFloat>(args: &mut Args<'_>) {
    let words = args.params();
    let g = Gemm::alone(words);
    let decay = T::from_f64(f64::from_bits(words.last().copied().unwrap_or(0)));
    let (a, b, lr) = (args.read::<T>(0), args.read::<T>(1), args.read::<T>(3)[0]);
    let (from, c) = (args.units().start * g.per_unit(), args.write::<T>(0));
    if args.inplace(2).is_none() {
        c.copy_from_slice(&args.read::<T>(2)[from..from + c.len()]);
    }
    outer::outer(&a[row_of(from, &g) * g.a.row..], g.a.row, &b[..g.n], c, Some(SgdEpilogue { lr, decay }));
}
