//! Matrix products: the only door to them.
//!
//! [`Gemm`] describes a batched product with strided operands and an epilogue; [`run`] is its kernel and [`gemm`] the
//! same over plain slices, for kernels that are made of products.
//!
//! Invariant: the bits of an element of C depend on the descriptor alone, not on the units of a call nor on whether
//! AVX-512 or AVX2 computes it. Each element is one chain `c = fma(a[p], b[p], c)` with `p` ascending, from 0 or from
//! C; a product with a vector whose matrix is contiguous along k, or of few rows where both operands are, is a dot product in
//! the order of `order`.
//! Products of f32 may ask for another [`Precision`]; then bf16 units sum as `low` says, where that is faster.
//! NaN and infinities pass: nothing is skipped for being zero. Nothing allocates.

mod blocked;
mod desc;
mod epilogue;
mod low;
mod operands;
mod order;
mod pack;
mod portable;
mod shapes;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod square;
mod stream;
#[cfg(test)]
mod tests;
mod tile;
mod vector;

pub use desc::{Batch, Dims, Gemm, MAX_BATCH, Strides};
pub use epilogue::{Act, act_fn};
pub use low::{Precision, bf16_engine};
pub use stream::Taker;
pub use tile::GemmFloat;

use crate::kernels::abi::Args;
use blocked::{Plan, Product};
use epilogue::{Descent, Epilogue};
use low::Engine;
use std::ops::Range;
use tile::Level;
use vector::Vector;

/// The kernel: reads a, b, the bias if there is one, and, if the product accumulates, C as it was; writes C
/// (`Split::PerUnit(per_unit())`) and scratch (`Split::PerLane(scratch_len())`; may be left out if that is 0).
pub fn run<T: GemmFloat>(args: &mut Args<'_>) {
    let g = Gemm::from_words(args.params());
    let units = args.units();
    let (a, b) = (args.read::<T>(0), args.read::<T>(1));
    let bias = g.bias.then(|| args.read::<T>(2));
    let c = args.write::<T>(0);
    let old = 2 + usize::from(g.bias);
    if g.accumulate && args.reads() > old && args.inplace(old).is_none() {
        c.copy_from_slice(&args.read::<T>(old)[g.elements(&units)]);
    }
    let scratch = if args.writes() > 1 { args.write::<T>(1) } else { &mut [] };
    gemm(&g, a, b, bias, c, units, scratch);
}

/// The kernel of a product that is a gradient and goes into a step of plain SGD at once, where [`Gemm::descends`]:
/// C = p − lr·(A · B + decay·p), each element in the order of a product and a step after it.
///
/// Reads a, b, p: `T[m, n]`, lr: `T[]`; writes C (`Split::PerUnit(per_unit())`), in place of read 2 or not, and scratch
/// (`Split::PerLane(scratch_len())`; may be left out if that is 0); params: those of the product, then the bits of the decay, an `f64`.
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
        return vector::outer(&g, a, b, c, step);
    }
    let (end, p) = (Epilogue { bias: None, act: None, step }, Product { a, b, c });
    let scratch = if args.writes() > 1 { args.write::<T>(1) } else { &mut [] };
    blocked::product(Level::current(), &g, &Plan::new::<T>(&g), p, &end, scratch);
}

/// Computes `units` of a product, where [`Gemm::streams`], for `to`, who takes them block by block: nothing is stored.
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
    if !whole.is_empty() {
        let a = &a[row_of(whole.start, g) * g.a.row..];
        stream::product(Level::current(), g, (a, b), whole.len() / g.n, scratch, to);
    }
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
    T::transpose(Level::current(), from, step, to, to_step, outer, inner);
}

/// Computes `units` of a product into `c`, the elements of C that they own; `bias` is there if the descriptor asks for it.
///
/// # Panics
/// If a slice is shorter than the descriptor says, or the bias missing.
pub fn gemm<T: GemmFloat>(
    g: &Gemm,
    a: &[T],
    b: &[T],
    bias: Option<&[T]>,
    c: &mut [T],
    units: Range<usize>,
    scratch: &mut [T],
) {
    if let Some(plan) = low::Plan::new::<T>(g) {
        let (a, b, bias) = (bytemuck::cast_slice(a), bytemuck::cast_slice(b), bias.map(bytemuck::cast_slice));
        let (c, scratch) = (bytemuck::cast_slice_mut(c), bytemuck::cast_slice_mut(scratch));
        return gemm_low((Engine::current(), &plan), g, a, b, bias, c, units, scratch);
    }
    gemm_on(Level::current(), g, a, b, bias, c, units, scratch);
}

