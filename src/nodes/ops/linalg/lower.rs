//! Kernel calls of linear algebra. A matrix of the batch is a unit.

use super::FACTOR;
use crate::kernels::abi::{Kernel, Split};
use crate::kernels::linalg::cholesky::Cholesky;
use crate::kernels::linalg::eigh::Eigh;
use crate::kernels::linalg::lu::{LuFactor, LuSolve};
use crate::kernels::linalg::qr::Qr;
use crate::kernels::linalg::svd::Svd;
use crate::kernels::linalg::triangular::TriangularSolve;
use crate::kernels::linalg::{self, BatchMap, SMALL};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::linalg::attrs::{LuSolveAttrs, Singular, SolveAttrs, TriangularSolveAttrs};

/// Matrices, rows and columns of dimensions `d`.
fn count_matrices(d: &[usize]) -> (usize, usize, usize) {
    let (batch, matrix) = d.split_at(d.len().saturating_sub(2));
    (batch.iter().product(), matrix[0], matrix[1])
}

/// The map from the matrices of the first result to those of operands 0 and `b`.
fn map_matrices(cx: &LowerCx<'_>, b: usize) -> Vec<u64> {
    let batch = |d: &[usize]| d[..d.len() - 2].to_vec();
    BatchMap::to_words(&batch(&cx.out_dims(0)), &batch(&cx.arg_dims(0)), &batch(&cx.arg_dims(b)))
}

/// A call with a unit for each of `units` matrices.
fn matrix_call(cx: &LowerCx<'_>, kernel: Kernel, words: Vec<u64>, units: usize) -> Call {
    Call::new(kernel, words, units).flops(cx.flops()).cost_class(FACTOR)
}

/// Scratch of `len` elements for `count` matrices, each a unit: for each thread, or once if there is one matrix.
fn reserve_scratch(cx: &mut LowerCx<'_>, len: usize, count: usize) -> (Buf, Split) {
    let size = cx.dtype(0).size();
    if count == 1 { (cx.temp(size, len), Split::PerUnit(len)) } else { cx.scratch(size, len) }
}

/// The factors of operand 0, their rows and their signs.
fn emit_factors(cx: &mut LowerCx<'_>, p: LuFactor, [factors, rows, sign]: [Buf; 3]) -> Result<(), String> {
    let scratch = reserve_scratch(cx, p.scratch(cx.dtype(0).size()), p.count);
    let call = matrix_call(cx, linalg::lu::lu_factor_for(cx.dtype(0))?, p.to_words(), p.count);
    let call = call.reads_args(1).writes(factors, p.n * p.n).writes(rows, p.n).writes(sign, 1);
    cx.call(call.scratch(scratch).inplace(&[(0, 0)]));
    Ok(())
}

/// `lu`.
pub fn emit_lu(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (count, n, _) = count_matrices(&cx.arg_dims(0));
    emit_factors(cx, LuFactor { count, n }, [Buf::Out(0), Buf::Out(1), Buf::Out(2)])
}

/// X from the factors `lu` and `rows`, and operand `b`.
fn emit_solve_call(cx: &mut LowerCx<'_>, lu: Buf, rows: Buf, b: usize, a: &LuSolveAttrs) -> Result<(), String> {
    let (count, n, k) = count_matrices(&cx.out_dims(0));
    let p = LuSolve { count, n, k, transpose: a.transpose, nan: a.singular == Singular::Nan };
    let words = [p.to_words(), map_matrices(cx, b)].concat();
    let scratch = reserve_scratch(cx, p.scratch(), p.count);
    let call = matrix_call(cx, linalg::lu::lu_solve_for(cx.dtype(0))?, words, count);
    cx.call(call.reads(&[lu, rows, Buf::Arg(b)]).faults().writes(Buf::Out(0), n * k).scratch(scratch));
    Ok(())
}

/// `lu_solve`.
pub fn emit_lu_solve(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let a = LuSolveAttrs::of(&cx.attrs());
    emit_solve_call(cx, Buf::Arg(0), Buf::Arg(1), 2, &a)
}

