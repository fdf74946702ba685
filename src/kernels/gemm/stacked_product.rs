//! Sums of products over a stack: C + A₀·B₀ + A₁·B₁ + …, one product after another, as a loop would add them.
//!
//! Products of few terms visit C for little work. So the operands of several are gathered side by side in scratch, and
//! are multiplied as one product of more terms.
//!
//! Invariant: the bits are those of products that accumulate, one after another. Where each of them is a chain, so is
//! their sum. Where they are not, or where each has many terms, they are computed one by one.

use super::blocked::{self, BlockedProduct};
use super::blocked_plan::BlockedPlan;
use super::epilogue::GemmEpilogue;
use super::gemm_desc::{Gemm, Strides};
use super::gemm_float::GemmFloat;
use super::gemm_kernel::{Corner, Target, compute_block, each_matrix_part, rows_of_units};
use super::operands::Operands;
use super::pack_block::{Block, pack_block};
use super::precision::Precision;
use super::tuning::{STACKED_COLS, STACKED_ROWS, STACKED_TERMS};
use crate::abi::{Args, Kernel, MatrixMut, Split};
use crate::by_dtype;
use crate::scratch::scratch;
use crate::simd::Token;
use arenagrad_arena::dtype::DType;

/// C + Σ A·B over a stack of products of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackedProduct {
    /// One of the products. It accumulates, and has no epilogue.
    pub one: Gemm,
    /// Number of products.
    pub count: usize,
    /// Stride between their operands A, in elements.
    pub a: usize,
    /// Stride between their operands B, in elements.
    pub b: usize,
    /// Whether the last product is added first.
    pub reverse: bool,
}

/// Words of a [`StackedProduct`] behind those of one product.
const TAIL: usize = 4;

impl StackedProduct {
    /// Parameter words: those of one product, then the count, both strides and the direction.
    pub fn to_words(&self) -> Vec<u64> {
        let tail = [self.count as u64, self.a as u64, self.b as u64, u64::from(self.reverse)];
        [&self.one.to_words()[..], &tail].concat()
    }

    /// From the words that [`StackedProduct::to_words`] wrote. `None` if those behind the product are not of that form.
    pub fn from_words(words: &[u64]) -> Option<StackedProduct> {
        let (one, tail) = Gemm::and_words(words);
        let &[count, a, b, reverse] = tail.first_chunk::<TAIL>()?;
        let [count, a, b] = [count, a, b].map(|w| w as usize);
        Some(StackedProduct { one, count, a, b, reverse: reverse == 1 })
    }

    /// The product of as many terms as all have together, whose units divide C.
    pub(super) fn whole(&self) -> Gemm {
        Gemm { k: self.one.k.saturating_mul(self.count), ..self.one }
    }

    /// How units divide C, by rows, and their number.
    pub fn division(&self) -> (Split, usize) {
        let whole = self.whole();
        (Split::PerUnit(whole.per_unit()), whole.units())
    }

    /// The number of products that are multiplied as one; 1 if each is computed by itself.
    fn together<T: GemmFloat>(&self) -> usize {
        let g = &self.one;
        let chain = g.sum_lanes::<T>().is_none() && g.runs_in::<T>() == Precision::F32;
        let few = chain && g.k > 0 && !g.is_empty();
        if few { (STACKED_TERMS / g.k).clamp(1, self.count.max(1)) } else { 1 }
    }

    /// The product of several at once: their gathered operands keep the order of their axes.
    fn gathered<T: GemmFloat>(&self) -> Gathered {
        let (m, n) = (self.one.m.min(STACKED_ROWS), self.one.n.min(STACKED_COLS));
        let each = self.together::<T>();
        let k = self.one.k * each;
        let a = if self.one.a.col == 1 { Strides { row: k, col: 1 } } else { Strides { row: 1, col: m } };
        let b = if self.one.b.col == 1 { Strides { row: n, col: 1 } } else { Strides { row: 1, col: k } };
        let g = Gemm { accumulate: true, ..Gemm::new(m, n, k).with_strides(a, b) };
        Gathered { each, g, plan: BlockedPlan::new::<T>(&g) }
    }

    /// Elements of scratch of each thread.
    pub(super) fn scratch_len<T: GemmFloat>(&self) -> usize {
        if self.one.is_empty() || self.together::<T>() == 1 {
            return self.one.scratch_len::<T>();
        }
        let Gathered { g, plan, .. } = self.gathered::<T>();
        GatheredScratch::len(g.m, g.n, g.k).saturating_add(plan.scratch::<T>())
    }

    /// Elements of scratch of each thread, for an element type.
    pub fn scratch_len_for(&self, dtype: DType) -> usize {
        if dtype == DType::F32 { self.scratch_len::<f32>() } else { self.scratch_len::<f64>() }
    }

    /// Refuses operands that lack an element that a product reads.
    fn assert_fits(&self, a: usize, b: usize) {
        let last = |stride: usize| self.count.saturating_sub(1).checked_mul(stride);
        let reads = |len: Option<usize>, stride| len?.checked_add(last(stride)?);
        let (len_a, len_b) = (reads(self.one.a_len(), self.a), reads(self.one.b_len(), self.b));
        let none = self.count == 0 || self.one.k == 0 || self.one.is_empty();
        let fits = none || (len_a.is_some_and(|len| len <= a) && len_b.is_some_and(|len| len <= b));
        assert!(fits, "operands of {a} and {b} elements are too short for the products {self:?}");
    }

