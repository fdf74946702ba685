//! The kernels of a product. They split a call into blocks of C, one for each matrix of the batch. The algorithm
//! computes each block with its epilogue.

use super::act_fn::{act_fn, act_grad_fn};
use super::algorithm::Algorithm;
use super::bf16::{self, Bf16Engine};
use super::blocked::{self, BlockedProduct};
use super::epilogue::{ActGradEpilogue, GemmEpilogue, Kind};
use super::gemm_desc::Gemm;
use super::gemm_float::GemmFloat;
use super::gemm_units::gemm_unit_row;
use super::gemv::{self, Gemv};
use super::operands::{Dots, Operands};
use super::{column_sums, outer_product, transposed_product};
use crate::abi::{Args, Kernel, MatrixMut};
use crate::by_dtype;
use crate::simd::Token;
use arenagrad_arena::dtype::DType;
use std::ops::Range;

/// The first element of a block of C.
#[derive(Clone, Copy)]
pub struct Corner {
    /// Its row, counted over all matrices of the batch.
    pub row: usize,
    /// Its column.
    pub col: usize,
}

/// The block of C that a call computes.
pub struct Target<'c, T> {
    /// The block.
    pub c: MatrixMut<'c, T>,
    /// The sums of its columns, for [`Gemm::unit_sums`].
    pub sums: Option<MatrixMut<'c, T>>,
}

/// The kernel of a product: [`run_product`], or a faster one with the same operands, words and bits.
pub fn gemm_kernel<T: GemmFloat>(g: &Gemm) -> Kernel {
    if gemv::choose_method(g).is_some() { run_row_product::<T> } else { run_product::<T> }
}

/// [`gemm_kernel`] for an element type.
#[inline(never)]
pub fn product_kernel_for(dtype: DType, g: &Gemm) -> Result<Kernel, String> {
    match dtype {
        DType::F32 => Ok(gemm_kernel::<f32>(g)),
        #[cfg(any(not(target_arch = "wasm32"), feature = "f64"))]
        DType::F64 => Ok(gemm_kernel::<f64>(g)),
        d => by_dtype::missing_kernel_error(d),
    }
}

/// The kernel of every product.
///
/// * Reads a, b; then the bias `[n]` or the act-grad operand `[batch.., m, n]` if [`Gemm::third`]; then the old C
///   `[batch.., m, n]` if the product accumulates (it may be left out if C holds it already).
/// * Writes C `[batch.., m, n]`, divided by [`Gemm::division`]; then the sums of its columns if the descriptor asks,
///   divided by [`Gemm::unit_sums`]; then scratch (`Split::PerThread(scratch_len())`, may be left out if that is 0).
/// * Words: [`Gemm::to_words`].
pub fn run_product<T: GemmFloat>(args: &mut Args<'_>) {
    let g = Gemm::from_words(args.params());
    let units = args.units();
    let operands = Operands { a: args.read::<T>(0), b: args.read::<T>(1), third: g.third().then(|| args.read::<T>(2)) };
    let (at, mut c) = match g.unit_columns() {
        Some(width) => (Corner { row: 0, col: (units.start * width).min(g.n) }, args.panel::<T>(0)),
        None => rows_of_units(&g, args.write::<T>(0), &units),
    };
    let old = 2 + usize::from(g.third());
    if g.accumulate && args.reads() > old && args.inplace(old).is_none() {
        let from = args.read::<T>(old).chunks_exact(g.n.max(1)).skip(at.row);
        let columns = at.col..at.col + c.cols();
        (0..c.rows()).zip(from).for_each(|(i, old)| c.row(i).copy_from_slice(&old[columns.clone()]));
    }
    let sums = g.sums.then(|| match g.unit_columns() {
        Some(_) => args.panel::<T>(1),
        None => {
            let sums = args.write::<T>(1);
            let rows = sums.len() / g.n;
            MatrixMut::new(sums, rows, g.n)
        }
    });
    g.assert_fits(operands.a.len(), operands.b.len());
    let last = 1 + usize::from(g.sums);
    let scratch = if args.writes() > last { args.write::<T>(last) } else { &mut [] };
    compute_block(&g, operands, at, Target { c, sums }, scratch);
}

/// As [`run_product`], for a product that [`gemv::choose_method`] names.
fn run_row_product<T: GemmFloat>(args: &mut Args<'_>) {
    let g = Gemm::unbatched(args.params());
    let Some(gemv) = Gemv::new(&g) else { return run_product::<T>(args) };
    let (a, b) = (args.read::<T>(0), args.read::<T>(1));
    let third = g.third().then(|| args.read::<T>(2));
    let (from, c) = (args.units().start * g.per_unit(), args.write::<T>(0));
    let scratch = if args.writes() > 1 { args.write::<T>(1) } else { &mut [] };
    gemv::compute_elements(&g, gemv, Operands { a, b, third }, from, c, scratch);
}

