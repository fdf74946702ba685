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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ir::dtype::DType;
    use crate::nodes::ir::opdef::Op;
    use crate::nodes::ops::common::lowered_in_tests::LoweredInTests;
    use Buf::{Arg, Out, Temp};
    use Split::{PerThread, PerUnit};

    const FAULT: SolveAttrs = SolveAttrs { singular: Singular::Fault };

    fn of(op: Op, args: &[&[usize]]) -> LoweredInTests {
        LoweredInTests::of_one_type(DType::F64, op, args, &[], &[true; 3])
    }

    fn solve(a: &[usize], b: &[usize], used: [bool; 3]) -> LoweredInTests {
        LoweredInTests::of_one_type(DType::F64, Op::SOLVE, &[a, b], &FAULT.list(), &used)
    }

    #[test]
    fn a_small_system_whose_factors_have_no_reader_is_one_call() {
        let l = solve(&[3, 5, 5], &[3, 5, 2], [true, false, false]);
        assert_eq!(l.operands(), [(&[Arg(0), Arg(1)][..], &[(Out(0), PerUnit(10)), (Temp(0), PerThread(25))][..])]);
        assert_eq!(l.sizes(), [(8, 25, true)]);
        let call = &l.calls[0];
        assert_eq!((call.units, &call.params[..]), (3, &[3, 5, 2, 0, 0, 1, 3, 1, 1][..]));
        // 75 numbers, 5 rows, 2/3 of an operation for the factors; 30 numbers, 10 operations for X.
        assert_eq!((call.flops, call.work, call.looks.is_some()), (250 + 300, FACTOR, true));
        // One matrix has its scratch once, and the largest small one has 16 rows.
        let l = solve(&[16, 16], &[16, 1], [true, false, false]);
        assert_eq!(l.operands(), [(&[Arg(0), Arg(1)][..], &[(Out(0), PerUnit(16)), (Temp(0), PerUnit(256))][..])]);
        assert_eq!((l.sizes(), &l.calls[0].params[..]), (vec![(8, 256, false)], &[1, 16, 1, 0, 0, 0][..]));
        let nan = SolveAttrs { singular: Singular::Nan };
        let args: [&[usize]; 2] = [&[2, 2], &[2, 1]];
        let l = LoweredInTests::of_one_type(DType::F32, Op::SOLVE, &args, &nan.list(), &[true, false, false]);
        assert_eq!((l.sizes(), &l.calls[0].params[..]), (vec![(4, 4, false)], &[1, 2, 1, 0, 1, 0][..]));
    }

    #[test]
    fn a_larger_system_is_factored_first() {
        let l = solve(&[17, 17], &[17, 1], [true, false, false]);
        let scratch = LuFactor { count: 1, n: 17 }.scratch(8);
        let factors =
            [(Temp(1), PerUnit(289)), (Temp(2), PerUnit(17)), (Temp(0), PerUnit(1)), (Temp(3), PerUnit(scratch))];
        let x = [(Out(0), PerUnit(17)), (Temp(4), PerUnit(0))];
        assert_eq!(l.operands(), [(&[Arg(0)][..], &factors[..]), (&[Temp(1), Temp(2), Arg(1)][..], &x[..])]);
        let sizes = [(8, 1, false), (8, 289, false), (4, 17, false), (8, scratch, false), (8, 0, false)];
        assert_eq!(l.sizes(), sizes);
        assert_eq!(l.calls[0].inplace, [(0, 0)]);
        assert_eq!(l.calls.iter().map(|c| c.looks.is_some()).collect::<Vec<_>>(), [false, true]);
        assert_eq!(l.calls.iter().map(|c| &c.params[..]).collect::<Vec<_>>(), [&[1, 17][..], &[1, 17, 1, 0, 0, 0]]);
    }

    #[test]
    fn factors_that_are_read_are_results() {
        let l = solve(&[2, 3, 3], &[2, 3, 1], [true, true, false]);
        let factors = [(Out(1), PerUnit(9)), (Temp(1), PerUnit(3)), (Temp(0), PerUnit(1)), (Temp(2), PerThread(0))];
        assert_eq!(l.operands()[0], (&[Arg(0)][..], &factors[..]));
        assert_eq!(l.calls[1].reads, [Out(1), Temp(1), Arg(1)]);
        assert_eq!(l.sizes(), [(8, 2, false), (4, 6, false), (8, 0, true), (8, 0, true)]);
        let l = solve(&[2, 3, 3], &[2, 3, 1], [true, false, true]);
        assert_eq!((l.calls.len(), &l.calls[1].reads[..]), (2, &[Temp(1), Out(2), Arg(1)][..]));
        assert_eq!(l.sizes()[..2], [(8, 2, false), (8, 18, false)]);
        // Without right-hand sides the factors are all there is to do.
        for used in [[true; 3], [true, false, false]] {
            let l = solve(&[2, 2], &[2, 0], used);
            assert_eq!((l.calls.len(), &l.calls[0].params[..]), (1, &[1, 2][..]));
        }
    }

    #[test]
    fn a_matrix_that_several_right_sides_share_is_factored_once() {
        let l = solve(&[4, 4], &[2, 4, 1], [true, false, false]);
        assert_eq!(l.calls.iter().map(|c| c.units).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(l.calls[1].params, [2, 4, 1, 0, 0, 1, 2, 0, 1]);
        assert_eq!(l.sizes()[..3], [(8, 1, false), (8, 16, false), (4, 4, false)]);
    }

    #[test]
    fn triangles_fault_if_their_diagonal_is_read_and_no_nan_is_asked_for() {
        for (unit, singular, faults) in
            [(false, Singular::Fault, true), (true, Singular::Fault, false), (false, Singular::Nan, false)]
        {
            let attrs = TriangularSolveAttrs { upper: true, transpose: false, unit, singular };
            let args: [&[usize]; 2] = [&[3, 3], &[2, 3, 2]];
            let l = LoweredInTests::of_one_type(DType::F64, Op::TRIANGULAR_SOLVE, &args, &attrs.list(), &[true]);
            assert_eq!(l.operands(), [(&[Arg(0), Arg(1)][..], &[(Out(0), PerUnit(6))][..])]);
            let nan = u64::from(singular == Singular::Nan);
            assert_eq!(l.calls[0].params, [2, 3, 2, 1, 0, u64::from(unit), nan, 1, 2, 0, 1]);
            assert_eq!((l.calls[0].units, l.calls[0].looks.is_some()), (2, faults));
        }
    }

    #[test]
    fn solves_with_known_factors_read_factors_rows_and_right_sides() {
        let attrs = LuSolveAttrs { transpose: true, singular: Singular::Nan };
        let args: [(&[usize], DType); 3] = [(&[3, 3], DType::F64), (&[3], DType::I32), (&[3, 2], DType::F64)];
        let l = LoweredInTests::of(Op::LU_SOLVE, &args, &attrs.list(), &[true]);
        let writes = [(Out(0), PerUnit(6)), (Temp(0), PerUnit(6))];
        assert_eq!(l.operands(), [(&[Arg(0), Arg(1), Arg(2)][..], &writes[..])]);
        assert_eq!((l.sizes(), &l.calls[0].params[..]), (vec![(8, 6, false)], &[1, 3, 2, 1, 1, 0][..]));
        assert!(l.calls[0].looks.is_some());
    }

    #[test]
    fn each_matrix_is_a_unit_of_its_decomposition() {
        let reads = [Arg(0)];
        let l = of(Op::LU, &[&[2, 4, 4]]);
        let writes = [(Out(0), PerUnit(16)), (Out(1), PerUnit(4)), (Out(2), PerUnit(1)), (Temp(0), PerThread(0))];
        assert_eq!((l.operands(), &l.calls[0].inplace[..]), (vec![(&reads[..], &writes[..])], &[(0, 0)][..]));
        let l = of(Op::CHOLESKY, &[&[2, 3, 3]]);
        let scratch = Cholesky { count: 2, n: 3 }.scratch(8);
        assert_eq!(l.operands(), [(&reads[..], &[(Out(0), PerUnit(9)), (Temp(0), PerThread(scratch))][..])]);
        assert!(l.calls[0].looks.is_some());
        // Reflectors of 4 × 3 or 2 × 5, a column, a row, and a factor for each reflector.
        let l = of(Op::QR, &[&[2, 4, 3]]);
        let writes = [(Out(0), PerUnit(12)), (Out(1), PerUnit(9)), (Temp(0), PerThread(12 + 4 + 3 + 3))];
        assert_eq!((l.operands(), l.calls[0].units), (vec![(&reads[..], &writes[..])], 2));
        let l = of(Op::QR, &[&[2, 5]]);
        let writes = [(Out(0), PerUnit(4)), (Out(1), PerUnit(10)), (Temp(0), PerUnit(10 + 2 + 5 + 2))];
        assert_eq!((l.operands(), l.sizes()), (vec![(&reads[..], &writes[..])], vec![(8, 19, false)]));
        let l = of(Op::EIGH, &[&[2, 4, 4]]);
        let writes = [(Out(0), PerUnit(4)), (Out(1), PerUnit(16)), (Temp(0), PerThread(2 * 16 + 4 * 4))];
        assert_eq!((l.operands(), l.calls[0].units), (vec![(&reads[..], &writes[..])], 2));
        let l = of(Op::SVD, &[&[4, 3]]);
        let scratch = 3 * 3 * 4 + 2 * 3 * 3 + 3 + 4 + (12 + 4 + 3 + 3);
        let writes = [(Out(0), PerUnit(12)), (Out(1), PerUnit(3)), (Out(2), PerUnit(9)), (Temp(0), PerUnit(scratch))];
        assert_eq!((l.operands(), l.calls[0].units), (vec![(&reads[..], &writes[..])], 1));
    }
}