    /// The places of the products in the stack, in the order in which they are added.
    fn order(&self) -> impl Iterator<Item = usize> {
        let (count, reverse) = (self.count, self.reverse);
        (0..count).map(move |t| if reverse { count - 1 - t } else { t })
    }
}

/// Several products of a stack as one.
struct Gathered {
    /// Their number; the last ones may be fewer.
    each: usize,
    /// A block of the product of all their terms, with the strides of the gathered operands.
    g: Gemm,
    plan: BlockedPlan,
}

scratch! {
    /// The scratch of gathered operands.
    struct GatheredScratch(m: usize, n: usize, k: usize) {
        a: m * k,
        b: n * k,
        ..product
    }
}

/// The kernel of a sum of products over a stack.
#[inline(never)]
pub fn stacked_product_kernel_for(dtype: DType) -> Result<Kernel, String> {
    match dtype {
        DType::F32 => Ok(run_stacked_product::<f32>),
        DType::F64 => Ok(run_stacked_product::<f64>),
        d => by_dtype::missing_kernel_error(d),
    }
}

/// C + Σ A·B over a stack.
///
/// * Reads a, b, each with the stack's axis in front, and the old C `[batch.., m, n]`.
/// * Writes C, divided by [`StackedProduct::division`], which may be in place of read 2; then scratch
///   (`Split::PerThread(scratch_len())`, may be left out if that is 0).
/// * Words: [`StackedProduct::to_words`].
fn run_stacked_product<T: GemmFloat>(args: &mut Args<'_>) {
    let Some(s) = StackedProduct::from_words(args.params()) else { return };
    let (a, b, whole) = (args.read::<T>(0), args.read::<T>(1), s.whole());
    s.assert_fits(a.len(), b.len());
    let units = args.units();
    let own = whole.unit_elements(&units);
    let c = args.write::<T>(0);
    if args.inplace(2).is_none() {
        c.copy_from_slice(&args.read::<T>(2)[own]);
    }
    if s.one.k == 0 || c.is_empty() {
        return;
    }
    let scratch = if args.writes() > 1 { args.write::<T>(1) } else { &mut [] };
    let (at, c) = rows_of_units(&whole, c, &units);
    compute_stack(Token::current(), &s, (a, b), at, c, scratch);
}

/// Adds the products of a stack to the block `c` of C, which begins at `at`.
pub fn compute_stack<T: GemmFloat>(
    token: Token,
    s: &StackedProduct,
    (a, b): (&[T], &[T]),
    at: Corner,
    mut c: MatrixMut<'_, T>,
    scratch: &mut [T],
) {
    if s.together::<T>() == 1 {
        for t in s.order() {
            let o = Operands { a: &a[t * s.a..], b: &b[t * s.b..], third: None };
            let (rows, cols) = (0..c.rows(), 0..c.cols());
            compute_block(&s.one, o, at, Target { c: c.part(rows, cols), sums: None }, scratch);
        }
        return;
    }
    let parts = s.gathered::<T>();
    each_matrix_part(&s.one, at, c, |from, c| {
        add_gathered(token, s, &parts, (&a[from.a..], &b[from.b..]), c, scratch);
    });
}

/// Adds the products of a stack to a block of one matrix C. The operands begin at its first row and column.
fn add_gathered<T: GemmFloat>(
    token: Token,
    s: &StackedProduct,
    parts: &Gathered,
    (a, b): (&[T], &[T]),
    mut c: MatrixMut<'_, T>,
    scratch: &mut [T],
) {
    let (one, Gathered { each, g, plan }) = (&s.one, parts);
    let to = GatheredScratch::cut(g.m, g.n, g.k, scratch);
    let (all, cols) = (c.rows(), c.cols());
    for from in (0..s.count).step_by(*each) {
        let stack = || s.order().skip(from).take(*each).enumerate();
        let part = Gemm { k: one.k * stack().count(), ..*g };
        for j in (0..cols).step_by(g.n) {
            let width = g.n.min(cols - j);
            for (q, t) in stack() {
                gather(
                    token,
                    &b[t * s.b + j * one.b.col..],
                    one.b,
                    (one.k, width),
                    g.b,
                    &mut to.b[q * one.k * g.b.row..],
                );
            }
            for i in (0..all).step_by(g.m) {
                let height = g.m.min(all - i);
                for (q, t) in stack() {
                    let a = &a[t * s.a + i * one.a.row..];
                    gather(token, a, one.a, (height, one.k), g.a, &mut to.a[q * one.k * g.a.col..]);
                }
                let p = BlockedProduct { a: to.a, b: to.b, c: c.part(i..i + height, j..j + width), sums: None };
                blocked::multiply_block(token, &part, plan, p, &GemmEpilogue::NONE, to.product);
            }
        }
    }
}

/// Copies a matrix of `rows` rows and `cols` columns to other strides, one of which is 1.
fn gather<T: GemmFloat>(
    token: Token,
    src: &[T],
    from: Strides,
    (rows, cols): (usize, usize),
    to: Strides,
    dst: &mut [T],
) {
    if to.col == 1 {
        let block = Block { src, outer_step: from.row, inner_step: from.col, outer: rows, inner: cols };
        // Both strides are 1 where there is one row.
        pack_block(token, block, dst, to.row.max(cols));
    } else {
        let block = Block { src, outer_step: from.col, inner_step: from.row, outer: cols, inner: rows };
        pack_block(token, block, dst, to.col);
    }
}
