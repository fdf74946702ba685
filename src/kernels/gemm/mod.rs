//! Matrix products: the only door to them.
//!
//! [`Gemm`] describes a batched product with strided operands and an epilogue; [`run`] is its kernel and [`gemm`] the
//! same over plain slices, for kernels that are made of products.
//!
//! Invariant: the bits of an element of C depend on the descriptor alone, not on the units of a call nor on
//! the instruction set that computes it. Each element is one chain `c = fma(a[p], b[p], c)` with `p` ascending, from 0 or from
//! C; a product with a vector whose matrix is contiguous along k, or of few rows where both operands are, is a dot product in
//! the order of `dots` (with some more rows it is turned: chains again).
//! Products of f32 may ask for another [`Precision`]; then bf16 units sum as `low` says, where that is faster.
//! NaN and infinities pass: nothing is skipped for being zero. Nothing allocates.

mod blocked;
mod desc;
mod dots;
mod epilogue;
mod float;
mod light;
mod lines;
mod low;
mod operands;
mod pack;
mod shapes;
mod stream;
mod sums;
#[cfg(test)]
mod tests;
mod tile;
mod transpose;
mod turned;
mod vector;

pub use desc::{Batch, Dims, Gemm, MAX_BATCH, Strides};
pub use epilogue::{Act, act_fn};
pub use float::GemmFloat;
pub use light::{descent_kernel, kernel};
pub use lines::Lines;
pub use low::{Precision, bf16_engine};
pub use stream::Taker;

use crate::kernels::abi::{Args, Panel};
use crate::kernels::simd::Token;
use blocked::{Plan, Product};
use epilogue::{Descent, Epilogue, Gate, gate_fn};
use low::Engine;
use std::ops::Range;
use vector::Vector;

/// The kernel: reads a, b, the bias or what the gate is by if there is one, and, if the product accumulates, C as it was;
/// writes C (divided as [`Gemm::division`] says), the sums of its columns if asked for (as [`Gemm::sums`] says) and scratch
/// (`Split::PerLane(scratch_len())`; may be left out if that is 0).
pub fn run<T: GemmFloat>(args: &mut Args<'_>) {
    let g = Gemm::from_words(args.params());
    let units = args.units();
    let (a, b) = (args.read::<T>(0), args.read::<T>(1));
    let third = g.third().then(|| args.read::<T>(2));
    let (at, mut c) = match g.unit_columns() {
        Some(width) => ((0, (units.start * width).min(g.n)), args.panel::<T>(0)),
        None => rows(&g, args.write::<T>(0), &units),
    };
    let old = 2 + usize::from(g.third());
    if g.accumulate && args.reads() > old && args.inplace(old).is_none() {
        let from = args.read::<T>(old).chunks_exact(g.n.max(1)).skip(at.0);
        let columns = at.1..at.1 + c.cols();
        (0..c.rows()).zip(from).for_each(|(i, old)| c.row(i).copy_from_slice(&old[columns.clone()]));
    }
    let sums = g.sums.then(|| match g.unit_columns() {
        Some(_) => args.panel::<T>(1),
        None => {
            let sums = args.write::<T>(1);
            let rows = sums.len() / g.n;
            Panel::new(sums, rows, g.n)
        }
    });
    let last = 1 + usize::from(g.sums);
    let scratch = if args.writes() > last { args.write::<T>(last) } else { &mut [] };
    part(&g, (a, b, third), at, (c, sums), scratch);
}

/// The kernel of a product that is a gradient and goes into a step of plain SGD at once, where [`Gemm::descends`]:
/// C = p − lr·(A · B + decay·p), each element in the order of a product and a step after it.
///
/// Reads a, b, p: `T[m, n]`, lr: `T[]`; writes C (`Split::PerUnit(per_unit())`), in place of read 2 or not, and scratch
/// (`Split::PerLane(descent_scratch())`; may be left out if that is 0); params: those of the product, then the bits of the
/// decay, an `f64`.
pub fn run_descent<T: GemmFloat>(args: &mut Args<'_>) {
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
    let (step, a) = (Some(Descent { lr, decay }), &a[row_of(whole.start, &g) * g.a.row..]);
    if vector::by_outer(&g) {
        return vector::outer(a, g.a.row, &b[..g.n], c, step);
    }
    let (end, p) = (
        Epilogue { bias: None, act: None, gate: None, step },
        Product { a, b, c: Panel::new(c, whole.len() / g.n, g.n), sums: None },
    );
    let scratch = if args.writes() > 1 { args.write::<T>(1) } else { &mut [] };
    blocked::product(Token::current(), &g, &Plan::new::<T>(&g), p, &end, scratch);
}

