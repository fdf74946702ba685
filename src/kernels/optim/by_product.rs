//! Steps behind the products that are their gradients: a tile of the gradient is taken while it is in cache.
//!
//! Invariant: the bits of the product and the step after it. While a tile is computed, what the next will be added to
//! is fetched, so that parameters and states stream from memory beside the arithmetic of the product.

use super::{ADAM_TENSORS, Adam, Block, Sgd, Step, Tensors};
use crate::kernels::abi::{Args, MatrixMut};
use crate::kernels::gemm::{Gemm, GemmFloat, PrefetchQueue, TileSink, gemm_into};
use crate::kernels::num::Real;
use std::ops::Range;

/// Bytes of a parameter and its states from which they are fetched ahead: fewer stay in L2 from step to step.
const FAR: usize = 512 << 10;

/// A parameter that steps by the tiles of its gradient.
struct Param<'a, T> {
    tensors: Tensors<'a, T>,
    step: Step<T>,
    /// Its columns.
    n: usize,
    far: bool,
}

impl<T: Real> TileSink<T> for Param<'_, T> {
    fn prefetch(&self, rows: Range<usize>, cols: Range<usize>, queue: &mut PrefetchQueue) {
        if !self.far {
            return;
        }
        let Tensors { to, from, lo } = &self.tensors;
        // What is read.
        let all = to.iter().zip(from).map(|(to, from)| from.map_or(&to[..], |from| &from[*lo..]));
        let all = all.filter(|x| !x.is_empty()).map(|x| &x[rows.start * self.n + cols.start..]);
        queue.set(all, rows.len(), cols.len(), self.n);
    }

    fn consume(&mut self, row: usize, col: usize, g: MatrixMut<'_, T>) {
        let block = Block { at: row * self.n + col, rows: g.rows(), cols: g.cols(), step: self.n };
        self.tensors.step(&self.step, block, g.each());
    }
}

/// Takes `step` by the gradient `g`, a product of operands 0 and 1; the `tensors` operands after them are updated.
fn by_product<T: GemmFloat + Real>(args: &mut Args<'_>, g: &Gemm, step: Step<T>, tensors: usize) {
    let (a, b, units) = (args.read::<T>(0), args.read::<T>(1), args.units());
    let x = Tensors::new(args, &[2, 3, 4][..tensors], 0, units.start * g.per_unit());
    let far = x.len() * tensors * size_of::<T>() > FAR;
    let scratch = args.write::<T>(tensors);
    gemm_into(g, (a, b), units, scratch, &mut Param { tensors: x, step, n: g.n, far });
}

/// One step of SGD, as [`sgd_update`](super::sgd_update), by the gradient A · B, where [`Gemm::feeds_sink`].
///
/// Reads a, b, p: `T[m, n]`, \[buf: `T[m, n]`\], lr: `T[]`, \[t: `i64[]`\], \[scale: `T[]`\]; writes p, \[buf\]
/// (`Split::PerUnit(per_unit())`), in place of their reads or not, and scratch (`Split::PerThread(sink_scratch())`);
/// params: those of the product, then [`Sgd`].
pub fn sgd_by_product<T: GemmFloat + Real>(args: &mut Args<'_>) {
    let (g, words) = Gemm::and_words(args.params());
    let a = Sgd::from_words(words);
    let step = Step::sgd(&a, args, 2 + a.tensors());
    by_product::<T>(args, &g, step, a.tensors());
}

/// One step of Adam or AdamW, as [`adam_update`](super::adam_update), by the gradient A · B, where
/// [`Gemm::feeds_sink`].
///
/// Reads a, b, p, m, v: `T[m, n]`, lr: `T[]`, t: `i64[]`, \[scale: `T[]`\]; writes p, m, v
/// (`Split::PerUnit(per_unit())`), in place of their reads or not, and scratch (`Split::PerThread(sink_scratch())`);
/// params: those of the product, then [`Adam`].
pub fn adam_by_product<T: GemmFloat + Real>(args: &mut Args<'_>) {
    let (g, words) = Gemm::and_words(args.params());
    let a = Adam::from_words(words);
    let step = Step::adam(&a, args, 2 + ADAM_TENSORS);
    by_product::<T>(args, &g, step, ADAM_TENSORS);
}
