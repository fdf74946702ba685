//! Fused weight updates: a product whose result is a gradient updates the param tile by tile, while each tile is in
//! cache.
//!
//! Invariant: the bits are those of the product followed by the step. While one tile is computed, the param and states
//! of the next tile are prefetched, so that memory traffic overlaps with arithmetic.

use super::{ADAM_TENSORS, Adam, OptimKernelBlock, OptimKernelStep, OptimKernelTensors, Sgd};
use crate::abi::{Args, MatrixMut};
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::gemm::{Gemm, GemmFloat, PrefetchQueue, TileSink, gemm_into};
use std::ops::Range;

/// Prefetch if a parameter and its states have more bytes than this: smaller ones stay in L2 from step to step.
const FAR: usize = 512 << 10;

/// A parameter that is updated by the tiles of its gradient.
struct FusedUpdateParam<'a, T> {
    tensors: OptimKernelTensors<'a, T>,
    step: OptimKernelStep<T>,
    /// Columns of the parameter.
    n: usize,
    far: bool,
}

impl<T: Float> TileSink<T> for FusedUpdateParam<'_, T> {
    fn prefetch(&self, rows: Range<usize>, cols: Range<usize>, queue: &mut PrefetchQueue) {
        if !self.far {
            return;
        }
        let OptimKernelTensors { to, from, lo } = &self.tensors;
        // The tensors that the step reads.
        let all = to.iter().zip(from).map(|(to, from)| from.map_or(&to[..], |from| &from[*lo..]));
        let all = all.filter(|x| !x.is_empty()).map(|x| &x[rows.start * self.n + cols.start..]);
        queue.set(all, rows.len(), cols.len(), self.n);
    }

    fn consume(&mut self, row: usize, col: usize, g: MatrixMut<'_, T>) {
        let block = OptimKernelBlock { at: row * self.n + col, rows: g.rows(), cols: g.cols(), step: self.n };
        self.tensors.step(&self.step, block, g.each());
    }
}

/// Applies `step` with the gradient `g`, the product of operands 0 and 1, to the `tensors` operands after them.
fn apply_step_to_product<T: GemmFloat>(args: &mut Args<'_>, g: &Gemm, step: OptimKernelStep<T>, tensors: usize) {
    let (a, b, units) = (args.read::<T>(0), args.read::<T>(1), args.units());
    let x = OptimKernelTensors::new(args, &[2, 3, 4][..tensors], 0, units.start * g.per_unit());
    let far = x.len() * tensors * size_of::<T>() > FAR;
    let scratch = args.write::<T>(tensors);
    gemm_into(g, (a, b), units, scratch, &mut FusedUpdateParam { tensors: x, step, n: g.n, far });
}

/// One step of SGD, as in [`sgd_update_kernel`](super::sgd_update_kernel), with the gradient A · B. Requires
/// [`Gemm::feeds_sink`].
///
/// Reads a, b, p: `T[m, n]`, \[buf: `T[m, n]`\], lr: `T[]`, \[t: `i64[]`\], \[scale: `T[]`\]; writes p, \[buf\]
/// (`Split::PerUnit(per_unit())`), in place of their reads or not, and scratch (`Split::PerThread(sink_scratch())`);
/// params: those of the product, then [`Sgd`].
pub fn fused_sgd_update_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let (g, words) = Gemm::and_words(args.params());
    let a = Sgd::from_words(words);
    let step = OptimKernelStep::sgd(&a, args, 2 + a.optim_kernel_tensors());
    apply_step_to_product::<T>(args, &g, step, a.optim_kernel_tensors());
}

by_dtype!(fused_sgd_update_kernel_for = fused_sgd_update_kernel::<floats>);

/// One step of Adam or AdamW, as in [`adam_update_kernel`](super::adam_update_kernel), with the gradient A · B.
/// Requires [`Gemm::feeds_sink`].
///
/// Reads a, b, p, m, v: `T[m, n]`, lr: `T[]`, t: `i64[]`, \[scale: `T[]`\]; writes p, m, v
/// (`Split::PerUnit(per_unit())`), in place of their reads or not, and scratch (`Split::PerThread(sink_scratch())`);
/// params: those of the product, then [`Adam`].
pub fn fused_adam_update_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let (g, words) = Gemm::and_words(args.params());
    let a = Adam::from_words(words);
    let step = OptimKernelStep::adam(&a, args, 2 + ADAM_TENSORS);
    apply_step_to_product::<T>(args, &g, step, ADAM_TENSORS);
}

by_dtype!(fused_adam_update_kernel_for = fused_adam_update_kernel::<floats>);