/// Computes `units` of a product, where units divide C by rows. `c` is the elements of C that they own, and holds the
/// old C if the product accumulates. `third` is the bias or the act-grad operand. `scratch` has
/// [`Gemm::scratch_len`] elements.
///
/// # Panics
/// If a slice is shorter than the descriptor says, or `third` is there against the descriptor.
pub fn gemm<T: GemmFloat>(
    g: &Gemm,
    a: &[T],
    b: &[T],
    third: Option<&[T]>,
    c: &mut [T],
    units: Range<usize>,
    scratch: &mut [T],
) {
    g.assert_fits(a.len(), b.len());
    if let Some(gemv) = gemv::choose_method(g) {
        let own = g.unit_elements(&units);
        return gemv::compute_elements(g, gemv, Operands { a, b, third }, own.start, &mut c[..own.len()], scratch);
    }
    let (at, c) = rows_of_units(g, c, &units);
    compute_block(g, Operands { a, b, third }, at, Target { c, sums: None }, scratch);
}

/// Computes a whole product, without batch dimensions, into the matrix `c`, which holds the old C if the product
/// accumulates. `scratch` has [`Gemm::scratch_len`] elements.
///
/// # Panics
/// If a slice is shorter than the descriptor says, `c` has another shape, or it is a column whose elements are apart.
pub fn multiply_into_view<T: GemmFloat>(g: &Gemm, a: &[T], b: &[T], c: MatrixMut<'_, T>, scratch: &mut [T]) {
    assert!(
        (c.rows(), c.cols()) == (g.m, g.n) && g.batch().is_empty(),
        "{} x {} elements are not those of the product {g:?}",
        c.rows(),
        c.cols()
    );
    g.assert_fits(a.len(), b.len());
    assert!(c.cols() != 1 || c.rows() == 1 || c.step() == 1, "{} elements of a column", c.rows());
    let o = Operands { a, b, third: None };
    compute_block(g, o, Corner { row: 0, col: 0 }, Target { c, sums: None }, scratch);
}

/// The elements of C that `units` own, where units divide C by rows, and their first one.
pub fn rows_of_units<'c, T>(g: &Gemm, c: &'c mut [T], units: &Range<usize>) -> (Corner, MatrixMut<'c, T>) {
    let own = g.unit_elements(units);
    match (g.m, g.batch().is_empty()) {
        (1, true) => (Corner { row: 0, col: own.start }, MatrixMut::new(c, 1, own.len())),
        (m, true) if own.len() == g.len() => (Corner { row: 0, col: 0 }, MatrixMut::new(c, m, g.n)),
        _ => (Corner { row: gemm_unit_row(own.start, g), col: 0 }, MatrixMut::new(c, own.len() / g.n.max(1), g.n)),
    }
}

/// Computes the block of C that begins at `at`.
pub fn compute_block<T: GemmFloat>(g: &Gemm, o: Operands<'_, T>, at: Corner, to: Target<'_, T>, scratch: &mut [T]) {
    match Algorithm::of::<T>(g) {
        Algorithm::Bf16(plan) => {
            let cast = bytemuck::cast_slice::<T, f32>;
            let o = Operands { a: cast(o.a), b: cast(o.b), third: o.third.map(cast) };
            compute_bf16_block(
                (Bf16Engine::current(), &plan),
                g,
                o,
                at,
                to.c.cast(),
                bytemuck::cast_slice_mut(scratch),
            );
        }
        algorithm => compute_block_by(Token::current(), &algorithm, g, o, at, to, scratch),
    }
}