fn gemm_on<T: GemmFloat>(
    level: Level,
    g: &Gemm,
    a: &[T],
    b: &[T],
    bias: Option<&[T]>,
    c: &mut [T],
    units: Range<usize>,
    scratch: &mut [T],
) {
    let whole = g.elements(&units);
    let c = &mut c[..whole.len()];
    if c.is_empty() {
        return;
    }
    assert_eq!(bias.is_some(), g.bias, "the bias does not match the descriptor");
    let end = Epilogue { bias: bias.map(|b| &b[..g.n]), act: act_fn(g.act), step: None };
    let vector = Vector::new(g).filter(|_| g.k > 0);
    let dots = vector::by_dots(g);
    let plan = if vector.is_none() && !dots { Plan::new::<T>(g) } else { Plan::default() };
    pieces(g, whole.start, c, |(oa, ob), from, c| {
        let (a, b) = (&a[oa..], &b[ob..]);
        match &vector {
            _ if g.k == 0 => {
                if !g.accumulate {
                    c.fill(T::ZERO);
                }
                vector::finish(g, &end, from, c);
            }
            Some(v) => {
                v.product(level, (a, b), from, c, g.accumulate, scratch);
                vector::finish(g, &end, from, c);
            }
            None if vector::by_outer(g) => {
                vector::outer(g, &a[row_of(from, g) * g.a.row..], b, c, None);
                vector::finish(g, &end, from, c);
            }
            None if dots => {
                vector::rows(level, g, (&a[row_of(from, g) * g.a.row..], b), c);
                vector::finish(g, &end, from, c);
            }
            None => {
                let p = Product { a: &a[row_of(from, g) * g.a.row..], b, c };
                blocked::product(level, g, &plan, p, &end, scratch);
            }
        }
    });
}

/// The row that element `from` of a matrix begins.
#[inline]
fn row_of(from: usize, g: &Gemm) -> usize {
    // Mostly the first: a division would be felt in the smallest products.
    if from == 0 { 0 } else { from / g.n }
}

/// As [`gemm`], by bf16 units.
fn gemm_low(
    (engine, plan): (Engine, &low::Plan),
    g: &Gemm,
    a: &[f32],
    b: &[f32],
    bias: Option<&[f32]>,
    c: &mut [f32],
    units: Range<usize>,
    scratch: &mut [f32],
) {
    let whole = g.elements(&units);
    let c = &mut c[..whole.len()];
    assert_eq!(bias.is_some(), g.bias, "the bias does not match the descriptor");
    let end = Epilogue { bias: bias.map(|b| &b[..g.n]), act: act_fn(g.act), step: None };
    pieces(g, whole.start, c, |(oa, ob), from, c| {
        let p = low::Product { a: &a[oa + row_of(from, g) * g.a.row..], b: &b[ob..], c };
        low::product(engine, g, plan, p, &end, scratch);
    });
}

/// Calls `each` with the offsets of A and B, the first element in its matrix, and the elements, for each piece of `c` that
/// lies in one matrix of the batch; `c` starts at element `at` of C.
fn pieces<T>(g: &Gemm, mut at: usize, c: &mut [T], mut each: impl FnMut((usize, usize), usize, &mut [T])) {
    // A unit holds whole rows, except where C is one row: then a piece starts inside it.
    let matrix = g.m * g.n;
    let mut rest = c;
    while !rest.is_empty() {
        let (index, from) = if g.batch().is_empty() { (0, at) } else { (at / matrix, at % matrix) };
        let (c, later) = rest.split_at_mut((matrix - from).min(rest.len()));
        at += c.len();
        rest = later;
        each(g.offsets(index), from, c);
    }
}
