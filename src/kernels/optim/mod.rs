//! SGD and Adam updates by torch's formulas (SGD in torch's order of operations, Adam within a few ulps). One
//! instruction updates one param, or several small ones.
//!
//! Invariant: params and moments are updated element by element, so in place and out of place give the same bits.
//! Moments below the smallest normal number are flushed to zero: subnormal moments would make idle params many times
//! slower than active ones. Used by the lowering of the optimiser ops.
//!
//! | kernel | reads | writes (each may be in place of the read of the same name) | params |
//! |---|---|---|---|
//! | [`sgd_update_kernel`] | p, g, \[buf\] of each param; lr, \[t\], \[scale\] | p, \[buf\] of each | [`Sgd`] |
//! | [`adam_update_kernel`] | p, g, m, v of each param; lr, t, \[scale\] | p, m, v of each | [`Adam`] |
//! | [`fused_sgd_update_kernel`] | a, b, p, \[buf\], lr, \[t\], \[scale\] | p, \[buf\], scratch | those of the product, [`Sgd`] |
//! | [`fused_adam_update_kernel`] | a, b, p, m, v, lr, t, \[scale\] | p, m, v, scratch | those of the product, [`Adam`] |
//!
//! Rows of tables are updated by the kernels of [`rows`].
//!
//! `lr` and `scale` are `T[]`; `t` is `i64[]`, 1 in the first step. The params say which operands in brackets exist. If
//! one is absent, those after it move up.

mod fused_update;
pub mod rows;

pub use fused_update::{
    fused_adam_update_kernel, fused_adam_update_kernel_for, fused_sgd_update_kernel, fused_sgd_update_kernel_for,
};

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::simd;

/// Elements in a unit.
pub const UNIT: usize = 1024;

params! {
    /// Params of [`sgd_update_kernel`].
    pub struct Sgd {
        /// Elements of the parameter; with several, of the largest.
        pub len: usize,
        /// μ. The operands `buf` and `t` exist if it is not 0.
        pub momentum: f64,
        /// Dampening: the buffer adds (1 − dampening)·g.
        pub dampening: f64,
        /// Nesterov momentum.
        pub nesterov: bool,
        /// L2 penalty, added to the gradient.
        pub weight_decay: f64,
        /// Whether the operand `scale` exists; the gradient is first multiplied by it.
        pub scaled: bool,
    }
}

impl Sgd {
    /// Updated tensors of a parameter: p and, with momentum, the buffer.
    fn optim_kernel_tensors(&self) -> usize {
        1 + usize::from(self.momentum != 0.0)
    }
}

params! {
    /// Params of [`adam_update_kernel`].
    pub struct Adam {
        /// Elements of the parameter; with several, of the largest.
        pub len: usize,
        /// Decay of the first moment.
        pub beta1: f64,
        /// Decay of the second moment.
        pub beta2: f64,
        /// Added to the denominator, after the bias correction.
        pub eps: f64,
        /// Weight decay: an L2 penalty in the gradient, or a factor of the parameter if decoupled.
        pub weight_decay: f64,
        /// AdamW: `p *= 1 − lr·weight_decay` before the update.
        pub decoupled: bool,
        /// Whether the operand `scale` exists; the gradient is first multiplied by it.
        pub scaled: bool,
    }
}

/// Flushes a subnormal number to 0; NaN stays.
#[inline(always)]
fn flush_moment<T: Float>(x: T) -> T {
    if x.abs() < T::MIN_POSITIVE { T::ZERO } else { x }
}

/// The gradient with its L2 penalty. Without decay the parameter is not read: 0·∞ would be NaN.
#[inline(always)]
fn decayed_grad<T: Float>(g: T, p: T, decay: T) -> T {
    if decay == T::ZERO { g } else { g + p * decay }
}

/// The constants of a step of SGD, rounded to the parameter's type.
#[derive(Clone, Copy)]
struct OptimKernelSgdStep<T> {
    lr: T,
    scale: T,
    momentum: T,
    keep: T,
    decay: T,
}