/// As [`compute_block`], by an algorithm that computes in `T`.
pub fn compute_block_by<T: GemmFloat>(
    token: Token,
    algorithm: &Algorithm,
    g: &Gemm,
    o: Operands<'_, T>,
    at: Corner,
    to: Target<'_, T>,
    scratch: &mut [T],
) {
    let Target { c, mut sums } = to;
    each_matrix_part(g, at, c, |from, mut c| {
        let end = block_epilogue(g, o.third, Corner { row: from.row, ..at }, c.cols());
        // With k = 0, operands are empty.
        let (a, b) = (o.a.get(from.a..).unwrap_or_default(), o.b.get(from.b..).unwrap_or_default());
        let (rows, cols) = (c.rows(), c.cols());
        let mut out = c.part(0..rows, 0..cols);
        match algorithm {
            // These two apply the epilogue block by block.
            Algorithm::Transposed => transposed_product::transposed_product(token, g, (a, b), out, &end, scratch),
            Algorithm::Blocked(plan) => {
                let p = BlockedProduct { a, b, c: out, sums: sums.take_if(|_| column_sums::are_by_blocks(g.n)) };
                blocked::multiply_block(token, g, plan, p, &end, scratch);
            }
            Algorithm::Empty | Algorithm::Outer | Algorithm::Gemv(_) | Algorithm::Dots | Algorithm::Bf16(_) => {
                match algorithm {
                    // A row or a column of C is contiguous.
                    Algorithm::Gemv(gemv) => {
                        if let Some(c) = out.flat() {
                            gemv.product(token, (a, b), c, g.accumulate, scratch);
                        }
                    }
                    Algorithm::Outer => outer_product::compute_block(a, g.a.row, &b[..cols], &mut out),
                    Algorithm::Dots => {
                        let (x_step, step) = (g.a.row, g.b.col);
                        T::dots(token, Dots { x: a, x_step, k: g.k, rows: b, step, out, add: g.accumulate });
                    }
                    _ if g.accumulate => {}
                    _ => (0..rows).for_each(|i| out.row(i).fill(T::ZERO)),
                }
                end.apply(c.part(0..rows, 0..cols), (0, 0));
            }
        }
        if let Some(to) = &mut sums {
            column_sums::sum_all_rows(c, g.n, to);
        }
    });
}

/// As [`compute_block`], by the bf16 engine.
pub fn compute_bf16_block(
    (engine, plan): (Bf16Engine, &bf16::Bf16Plan),
    g: &Gemm,
    o: Operands<'_, f32>,
    at: Corner,
    c: MatrixMut<'_, f32>,
    scratch: &mut [f32],
) {
    each_matrix_part(g, at, c, |from, c| {
        let end = block_epilogue(g, o.third, Corner { row: from.row, ..at }, c.cols());
        let (operands, size) = ((&o.a[from.a..], &o.b[from.b..]), (c.rows(), c.cols()));
        bf16::multiply_in_bf16(engine, g, plan, operands, size, &mut bf16::Bf16IntoMatrix { c, end: &end }, scratch);
    });
}

/// The epilogue of a block of C of `cols` columns that begins at `at`.
///
/// # Panics
/// If the third operand does not match the descriptor, or the descriptor asks for a bias and an act-grad epilogue.
fn block_epilogue<'a, T: GemmFloat>(g: &Gemm, third: Option<&'a [T]>, at: Corner, cols: usize) -> GemmEpilogue<'a, T> {
    assert!(
        third.is_some() == g.third() && !(g.bias && g.act.is_act_grad()),
        "the operands do not match the descriptor"
    );
    if let (Some(by), Some(f)) = (third, act_grad_fn(g.act)) {
        let by = &by[at.row * g.n + at.col..];
        return GemmEpilogue { bias: None, kind: Kind::ActGrad(ActGradEpilogue { f, by, row: g.n }) };
    }
    let bias = third.map(|bias| &bias[at.col..at.col + cols]);
    GemmEpilogue { bias, kind: act_fn(g.act).map_or(Kind::None, Kind::Activation) }
}

/// The first row of a block that is in one matrix of the batch.
pub struct Origin {
    /// Offset in A of that row.
    pub a: usize,
    /// Offset in B of the block's first column.
    pub b: usize,
    /// The row, counted over all matrices of the batch.
    pub row: usize,
}

/// Divides the block of C that begins at `at` among the matrices of the batch and calls `each` with each part.
pub fn each_matrix_part<T>(
    g: &Gemm,
    at: Corner,
    mut c: MatrixMut<'_, T>,
    mut each: impl FnMut(Origin, MatrixMut<'_, T>),
) {
    let mut done = 0;
    while done < c.rows() && c.cols() > 0 {
        let row = at.row + done;
        let (index, from) = if g.batch().is_empty() { (0, row) } else { (row / g.m, row % g.m) };
        let (a, b) = g.offsets(index);
        let (rows, cols) = ((g.m - from).min(c.rows() - done), c.cols());
        let origin = Origin {
            a: a.saturating_add(from.saturating_mul(g.a.row)),
            b: b.saturating_add(at.col.saturating_mul(g.b.col)),
            row,
        };
        each(origin, c.part(done..done + rows, 0..cols));
        done += rows;
    }
}