/// `solve` of small matrices whose factors have no reader.
fn emit_small_solve(cx: &mut LowerCx<'_>, nan: bool) -> Result<(), String> {
    let (count, n, k) = count_matrices(&cx.out_dims(0));
    let p = LuSolve { count, n, k, transpose: false, nan };
    let words = [p.to_words(), map_matrices(cx, 1)].concat();
    let scratch = reserve_scratch(cx, p.factor_scratch(), p.count);
    let call = matrix_call(cx, linalg::lu::lu_solve_small_kernel_for(cx.dtype(0))?, words, count);
    cx.call(call.reads_args(2).faults().writes(Buf::Out(0), n * k).scratch(scratch));
    Ok(())
}

/// `solve`: the factors, then X.
pub fn emit_solve(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let SolveAttrs { singular } = SolveAttrs::of(&cx.attrs());
    let ((count, n, _), size) = (count_matrices(&cx.arg_dims(0)), cx.dtype(0).size());
    // Factors of a matrix that several right sides share are made once.
    let (systems, _, k) = count_matrices(&cx.out_dims(0));
    if n <= SMALL && systems == count && n * k > 0 && !cx.used[1] && !cx.used[2] {
        return emit_small_solve(cx, singular == Singular::Nan);
    }
    let sign = cx.temp(size, count);
    let factors = if cx.used[1] { Buf::Out(1) } else { cx.temp(size, count * n * n) };
    let rows = if cx.used[2] { Buf::Out(2) } else { cx.temp(size_of::<i32>(), count * n) };
    emit_factors(cx, LuFactor { count, n }, [factors, rows, sign])?;
    if cx.out_dims(0).numel() == 0 {
        return Ok(());
    }
    emit_solve_call(cx, factors, rows, 1, &LuSolveAttrs { transpose: false, singular })
}

/// `triangular_solve`.
pub fn emit_triangular_solve(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let TriangularSolveAttrs { upper, transpose, unit, singular } = TriangularSolveAttrs::of(&cx.attrs());
    let (count, n, k) = count_matrices(&cx.out_dims(0));
    let p = TriangularSolve { count, n, k, upper, transpose, unit, nan: singular == Singular::Nan };
    let words = [p.to_words(), map_matrices(cx, 1)].concat();
    let call = matrix_call(cx, linalg::triangular::triangular_solve_for(cx.dtype(0))?, words, count);
    let call = call.reads_args(2).writes(Buf::Out(0), n * k);
    cx.call(if unit || p.nan { call } else { call.faults() });
    Ok(())
}

/// `cholesky`.
pub fn emit_cholesky(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (count, n, _) = count_matrices(&cx.arg_dims(0));
    let p = Cholesky { count, n };
    let scratch = reserve_scratch(cx, p.scratch(cx.dtype(0).size()), p.count);
    let call = matrix_call(cx, linalg::cholesky::cholesky_for(cx.dtype(0))?, p.to_words(), count);
    cx.call(call.reads_args(1).faults().writes(Buf::Out(0), n * n).scratch(scratch));
    Ok(())
}

/// `qr`.
pub fn emit_qr(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (count, m, n) = count_matrices(&cx.arg_dims(0));
    let p = Qr { count, m, n };
    let scratch = reserve_scratch(cx, p.scratch(), p.count);
    let call = matrix_call(cx, linalg::qr::qr_for(cx.dtype(0))?, p.to_words(), count).reads_args(1);
    cx.call(call.writes(Buf::Out(0), m * p.rank()).writes(Buf::Out(1), p.rank() * n).scratch(scratch));
    Ok(())
}

/// `eigh`.
pub fn emit_eigh(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (count, n, _) = count_matrices(&cx.arg_dims(0));
    let p = Eigh { count, n };
    let scratch = reserve_scratch(cx, p.scratch(), p.count);
    let call = matrix_call(cx, linalg::eigh::eigh_for(cx.dtype(0))?, p.to_words(), count).reads_args(1);
    cx.call(call.writes(Buf::Out(0), n).writes(Buf::Out(1), n * n).scratch(scratch));
    Ok(())
}

/// `svd`.
pub fn emit_svd(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (count, m, n) = count_matrices(&cx.arg_dims(0));
    let p = Svd { count, m, n };
    let scratch = reserve_scratch(cx, p.scratch(), p.count);
    let call = matrix_call(cx, linalg::svd::svd_for(cx.dtype(0))?, p.to_words(), count).reads_args(1);
    let call = call.writes(Buf::Out(0), m * p.rank()).writes(Buf::Out(1), p.rank());
    cx.call(call.writes(Buf::Out(2), p.rank() * n).scratch(scratch));
    Ok(())
}