simd! {
    fn optim_kernel_sgd_plain['g, T: Float, G: Iterator<Item = &'g [T]>](s: OptimKernelSgdStep<T>, g: G, n: usize, p: &mut [T]) {
        for (g, p) in g.zip(p.chunks_mut(n)) {
            for (p, g) in p.iter_mut().zip(g) {
                let g = decayed_grad(*g * s.scale, *p, s.decay);
                *p -= s.lr * g;
            }
        }
    }
}

simd! {
    fn optim_kernel_sgd_momentum['g, T: Float, G: Iterator<Item = &'g [T]>](
        s: OptimKernelSgdStep<T>, first: bool, nesterov: bool, g: G, n: usize, p: &mut [T], buf: &mut [T],
    ) {
        for ((g, p), buf) in g.zip(p.chunks_mut(n)).zip(buf.chunks_mut(n)) {
            for ((p, g), buf) in p.iter_mut().zip(g).zip(buf) {
                let g = decayed_grad(*g * s.scale, *p, s.decay);
                *buf = flush_moment(if first { g } else { *buf * s.momentum + g * s.keep });
                *p -= s.lr * if nesterov { g + *buf * s.momentum } else { *buf };
            }
        }
    }
}

/// The constants of a step of Adam, rounded to the parameter's type.
#[derive(Clone, Copy)]
struct OptimKernelAdamStep<T> {
    scale: T,
    /// L2 penalty in the gradient; 0 if decoupled.
    decay: T,
    /// Factor of the parameter before the update; 1 unless decoupled.
    shrink: T,
    beta1: T,
    one_less_beta1: T,
    beta2: T,
    one_less_beta2: T,
    /// −lr·√(1 − β₂ᵗ)/(1 − β₁ᵗ), and below ε·√(1 − β₂ᵗ). torch divides √v by that root; folding it into the constants
    /// saves a division for each element.
    minus_step: T,
    eps: T,
}

impl<T: Float> OptimKernelAdamStep<T> {
    /// The constants of step `t`, computed in `f64` as torch does.
    fn new(a: &Adam, lr: T, t: i64, scale: T) -> OptimKernelAdamStep<T> {
        let f = T::from_f64;
        let t = t as f64;
        let (correction1, correction2) = (1.0 - a.beta1.powf(t), 1.0 - a.beta2.powf(t));
        OptimKernelAdamStep {
            scale,
            decay: f(if a.decoupled { 0.0 } else { a.weight_decay }),
            shrink: f(if a.decoupled { 1.0 - lr.to_f64() * a.weight_decay } else { 1.0 }),
            beta1: f(a.beta1),
            one_less_beta1: f(1.0 - a.beta1),
            beta2: f(a.beta2),
            one_less_beta2: f(1.0 - a.beta2),
            minus_step: f(-(lr.to_f64() / correction1 * correction2.sqrt())),
            eps: f(a.eps * correction2.sqrt()),
        }
    }
}

