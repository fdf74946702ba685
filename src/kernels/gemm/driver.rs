//! Runs products: divides a call among matrices of a batch, and each among the algorithms.

use super::algorithm::Algorithm;
use super::bf16::{self, Engine};
use super::blocked::{self, Product};
use super::desc::Gemm;
use super::epilogue::{ActGrad, Epilogue, Kind, act_fn, act_grad_fn};
use super::float::GemmFloat;
use super::gemv::{self, Gemv};
use super::units::row_of;
use super::{dots, outer, sums, transposed};
use crate::kernels::abi::{Args, Kernel, MatrixMut};
use crate::kernels::simd::Token;
use std::ops::Range;

/// The operands that a product reads.
#[derive(Clone, Copy)]
pub struct Operands<'a, T> {
    pub a: &'a [T],
    pub b: &'a [T],
    /// The bias, or what an activation's gradient is by.
    pub third: Option<&'a [T]>,
}

/// A row of C, among those of all matrices of a batch, and a column.
#[derive(Clone, Copy)]
pub struct Corner {
    pub row: usize,
    pub col: usize,
}

/// A block of C, and where its columns are summed, if they are.
pub struct Target<'c, T> {
    pub c: MatrixMut<'c, T>,
    pub sums: Option<MatrixMut<'c, T>>,
}

/// The kernel of a product: [`run`], or one that does the same for less.
pub fn kernel<T: GemmFloat>(g: &Gemm) -> Kernel {
    if gemv::is_gemv(g).is_some() { run_row::<T> } else { run::<T> }
}

/// The kernel: reads a, b, the bias or what an activation's gradient is by if there is one, and, if the product
/// accumulates, C as it was; writes C (divided as [`Gemm::division`] says), the sums of its columns if asked for (as
/// [`Gemm::sums`] says) and scratch (`Split::PerThread(scratch_len())`; may be left out if that is 0).
pub fn run<T: GemmFloat>(args: &mut Args<'_>) {
    let g = Gemm::from_words(args.params());
    let units = args.units();
    let operands = Operands { a: args.read::<T>(0), b: args.read::<T>(1), third: g.third().then(|| args.read::<T>(2)) };
    let (at, mut c) = match g.unit_columns() {
        Some(width) => (Corner { row: 0, col: (units.start * width).min(g.n) }, args.panel::<T>(0)),
        None => rows(&g, args.write::<T>(0), &units),
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
    let last = 1 + usize::from(g.sums);
    let scratch = if args.writes() > last { args.write::<T>(last) } else { &mut [] };
    block(&g, operands, at, Target { c, sums }, scratch);
}

/// A row by a matrix.
fn run_row<T: GemmFloat>(args: &mut Args<'_>) {
    let g = Gemm::alone(args.params());
    let Some(gemv) = Gemv::new(&g) else { return run::<T>(args) };
    let (a, b) = (args.read::<T>(0), args.read::<T>(1));
    let third = g.third().then(|| args.read::<T>(2));
    let (from, c) = (args.units().start * g.per_unit(), args.write::<T>(0));
    let scratch = if args.writes() > 1 { args.write::<T>(1) } else { &mut [] };
    gemv::row(&g, gemv, (a, b, third), from, c, scratch);
}

/// Copies `to[o * to_step + i] = from[i * step + o]` for `o` below `outer` and `i` below `inner`, by squares in
/// registers.
pub(crate) fn transpose<T: GemmFloat>(
    from: &[T],
    step: usize,
    to: &mut [T],
    to_step: usize,
    outer: usize,
    inner: usize,
) {
    T::transpose(Token::current(), from, step, to, to_step, outer, inner);
}

/// Computes `units`, in which C is divided by rows, of a product into `c`, the elements of C that they own; `third`,
/// the bias or what an activation's gradient is by, is there if the descriptor asks for it.
///
/// # Panics
/// If a slice is shorter than the descriptor says, or the third operand missing.
pub fn gemm<T: GemmFloat>(
    g: &Gemm,
    a: &[T],
    b: &[T],
    third: Option<&[T]>,
    c: &mut [T],
    units: Range<usize>,
    scratch: &mut [T],
) {
    if let Some(gemv) = gemv::is_gemv(g) {
        let own = g.elements(&units);
        return gemv::row(g, gemv, (a, b, third), own.start, &mut c[..own.len()], scratch);
    }
    let (at, c) = rows(g, c, &units);
    block(g, Operands { a, b, third }, at, Target { c, sums: None }, scratch);
}

/// The elements of C that `units` own, in which it is divided by rows, and where they begin.
pub fn rows<'c, T>(g: &Gemm, c: &'c mut [T], units: &Range<usize>) -> (Corner, MatrixMut<'c, T>) {
    let own = g.elements(units);
    match (g.m, g.batch().is_empty()) {
        (1, true) => (Corner { row: 0, col: own.start }, MatrixMut::new(c, 1, own.len())),
        (m, true) if own.len() == m * g.n => (Corner { row: 0, col: 0 }, MatrixMut::new(c, m, g.n)),
        _ => (Corner { row: row_of(own.start, g), col: 0 }, MatrixMut::new(c, own.len() / g.n.max(1), g.n)),
    }
}

