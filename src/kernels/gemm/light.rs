//! Kernels of the products that a step with a batch of one consists of: a row by a matrix, and a step by a column and a row.
//!
//! They take some tens of nanoseconds, so that looking at all that a descriptor can say would be felt: what kind of
//! product it is was seen when the instruction was made. Invariant: operands, params and bits are those of the kernels in
//! `mod.rs`, which compute these products too.

use super::desc::Gemm;
use super::epilogue::{Descent, act_fn, add_row, gate_fn};
use super::float::GemmFloat;
use super::vector::{self, Vector};
use super::{row_of, run, run_descent};
use crate::kernels::abi::{Args, Kernel};
use crate::kernels::simd::Token;

/// The kernel of a product: [`run`], or one that does the same for less.
pub fn kernel<T: GemmFloat>(g: &Gemm) -> Kernel {
    if row_form(g).is_some() { run_row::<T> } else { run::<T> }
}

/// How a row is multiplied by a matrix, if that is all that the product is. No bf16 units compute it.
#[inline]
pub fn row_form(g: &Gemm) -> Option<Vector> {
    if g.m == 1 && g.k > 0 && !g.accumulate && g.batch().is_empty() { Vector::new(g) } else { None }
}

/// The kernel of a product that [`Gemm::descends`]: [`run_descent`], or one that does the same for less.
pub fn descent_kernel<T: GemmFloat>(g: &Gemm) -> Kernel {
    if vector::by_outer(g) { descend_by_outer::<T> } else { run_descent::<T> }
}

/// A row by a matrix.
fn run_row<T: GemmFloat>(args: &mut Args<'_>) {
    let g = Gemm::alone(args.params());
    let Some(vector) = Vector::new(&g) else { return run::<T>(args) };
    let (a, b) = (args.read::<T>(0), args.read::<T>(1));
    let third = g.third().then(|| args.read::<T>(2));
    let (from, c) = (args.units().start * g.per_unit(), args.write::<T>(0));
    let scratch = if args.writes() > 1 { args.write::<T>(1) } else { &mut [] };
    row(&g, vector, (a, b, third), from, c, scratch);
}

/// Elements of the product of a row, those of `c`, from column `from` on; the operands are whole.
#[inline]
pub fn row<T: GemmFloat>(
    g: &Gemm,
    vector: Vector,
    (a, b, third): (&[T], &[T], Option<&[T]>),
    from: usize,
    c: &mut [T],
    scratch: &mut [T],
) {
    assert_eq!(third.is_some(), g.third(), "the operands do not match the descriptor");
    vector.product(Token::current(), (a, &b[from * g.b.col..]), c, false, scratch);
    if let Some(third) = third {
        let third = &third[from..from + c.len()];
        match gate_fn(g.act) {
            Some(gate) => gate(c, third),
            None => add_row(c, third),
        }
    }
    if let Some(act) = act_fn(g.act) {
        act(c);
    }
}

/// A step by a column and a row.
fn descend_by_outer<T: GemmFloat>(args: &mut Args<'_>) {
    let words = args.params();
    let g = Gemm::alone(words);
    let decay = T::from_f64(f64::from_bits(words.last().copied().unwrap_or(0)));
    let (a, b, lr) = (args.read::<T>(0), args.read::<T>(1), args.read::<T>(3)[0]);
    let (from, c) = (args.units().start * g.per_unit(), args.write::<T>(0));
    if args.inplace(2).is_none() {
        c.copy_from_slice(&args.read::<T>(2)[from..from + c.len()]);
    }
    vector::outer(&a[row_of(from, &g) * g.a.row..], g.a.row, &b[..g.n], c, Some(Descent { lr, decay }));
}
