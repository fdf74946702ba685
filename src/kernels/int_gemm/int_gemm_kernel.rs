//! The kernel of products of 8-bit integers.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`int_gemm_kernel`] | a: `[batch, m, k]`, b: `[batch, k, n]`, of one byte | `i32[batch, m, n]`, scratch | [`IntGemm`] |
//! | [`int_gemm_zeros_kernel`] | the same, zeros: `i8[n]` | the same | [`IntGemm`] |
//!
//! With `ta`, a is `[batch, k, m]`; with `tb`, b is `[batch, n, k]`.

use super::int_columns::IntColumns;
use super::int_gemm_desc::{IntGemm, IntGemmBlocks};
use super::int_product::{IntBlock, multiply_int_block};
use super::int_quads::multiply_quad_block;
use super::int_rows::IntRows;
use super::int_tile::IntEngine;
use crate::abi::{Args, MatrixMut};

/// Products of matrices of 8-bit integers.
///
/// Reads a and b; writes `i32[batch, m, n]`, divided by [`IntGemm::division`], and scratch (`Split::PerThread`,
/// [`IntGemm::scratch`]); params [`IntGemm`].
pub fn int_gemm_kernel(args: &mut Args<'_>) {
    int_gemm_units(args, &[]);
}

/// As [`int_gemm_kernel`], with a zero point for each column of b beside [`IntGemm::b_zero`].
///
/// Reads a, b and `i8[n]`; writes as [`int_gemm_kernel`]; params [`IntGemm`], whose `b_signed` is true.
pub fn int_gemm_zeros_kernel(args: &mut Args<'_>) {
    let zeros = args.read::<i8>(2);
    int_gemm_units(args, zeros);
}

fn int_gemm_units<'a>(args: &mut Args<'a>, zeros: &'a [i8]) {
    let p = IntGemm::from_words(args.params());
    let (units, a, b) = (args.units(), args.read::<u8>(0), args.read::<u8>(1));
    let (row, col, c) = match p.unit_columns() {
        Some(width) => (0, (units.start * width).min(p.n), args.panel::<i32>(0)),
        None => {
            let c = args.write::<i32>(0);
            let rows = c.len() / p.n.max(1);
            (units.start * p.unit_rows(), 0, MatrixMut::new(c, rows, p.n))
        }
    };
    int_gemm_block(IntEngine::current(), &p, (a, b, zeros), IntBlock { row, col, c }, args.write::<i32>(1));
}

/// Computes a block of C, whose rows are counted over all matrices of the batch.
pub fn int_gemm_block(
    engine: IntEngine,
    p: &IntGemm,
    (a, b, zeros): (&[u8], &[u8], &[i8]),
    block: IntBlock<'_>,
    scratch: &mut [i32],
) {
    let (blocks, (of_a, of_b)) = (IntGemmBlocks::new(p.m, p.n, p.k), p.codes());
    let IntBlock { row, col, mut c } = block;
    let strides = |transposed: bool, rows: usize, cols: usize| if transposed { (1, rows) } else { (cols, 1) };
    let ((a_row, a_col), (b_row, b_col)) = (strides(p.ta, p.m, p.k), strides(p.tb, p.k, p.n));
    let (mut done, cols) = (0, c.cols());
    while done < c.rows() {
        let (at, from) = ((row + done) / p.m, (row + done) % p.m);
        let rows = (p.m - from).min(c.rows() - done);
        let a = IntRows { data: &a[at * p.m * p.k..], codes: of_a, row: a_row, col: a_col, k: p.k, zeros: &[] };
        let b = IntColumns { data: &b[at * p.k * p.n..], codes: of_b, row: b_row, col: b_col, k: p.k, zeros };
        let part = IntBlock { row: from, col, c: c.part(done..done + rows, 0..cols) };
        match engine.of_quads() {
            Some(quads) => multiply_quad_block(quads, &blocks, &a, &b, part, scratch),
            None => multiply_int_block(engine, &blocks, &a, &b, part, scratch),
        }
        done += rows;
    }
}
