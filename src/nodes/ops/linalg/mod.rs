//! Dense linear algebra on matrices in the last two axes; the axes before them are a batch.
//!
//! `solve` has LU factors, triangular solves and what is made of them; `cholesky`, `qr`, `eigh` and `svd` have one
//! decomposition each; `matrix_function` and `polar` have derivatives at equal eigenvalues and singular values; `var`
//! has the methods. Derivatives are made of the same ops, so they have derivatives as well.
//!
//! Invariant: a derivative solves with factors that the node keeps; it factors nothing again. Those of matrix roots and
//! polar factors are the exception: they factor a symmetric result (`sylvester`), once for all.

pub mod attrs;
pub mod cholesky;
pub mod eigh;
pub mod lower;
pub mod lu;
pub mod matrix_function;
pub mod matrix_function_slope;
pub mod polar;
pub mod qr;
pub mod solve;
pub mod spectral_quotient;
pub mod svd;
pub mod sylvester;
pub mod triangular;
pub mod var;

use crate::arena::dims::Dims;
use crate::ensure;
use crate::kernels::cost_model::CostClass;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ir::pack::Pack;

/// Factors of matrices and solves with them: an operation is a multiplication and an addition of a row.
pub const FACTOR: CostClass = CostClass::new(150, 150_000, 30_000);

/// What the engine knows of the family beside its definitions.
pub static PACK: Pack = Pack::new("linalg").costs(&[("LINALG", FACTOR)]);

/// Batch axes, rows and columns of operand `i`, called `what`.
fn check_matrix_dims(cx: &Infer<'_>, i: usize, what: &str) -> Result<(Dims, usize, usize), String> {
    let d = cx.dims(i);
    cx.float(i)?;
    ensure!(d.len() >= 2, "{what} has shape {d}; rank 2 or more is needed");
    let (batch, matrix) = d.split_at(d.len() - 2);
    Ok((Dims::new(batch).unwrap_or_default(), matrix[0], matrix[1]))
}

/// Batch axes and size of operand `i`, called `what`, a batch of square matrices.
fn check_square_dims(cx: &Infer<'_>, i: usize, what: &str) -> Result<(Dims, usize), String> {
    let (batch, m, n) = check_matrix_dims(cx, i, what)?;
    ensure!(m == n, "{what} has shape {}; its matrices must be square", cx.dims(i));
    ensure!(i32::try_from(n).is_ok(), "{what} has shape {}; its rows have no i32 positions", cx.dims(i));
    Ok((batch, n))
}

/// `thirds`/3 operations for each number of the first operand and each of its shorter side.
fn cubic_cost(cx: &CostCx<'_>, thirds: u64) -> u64 {
    let d = cx.graph.dims(cx.graph.args_of(cx.node)[0]);
    let short = d.iter().rev().take(2).copied().min().unwrap_or(0) as u64;
    cx.arg(0).saturating_mul(short).saturating_mul(thirds) / 3
}

/// The transposed matrix times `scale`, added to the matrix times `scale`.
fn symmetric_part<'g>(x: Var<'g>) -> Var<'g> {
    (x + x.t()) * 0.5
}

/// The lower triangle with a halved diagonal: the part of a symmetric matrix whose sum with its transpose it is.
fn halve_triangle<'g>(x: Var<'g>) -> Var<'g> {
    (x.tril(0) + x.tril(-1)) * 0.5
}

/// The sum of what is there.
fn sum_present<'g>(parts: impl IntoIterator<Item = Option<Var<'g>>>) -> Option<Var<'g>> {
    parts.into_iter().flatten().reduce(|a, b| a + b)
}

/// What rounding leaves of numbers of magnitudes up to `largest`: below it, they are 0 to rounding.
fn rounding_noise<'g>(largest: Var<'g>) -> Var<'g> {
    let epsilon = if largest.dtype().size() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    largest * (16.0 * epsilon)
}

/// The results of `op` on `x` alone, for rules and methods.
#[track_caller]
fn unary_results<'g, const N: usize>(x: Var<'g>, op: Op) -> [Var<'g>; N] {
    let all = x.g.emit(op, &[x], &[]);
    std::array::from_fn(|i| all[i])
}