/// Computes `units` of a product, where [`Gemm::streams`], for `to`, who takes them tile by tile: nothing is stored.
/// `scratch` holds [`Gemm::stream_scratch`] elements.
///
/// # Panics
/// If a slice is shorter than the descriptor says.
pub fn stream<T: GemmFloat>(
    g: &Gemm,
    (a, b): (&[T], &[T]),
    units: Range<usize>,
    scratch: &mut [T],
    to: &mut impl Taker<T>,
) {
    let whole = g.elements(&units);
    if whole.is_empty() {
        return;
    }
    let (a, rows) = (&a[row_of(whole.start, g) * g.a.row..], whole.len() / g.n);
    if let Some(plan) = low::Plan::new::<T>(g) {
        let (a, b, scratch) = (bytemuck::cast_slice(a), bytemuck::cast_slice(b), bytemuck::cast_slice_mut(scratch));
        let mut to = low::Taken { to: &mut stream::Recast::new(to), size: (rows, g.n) };
        return low::product(Engine::current(), g, &plan, (a, b), (rows, g.n), &mut to, scratch);
    }
    stream::product(Token::current(), g, (a, b), rows, scratch, to);
}

/// Copies `to[o * to_step + i] = from[i * step + o]` for `o` below `outer` and `i` below `inner`, by squares in registers.
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

/// Computes `units`, in which C is divided by rows, of a product into `c`, the elements of C that they own; `third`, the bias
/// or what the gate is by, is there if the descriptor asks for it.
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
    if let Some(vector) = light::row_form(g) {
        let part = g.elements(&units);
        return light::row(g, vector, (a, b, third), part.start, &mut c[..part.len()], scratch);
    }
    let (at, c) = rows(g, c, &units);
    part(g, (a, b, third), at, (c, None), scratch);
}

/// The elements of C that `units` own, in which it is divided by rows, and where they begin: a row, among those of all
/// matrices, and a column.
fn rows<'c, T>(g: &Gemm, c: &'c mut [T], units: &Range<usize>) -> ((usize, usize), Panel<'c, T>) {
    let whole = g.elements(units);
    match (g.m, g.batch().is_empty()) {
        (1, true) => ((0, whole.start), Panel::new(c, 1, whole.len())),
        (m, true) if whole.len() == m * g.n => ((0, 0), Panel::new(c, m, g.n)),
        _ => ((row_of(whole.start, g), 0), Panel::new(c, whole.len() / g.n.max(1), g.n)),
    }
}

/// Computes a part of C that begins at row and column `at`, from operands a, b and the third if there is one, and its sums if
/// those are asked for.
fn part<T: GemmFloat>(
    g: &Gemm,
    (a, b, third): (&[T], &[T], Option<&[T]>),
    at: (usize, usize),
    (c, sums): (Panel<'_, T>, Option<Panel<'_, T>>),
    scratch: &mut [T],
) {
    if let Some(plan) = low::Plan::new::<T>(g) {
        let (a, b, third) = (bytemuck::cast_slice(a), bytemuck::cast_slice(b), third.map(bytemuck::cast_slice));
        let (c, scratch) = (c.cast(), bytemuck::cast_slice_mut(scratch));
        return part_low((Engine::current(), &plan), g, (a, b, third), at, c, scratch);
    }
    part_on(Token::current(), g, (a, b, third), at, (c, sums), scratch);
}

