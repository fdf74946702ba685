//! Writes sums of products of broadcasts as products of matrices: Σₖ a[i, k]·b[k, j], written as
//! `(a[:, :, None] * b[None]).sum(1)`, never stores its terms.
//!
//! An axis of the terms is a batch axis (both factors have it), a summed axis (both have it, and it is summed), a free
//! axis of a or one of b. The factors are put in the order of a batched product, and its result in the order of the
//! sum's. The pass leaves alone what would move more than half as many elements as there are terms, a sum over an
//! axis of one factor, and products of tiny matrices. It also leaves a large factor that few ops compute from
//! broadcasts, such as differences of all pairs, if pointwise fusion can compute it where it is summed.
//!
//! Invariant: a product adds at most [`CHAIN`] terms one after another. More are added in chunks, whose sums are
//! reduced pairwise, so that the error stays that of a sum. Terms are not rounded before they are added: one that
//! overflows alone may not. A precision that a user chooses for products is not meant for sums, so the pass does not
//! run then.

use super::fuse::{is_recomputed, is_reduction};
use super::rebuild::{RebuildVisit, rebuild};
use super::simplify::Hits;
use crate::arena::{Value, ids::Id};
use crate::error::Result;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ops::reduce::attrs::ReduceAttrs;
use crate::nodes::{DType, Graph, Op, Var};
use bumpalo::Bump;

/// Terms for each element that is moved.
const TERMS_PER_MOVE: usize = 2;
/// The least terms of all matrices, and of each of a batch.
const LEAST_TERMS: [usize; 2] = [512, 64];

/// The most terms that a product adds one after another.
const CHAIN: usize = 1024;
/// By how much chunks may be shorter than [`CHAIN`]: their number divides the length of an axis.
const SHORTER: usize = 8;

/// What an axis is in the product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    /// Of the chunks of a long sum: a batch axis that is summed afterwards.
    Chunk,
    Batch,
    Summed,
    /// Of the first factor.
    Left,
    /// Of the second factor.
    Right,
}

/// The axes of the terms that are longer than 1: what each is, and its length.
struct Terms {
    axes: Vec<Axis>,
    lengths: Vec<usize>,
}

impl Terms {
    /// Those of the factors `a` and `b`, which broadcast to `dims`, and are summed over the axes `summed`. `None` if an
    /// axis is of neither factor, or is summed but of one factor alone, or if a long sum has no chunks.
    fn of(a: Var<'_>, b: Var<'_>, dims: &[usize], summed: &[usize]) -> Option<Terms> {
        let has = |x: Var<'_>, i: usize| {
            let own = x.dims();
            (i + own.len()).checked_sub(dims.len()).is_some_and(|i| own[i] != 1)
        };
        let long = || (0..dims.len()).filter(|&i| dims[i] != 1);
        let axis = |i: usize| match (has(a, i), has(b, i), summed.contains(&i)) {
            (true, true, false) => Some(Axis::Batch),
            (true, true, true) => Some(Axis::Summed),
            (true, false, false) => Some(Axis::Left),
            (false, true, false) => Some(Axis::Right),
            _ => None,
        };
        let axes = long().map(axis).collect::<Option<_>>()?;
        Terms { axes, lengths: long().map(|i| dims[i]).collect() }.in_chunks()
    }

    /// With an axis of chunks if a product would add too many terms.
    fn in_chunks(mut self) -> Option<Terms> {
        let terms = self.size(&[Axis::Summed]);
        if terms > CHAIN {
            let first = self.axes.iter().position(|a| *a == Axis::Summed)?;
            let (length, least) = (self.lengths[first], terms.div_ceil(CHAIN));
            let chunks = (least..=length.min(least * SHORTER)).find(|s| length.is_multiple_of(*s))?;
            self.axes.insert(first, Axis::Chunk);
            self.lengths.insert(first, chunks);
            self.lengths[first + 1] /= chunks;
        }
        Some(self)
    }

    /// The axes of these kinds, kind by kind.
    fn of_kinds(&self, kinds: &[Axis]) -> Vec<usize> {
        kinds.iter().flat_map(|kind| (0..self.axes.len()).filter(move |&i| self.axes[i] == *kind)).collect()
    }

    /// The lengths of these axes.
    fn lengths_of(&self, axes: &[usize]) -> Vec<usize> {
        axes.iter().map(|&i| self.lengths[i]).collect()
    }

    /// The length of all axes of these kinds together.
    fn size(&self, kinds: &[Axis]) -> usize {
        self.lengths_of(&self.of_kinds(kinds)).iter().product()
    }

    /// How the factor with the axes `free` of its own is laid out.
    fn layout(&self, free: Axis) -> Layout {
        let orders = [[free, Axis::Summed], [Axis::Summed, free]]
            .map(|[rows, cols]| self.of_kinds(&[Axis::Chunk, Axis::Batch, rows, cols]));
        let mut own = orders[0].clone();
        own.sort_unstable();
        let transposed = own == orders[1] && own != orders[0];
        Layout {
            moved: !transposed && own != orders[0],
            own,
            wanted: orders[usize::from(transposed)].clone(),
            transposed,
        }
    }
}