/// Computes a block of C that begins at `at`.
fn block<T: GemmFloat>(g: &Gemm, o: Operands<'_, T>, at: Corner, to: Target<'_, T>, scratch: &mut [T]) {
    match Algorithm::of::<T>(g) {
        Algorithm::Bf16(plan) => {
            let cast = bytemuck::cast_slice::<T, f32>;
            let o = Operands { a: cast(o.a), b: cast(o.b), third: o.third.map(cast) };
            block_of_bf16((Engine::current(), &plan), g, o, at, to.c.cast(), bytemuck::cast_slice_mut(scratch));
        }
        algorithm => block_by(Token::current(), &algorithm, g, o, at, to, scratch),
    }
}

/// As [`block`], by an algorithm for elements of type `T` themselves.
pub fn block_by<T: GemmFloat>(
    token: Token,
    algorithm: &Algorithm,
    g: &Gemm,
    o: Operands<'_, T>,
    at: Corner,
    to: Target<'_, T>,
    scratch: &mut [T],
) {
    let Target { c, mut sums } = to;
    each_matrix(g, at, c, |from, mut c| {
        let end = epilogue(g, o.third, Corner { row: from.row, ..at }, c.cols());
        // Operands of sums without terms are empty.
        let (a, b) = (o.a.get(from.a..).unwrap_or_default(), o.b.get(from.b..).unwrap_or_default());
        let (rows, cols) = (c.rows(), c.cols());
        let mut out = c.part(0..rows, 0..cols);
        match algorithm {
            // These two apply the epilogue themselves, block by block.
            Algorithm::Transposed => transposed::product(token, g, (a, b), out, &end, scratch),
            Algorithm::Blocked(plan) => {
                let p = Product { a, b, c: out, sums: sums.take_if(|_| sums::by_blocks(g.n)) };
                blocked::product(token, g, plan, p, &end, scratch);
            }
            Algorithm::Empty | Algorithm::Outer | Algorithm::Gemv(_) | Algorithm::Dots | Algorithm::Bf16(_) => {
                match algorithm {
                    // A row or a column lies in one piece.
                    Algorithm::Gemv(gemv) => {
                        if let Some(c) = out.flat() {
                            gemv.product(token, (a, b), c, g.accumulate, scratch);
                        }
                    }
                    Algorithm::Outer => outer::product(a, g.a.row, &b[..cols], &mut out),
                    Algorithm::Dots => dots::product(token, g, (a, b), out),
                    _ if g.accumulate => {}
                    _ => (0..rows).for_each(|i| out.row(i).fill(T::ZERO)),
                }
                end.apply(c.part(0..rows, 0..cols), (0, 0));
            }
        }
        if let Some(to) = &mut sums {
            sums::all(c, g.n, to);
        }
    });
}

/// As [`block`], by bf16 units.
pub fn block_of_bf16(
    (engine, plan): (Engine, &bf16::Plan),
    g: &Gemm,
    o: Operands<'_, f32>,
    at: Corner,
    c: MatrixMut<'_, f32>,
    scratch: &mut [f32],
) {
    each_matrix(g, at, c, |from, c| {
        let end = epilogue(g, o.third, Corner { row: from.row, ..at }, c.cols());
        let (operands, size) = ((&o.a[from.a..], &o.b[from.b..]), (c.rows(), c.cols()));
        bf16::product(engine, g, plan, operands, size, &mut bf16::IntoMatrix { c, end: &end }, scratch);
    });
}

/// The epilogue of `cols` columns of a block of C that begins at `at`.
fn epilogue<'a, T: GemmFloat>(g: &Gemm, third: Option<&'a [T]>, at: Corner, cols: usize) -> Epilogue<'a, T> {
    assert!(
        third.is_some() == g.third() && !(g.bias && g.act.is_act_grad()),
        "the operands do not match the descriptor"
    );
    if let (Some(by), Some(f)) = (third, act_grad_fn(g.act)) {
        let by = &by[at.row * g.n + at.col..];
        return Epilogue { bias: None, kind: Kind::ActGrad(ActGrad { f, by, row: g.n }) };
    }
    let bias = third.map(|bias| &bias[at.col..at.col + cols]);
    Epilogue { bias, kind: act_fn(g.act).map_or(Kind::None, Kind::Activation) }
}

/// Where some rows of one matrix of a batch are: offsets in A and B, and the first row among those of all matrices.
struct Origin {
    a: usize,
    b: usize,
    row: usize,
}

/// Calls `each` with each part of a block of C that is of one matrix of the batch; the block begins at `at`.
fn each_matrix<T>(g: &Gemm, at: Corner, mut c: MatrixMut<'_, T>, mut each: impl FnMut(Origin, MatrixMut<'_, T>)) {
    let mut done = 0;
    while done < c.rows() && c.cols() > 0 {
        let row = at.row + done;
        let (index, from) = if g.batch().is_empty() { (0, row) } else { (row / g.m, row % g.m) };
        let (a, b) = g.offsets(index);
        let (rows, cols) = ((g.m - from).min(c.rows() - done), c.cols());
        let origin = Origin { a: a + from * g.a.row, b: b + at.col * g.b.col, row };
        each(origin, c.part(done..done + rows, 0..cols));
        done += rows;
    }
}