simd! {
    fn optim_kernel_adam['g, T: Float, G: Iterator<Item = &'g [T]>](
        s: OptimKernelAdamStep<T>, g: G, n: usize, p: &mut [T], m: &mut [T], v: &mut [T],
    ) {
        // torch's lerp interpolates from the nearer end.
        let near = s.one_less_beta1.to_f64() < 0.5;
        for (((g, p), m), v) in g.zip(p.chunks_mut(n)).zip(m.chunks_mut(n)).zip(v.chunks_mut(n)) {
            for (((p, g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
                let g = decayed_grad(*g * s.scale, *p, s.decay);
                let to_g = g - *m;
                *m = flush_moment(if near { *m + to_g * s.one_less_beta1 } else { g - to_g * s.beta1 });
                *v = flush_moment(*v * s.beta2 + s.one_less_beta2 * g * g);
                *p = *p * s.shrink + s.minus_step * *m / (v.sqrt() + s.eps);
            }
        }
    }
}

/// Updated tensors of a parameter of Adam: p, m, v.
const ADAM_TENSORS: usize = 3;

/// A step with its constants.
#[derive(Clone, Copy)]
enum OptimKernelStep<T> {
    Sgd(OptimKernelSgdStep<T>),
    Momentum { step: OptimKernelSgdStep<T>, first: bool, nesterov: bool },
    Adam(OptimKernelAdamStep<T>),
}

impl<T: Float> OptimKernelStep<T> {
    /// The step of `a`; its scalars are the operands from `at` on.
    fn sgd(a: &Sgd, args: &Args<'_>, at: usize) -> OptimKernelStep<T> {
        let momentum = a.momentum != 0.0;
        let step = OptimKernelSgdStep {
            lr: read_scalar(args, at),
            scale: if a.scaled { read_scalar(args, at + 1 + usize::from(momentum)) } else { T::ONE },
            momentum: T::from_f64(a.momentum),
            keep: T::from_f64(1.0 - a.dampening),
            decay: T::from_f64(a.weight_decay),
        };
        if !momentum {
            return OptimKernelStep::Sgd(step);
        }
        OptimKernelStep::Momentum { step, first: read_scalar::<i64>(args, at + 1) == 1, nesterov: a.nesterov }
    }

    /// The step of `a`; its scalars are the operands from `at` on.
    fn adam(a: &Adam, args: &Args<'_>, at: usize) -> OptimKernelStep<T> {
        let scale = if a.scaled { read_scalar(args, at + 2) } else { T::ONE };
        OptimKernelStep::Adam(OptimKernelAdamStep::new(a, read_scalar(args, at), read_scalar(args, at + 1), scale))
    }

    /// Applies the step with gradient rows `g`. p, m and v have rows `n` apart; those that the rule does not use are
    /// empty.
    fn apply<'g>(&self, g: impl Iterator<Item = &'g [T]>, n: usize, [p, m, v]: [&mut [T]; 3]) {
        match *self {
            OptimKernelStep::Sgd(step) => optim_kernel_sgd_plain(step, g, n, p),
            OptimKernelStep::Momentum { step, first, nesterov } => {
                optim_kernel_sgd_momentum(step, first, nesterov, g, n, p, m)
            }
            OptimKernelStep::Adam(step) => optim_kernel_adam(step, g, n, p, m, v),
        }
    }
}

/// The scalar operand `i`.
fn read_scalar<T: bytemuck::Pod>(args: &Args<'_>, i: usize) -> T {
    args.read::<T>(i)[0]
}

/// A parameter and its states: this call's part of the writes, and the whole reads that are not in place.
struct OptimKernelTensors<'a, T> {
    to: [&'a mut [T]; 3],
    from: [Option<&'a [T]>; 3],
    /// First element of this call's part.
    lo: usize,
}

impl<'a, T: Float> OptimKernelTensors<'a, T> {
    /// The tensors of read operands `reads` and write operands from `write` on.
    fn new(args: &mut Args<'a>, reads: &[usize], write: usize, lo: usize) -> OptimKernelTensors<'a, T> {
        let mut all = OptimKernelTensors { to: [&mut [], &mut [], &mut []], from: [None; 3], lo };
        for ((&read, write), (to, from)) in reads.iter().zip(write..).zip(all.to.iter_mut().zip(&mut all.from)) {
            *to = args.write::<T>(write);
            match args.inplace(read) {
                None => *from = Some(args.read::<T>(read)),
                Some(j) => assert!(j == write, "read {read} is in the place of write {j}"),
            }
        }
        all
    }

    /// Elements of this call's part.
    fn len(&self) -> usize {
        self.to[0].len()
    }

    /// Applies `step` with `g`, the gradient of a block.
    fn step<'g>(&mut self, step: &OptimKernelStep<T>, b: OptimKernelBlock, g: impl Iterator<Item = &'g [T]>) {
        let ([p, m, v], from) = (self.to.each_mut(), self.from.map(|from| from.map(|from| &from[self.lo..])));
        step.apply(g, b.step, [b.of(p, from[0]), b.of(m, from[1]), b.of(v, from[2])]);
    }
}

/// A block of this call's part: rows of `cols` elements, `step` apart, starting at `at`.
#[derive(Clone, Copy)]
struct OptimKernelBlock {
    at: usize,
    rows: usize,
    cols: usize,
    step: usize,
}

impl OptimKernelBlock {
    /// The block of a tensor with its values before the step. Empty for a state that the rule does not use.
    fn of<'s, T: Float>(self, to: &'s mut [T], from: Option<&[T]>) -> &'s mut [T] {
        if to.is_empty() {
            return to;
        }
        let whole = self.at..self.at + (self.rows - 1) * self.step + self.cols;
        let to = &mut to[whole.clone()];
        if let Some(from) = from {
            for (to, from) in to.chunks_mut(self.step).zip(from[whole].chunks(self.step)) {
                to[..self.cols].copy_from_slice(&from[..self.cols]);
            }
        }
        to
    }
}

