//! Steps behind the products that are their gradients: a block of the gradient is taken while it is in cache.
//!
//! Invariant: the bits of the product and the step after it. While a part of a block is computed, what it will be added
//! to is fetched, so that parameters and states stream from memory beside the arithmetic of the product.

use super::{ADAM_TENSORS, Adam, Sgd, Step, Tensors};
use crate::kernels::abi::Args;
use crate::kernels::gemm::{Gemm, GemmFloat, Taker, stream};
use crate::kernels::num::Real;
use crate::kernels::simd::ahead;
use std::ops::Range;

/// Bytes of a parameter and its states from which they are fetched ahead: fewer stay in L2 from step to step.
const FAR: usize = 512 << 10;

/// A parameter that steps by the blocks of its gradient.
struct Param<'a, T> {
    tensors: Tensors<'a, T>,
    step: Step<T>,
    /// Its columns.
    n: usize,
    far: bool,
}

impl<T: Real> Taker<T> for Param<'_, T> {
    fn ahead(&self, rows: Range<usize>, cols: Range<usize>) {
        if !self.far {
            return;
        }
        let Tensors { to, from, lo } = &self.tensors;
        // What is read; few instructions for each line, as a tile of the product has a few thousand in all.
        let all = to.iter().zip(from).map(|(to, from)| from.map_or(&to[..], |from| &from[*lo..]));
        for x in all.filter(|x| !x.is_empty()) {
            let rows = x[rows.start * self.n..].chunks(self.n).take(rows.len());
            rows.for_each(|row| ahead(&row[cols.clone()]));
        }
    }

    fn take(&mut self, row: usize, cols: Range<usize>, block: &[T]) {
        let at = row * self.n + cols.start;
        if cols.len() == self.n {
            return self.tensors.step(&self.step, at, block);
        }
        for (at, g) in (at..).step_by(self.n).zip(block.chunks_exact(cols.len())) {
            self.tensors.step(&self.step, at, g);
        }
    }
}

/// Takes `step` by the gradient `g`, a product of operands 0 and 1; the `tensors` operands after them are updated.
fn by_product<T: GemmFloat + Real>(args: &mut Args<'_>, g: &Gemm, step: Step<T>, tensors: usize) {
    let (a, b, units) = (args.read::<T>(0), args.read::<T>(1), args.units());
    let x = Tensors::new(args, &[2, 3, 4][..tensors], 0, units.start * g.per_unit());
    let far = x.len() * tensors * size_of::<T>() > FAR;
    let scratch = args.write::<T>(tensors);
    stream(g, (a, b), units, scratch, &mut Param { tensors: x, step, n: g.n, far });
}

/// One step of SGD, as [`sgd_update`](super::sgd_update), by the gradient A · B, where [`Gemm::streams`].
///
/// Reads a, b, p: `T[m, n]`, \[buf: `T[m, n]`\], lr: `T[]`, \[t: `i64[]`\], \[scale: `T[]`\]; writes p, \[buf\]
/// (`Split::PerUnit(per_unit())`), in place of their reads or not, and scratch (`Split::PerLane(stream_scratch())`);
/// params: those of the product, then [`Sgd`].
pub fn sgd_by_product<T: GemmFloat + Real>(args: &mut Args<'_>) {
    let (g, words) = Gemm::and_words(args.params());
    let a = Sgd::from_words(words);
    let step = Step::sgd(&a, args, 2 + a.tensors());
    by_product::<T>(args, &g, step, a.tensors());
}

/// One step of Adam or AdamW, as [`adam_update`](super::adam_update), by the gradient A · B, where [`Gemm::streams`].
///
/// Reads a, b, p, m, v: `T[m, n]`, lr: `T[]`, t: `i64[]`, \[scale: `T[]`\]; writes p, m, v
/// (`Split::PerUnit(per_unit())`), in place of their reads or not, and scratch (`Split::PerLane(stream_scratch())`);
/// params: those of the product, then [`Adam`].
pub fn adam_by_product<T: GemmFloat + Real>(args: &mut Args<'_>) {
    let (g, words) = Gemm::and_words(args.params());
    let a = Adam::from_words(words);
    let step = Step::adam(&a, args, 2 + ADAM_TENSORS);
    by_product::<T>(args, &g, step, ADAM_TENSORS);
}