fn part_on<T: GemmFloat>(
    token: Token,
    g: &Gemm,
    (a, b, third): (&[T], &[T], Option<&[T]>),
    at: (usize, usize),
    (c, mut to): (Panel<'_, T>, Option<Panel<'_, T>>),
    scratch: &mut [T],
) {
    let vector = Vector::new(g).filter(|_| g.k > 0);
    let (dots, turned) = (vector::by_dots(g), turned::fits(g));
    let plan = if vector.is_none() && !dots && !turned { Plan::new::<T>(g) } else { Plan::default() };
    pieces(g, at, c, |piece, mut c| {
        let end = epilogue(g, third, (piece.row, at.1), c.cols());
        // Operands of sums without terms are empty.
        let (a, b) = (a.get(piece.a..).unwrap_or_default(), b.get(piece.b..).unwrap_or_default());
        let (rows, cols) = (c.rows(), c.cols());
        // Only these two apply what is done at last themselves, block by block.
        let tiles = g.k > 0 && vector.is_none() && !dots && !(vector::by_outer(g) && c.flat().is_some());
        if tiles && turned {
            turned::product(token, g, (a, b), c.part(0..rows, 0..cols), &end, scratch);
        } else if tiles {
            let p = Product { a, b, c: c.part(0..rows, 0..cols), sums: to.take_if(|_| sums::by_blocks(g.n)) };
            blocked::product(token, g, &plan, p, &end, scratch);
        } else {
            match (&vector, c.flat()) {
                _ if g.k == 0 && g.accumulate => {}
                _ if g.k == 0 => (0..rows).for_each(|i| c.row(i).fill(T::ZERO)),
                (Some(v), Some(c)) => v.product(token, (a, b), c, g.accumulate, scratch),
                (None, Some(c)) if !dots => vector::outer(a, g.a.row, &b[..g.n], c, None),
                _ => vector::dots(token, g, (a, b), c.part(0..rows, 0..cols)),
            }
            end.apply(c.part(0..rows, 0..cols), (0, 0));
        }
        if let Some(to) = &mut to {
            sums::all(c, g.n, to);
        }
    });
}

/// The row that element `from` of a matrix begins.
#[inline]
fn row_of(from: usize, g: &Gemm) -> usize {
    // Mostly the first: a division would be felt in the smallest products.
    if from == 0 { 0 } else { from / g.n }
}

/// As [`part`], by bf16 units.
fn part_low(
    (engine, plan): (Engine, &low::Plan),
    g: &Gemm,
    (a, b, third): (&[f32], &[f32], Option<&[f32]>),
    at: (usize, usize),
    c: Panel<'_, f32>,
    scratch: &mut [f32],
) {
    pieces(g, at, c, |piece, c| {
        let end = epilogue(g, third, (piece.row, at.1), c.cols());
        let (operands, size) = ((&a[piece.a..], &b[piece.b..]), (c.rows(), c.cols()));
        low::product(engine, g, plan, operands, size, &mut low::Stored { c, end: &end }, scratch);
    });
}

/// What is done at last to a part of C that begins at `row`, among those of all matrices, and column `col`.
fn epilogue<'a, T: GemmFloat>(
    g: &Gemm,
    third: Option<&'a [T]>,
    (row, col): (usize, usize),
    cols: usize,
) -> Epilogue<'a, T> {
    assert!(third.is_some() == g.third() && !(g.bias && g.act.gates()), "the operands do not match the descriptor");
    let (bias, gate) = match (third, gate_fn(g.act)) {
        (Some(by), Some(f)) => (None, Some(Gate { f, by: &by[row * g.n + col..], row: g.n })),
        (bias, _) => (bias.map(|b| &b[col..col + cols]), None),
    };
    Epilogue { bias, act: act_fn(g.act), gate, step: None }
}

/// Where rows of one matrix of a batch are: offsets in A and B, and the first row among those of all matrices.
struct Piece {
    a: usize,
    b: usize,
    row: usize,
}

/// Calls `each` with each part of C that is of one matrix of the batch; `c` begins at row and column `at`.
fn pieces<T>(g: &Gemm, (row, col): (usize, usize), mut c: Panel<'_, T>, mut each: impl FnMut(Piece, Panel<'_, T>)) {
    let mut done = 0;
    while done < c.rows() && c.cols() > 0 {
        let row = row + done;
        let (index, from) = if g.batch().is_empty() { (0, row) } else { (row / g.m, row % g.m) };
        let (a, b) = g.offsets(index);
        let (rows, cols) = ((g.m - from).min(c.rows() - done), c.cols());
        each(Piece { a: a + from * g.a.row, b: b + col * g.b.col, row }, c.part(done..done + rows, 0..cols));
        done += rows;
    }
}