/// Applies `step` to each parameter of a call. Its operands are p, the gradient and the states: `tensors + 1` in all.
fn update_parameters<T: Float>(args: &mut Args<'_>, step: &OptimKernelStep<T>, tensors: usize) {
    let lo = args.units().start * UNIT;
    for i in 0..args.writes() / tensors {
        let read = i * (tensors + 1);
        let g = args.read::<T>(read + 1);
        let mut x = OptimKernelTensors::new(args, &[read, read + 2, read + 3][..tensors], i * tensors, lo);
        for at in (0..x.len()).step_by(UNIT) {
            let cols = UNIT.min(x.len() - at);
            x.step(step, OptimKernelBlock { at, rows: 1, cols, step: cols }, std::iter::once(&g[lo + at..][..cols]));
        }
    }
}

/// One step of SGD: `g = scale·g + weight_decay·p`; `buf = g` in the first step, `momentum·buf + (1 − dampening)·g`
/// later; `p −= lr·buf`, with Nesterov `p −= lr·(g + momentum·buf)`, without momentum `p −= lr·g`.
///
/// Reads p, g: `T[n]`, \[buf: `T[n]`\] of each parameter, then lr: `T[]`, \[t: `i64[]`\], \[scale: `T[]`\]; writes p:
/// `T[n]`, \[buf: `T[n]`\] of each, [`UNIT`] elements a unit, in place of their reads or not; params [`Sgd`].
pub fn sgd_update_kernel<T: Float>(args: &mut Args<'_>) {
    let a = Sgd::from_words(args.params());
    let params = args.writes() / a.optim_kernel_tensors();
    let step = OptimKernelStep::sgd(&a, args, params * (a.optim_kernel_tensors() + 1));
    update_parameters::<T>(args, &step, a.optim_kernel_tensors());
}

by_dtype!(sgd_update_kernel_for = sgd_update_kernel::<floats>);

/// One step of Adam or AdamW: `g = scale·g (+ weight_decay·p)`, `m += (1 − β₁)(g − m)`, `v = β₂·v + (1 − β₂)·g²`,
/// `p = p·(1 − lr·weight_decay) − lr·r/(1 − β₁ᵗ)·m / (√v + ε·r)` with `r = √(1 − β₂ᵗ)`.
///
/// Reads p, g, m, v: `T[n]` of each parameter, then lr: `T[]`, t: `i64[]`, \[scale: `T[]`\]; writes p, m, v: `T[n]` of
/// each, [`UNIT`] elements a unit, in place of their reads or not; params [`Adam`].
pub fn adam_update_kernel<T: Float>(args: &mut Args<'_>) {
    let a = Adam::from_words(args.params());
    let params = args.writes() / ADAM_TENSORS;
    let step = OptimKernelStep::adam(&a, args, params * (ADAM_TENSORS + 1));
    update_parameters::<T>(args, &step, ADAM_TENSORS);
}

by_dtype!(adam_update_kernel_for = adam_update_kernel::<floats>);

#[cfg(test)]
mod tests;