/// The axes of a factor, as one side of a product.
struct Layout {
    own: Vec<usize>,
    /// Batch axes, then rows and columns.
    wanted: Vec<usize>,
    /// Whether the summed axes are the rows.
    transposed: bool,
    /// Whether elements must be moved.
    moved: bool,
}

/// Replaces the sums of `g` that are products of matrices, and counts them in `hits`.
pub fn contract_sums<'b>(g: Graph<'_>, bump: &'b Bump, hits: &mut Hits) -> Result<Graph<'b>> {
    rebuild(g, bump, &mut |v| {
        let product = contract(v)?;
        *hits.entry("contracted-sum").or_default() += 1;
        Some(vec![product])
    })
}

/// The product that a sum or mean is.
fn contract<'g>(v: &RebuildVisit<'_, 'g>) -> Option<Var<'g>> {
    let mean = v.op() == Op::REDUCE_MEAN;
    if !(mean || v.op() == Op::REDUCE_SUM) || !matches!(v.args[0].dtype(), DType::F32 | DType::F64) {
        return None;
    }
    let terms = v.src.def[v.src.args_of(v.node)[0].at()];
    let recomputed = |a: &Value| is_recomputed(v.src, v.src.def[a.at()]);
    if v.src.args_of(terms).iter().any(recomputed) && is_reduction(v.src, v.node) {
        return None;
    }
    let source = |x: &Var<'g>| operands_of(*x, Op::BROADCAST).map_or(*x, |of| of[0]);
    let [a, b] =
        <[Var<'g>; 2]>::try_from(operands_of(v.args[0], Op::MUL)?.iter().map(source).collect::<Vec<_>>()).ok()?;
    let (dims, summed) = (v.args[0].dims(), to_size_attrs(&ReduceAttrs::of(&v.src.attrs(v.node)).axes));
    let terms = Terms::of(a, b, &dims, &summed)?;
    // The free axes that come first are the rows of the result.
    let y = match terms.axes.iter().find(|a| [Axis::Left, Axis::Right].contains(a))? {
        Axis::Left => multiply(a, b, &terms),
        _ => multiply(b, a, &Terms::of(b, a, &dims, &summed)?),
    }?;
    let y = y.reshape(v.src.dims(v.src.out(v.node)));
    Some(if mean { y / terms.size(&[Axis::Chunk, Axis::Summed]) as f64 } else { y })
}

/// The sum with its axes longer than 1, if it is worth a product.
fn multiply<'g>(a: Var<'g>, b: Var<'g>, terms: &Terms) -> Option<Var<'g>> {
    let [k, m, n] = [Axis::Summed, Axis::Left, Axis::Right].map(|kind| terms.size(&[kind]));
    let batch = terms.size(&[Axis::Chunk, Axis::Batch]);
    let (left, right) = (terms.layout(Axis::Left), terms.layout(Axis::Right));
    let made = terms.of_kinds(&[Axis::Batch, Axis::Left, Axis::Right]);
    let moves = [(left.moved, batch * m * k), (right.moved, batch * n * k), (!made.is_sorted(), batch * m * n)];
    let moves: usize = moves.iter().filter(|(moved, _)| *moved).map(|(_, elements)| elements).sum();
    let (all, each) = (batch * k * m * n, k * m * n);
    if k == 1 || moves * TERMS_PER_MOVE > all || all < LEAST_TERMS[0] || each < LEAST_TERMS[1] {
        return None;
    }
    let side = |x: Var<'g>, layout: &Layout, free: usize| {
        let x = permuted(x.reshape(terms.lengths_of(&layout.own)), &layout.own, &layout.wanted);
        let [rows, cols] = if layout.transposed { [k, free] } else { [free, k] };
        if batch == 1 { x.reshape([rows, cols]) } else { x.reshape([batch, rows, cols]) }
    };
    let y = side(a, &left, m).matmul_t(side(b, &right, n), left.transposed, !right.transposed);
    let chunks = terms.size(&[Axis::Chunk]);
    let y = if chunks == 1 { y } else { y.reshape([chunks, batch / chunks * m * n]).sum(0) };
    let mut kept = made.clone();
    kept.sort_unstable();
    Some(permuted(y.reshape(terms.lengths_of(&made)), &made, &kept))
}

/// `x` with the axes `from`, in the order `to`.
fn permuted<'g>(x: Var<'g>, from: &[usize], to: &[usize]) -> Var<'g> {
    let perm: Vec<usize> = to.iter().filter_map(|axis| from.iter().position(|f| f == axis)).collect();
    if perm.is_sorted() { x } else { x.permute(&perm) }
}

/// The operands of `x`, if `x` is an `op`.
fn operands_of<'g>(x: Var<'g>, op: Op) -> Option<Vec<Var<'g>>> {
    let of = x.g.with(|e| e.def(x.v).filter(|def| def.op == op).map(|def| def.args.to_vec()))?;
    Some(of.into_iter().map(|v| x.g.var(v)).collect())
}
