//! Optimiser updates by torch's formulas, to a few last places (SGD in its order of operations): one instruction per
//! parameter, or one for several small ones.
//!
//! Invariant: parameters and moments are updated element by element, so in place and out of place give the same bits.
//! Moments below [`Float::MIN_POSITIVE`] are flushed to zero: denormals would make idle parameters cost many times
//! more than busy ones. For the lowering of the optimiser ops.
//!
//! | kernel | reads | writes (each in place of the read of its name, or not) | params |
//! |---|---|---|---|
//! | [`sgd_update`] | p, g, \[buf\] of each parameter; \[t\], lr, \[scale\] | p, \[buf\] of each | [`Sgd`] |
//! | [`adam_update`] | p, g, m, v of each parameter; lr, t, \[scale\] | p, m, v of each | [`Adam`] |
//!
//! `lr` and `scale` are `T[]`; `t` is `i64[]`, 1 in the first step. Operands in brackets are there as the params say,
//! and those after them move up where they are not.
//!
//! [`Float::MIN_POSITIVE`]: crate::kernels::float::Float::MIN_POSITIVE

use crate::kernels::abi::Args;
use crate::kernels::num::Real;
use crate::kernels::params::params;
use crate::simd;

/// Elements in one unit.
pub const UNIT: usize = 1024;

params! {
    /// Params of [`sgd_update`].
    pub struct Sgd {
        /// Elements of the parameter; of several, of the largest.
        pub len: usize,
        /// μ; the operands `buf` and `t` are there if it is not 0.
        pub momentum: f64,
        /// What the gradient loses on its way into the buffer.
        pub dampening: f64,
        /// Whether the step looks ahead along the buffer.
        pub nesterov: bool,
        /// L2 penalty, added to the gradient.
        pub weight_decay: f64,
        /// Whether the operand `scale` is there; the gradient is multiplied by it first.
        pub scaled: bool,
    }
}

impl Sgd {
    /// Elements of each output in each unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.len.div_ceil(UNIT)
    }
}

params! {
    /// Params of [`adam_update`].
    pub struct Adam {
        /// Elements of the parameter; of several, of the largest.
        pub len: usize,
        /// Decay of the first moment.
        pub beta1: f64,
        /// Decay of the second moment.
        pub beta2: f64,
        /// Added to the denominator, after the bias correction.
        pub eps: f64,
        /// Weight decay: an L2 penalty in the gradient, or a shrinking of the parameter if decoupled.
        pub weight_decay: f64,
        /// AdamW: `p *= 1 − lr·weight_decay` before the update.
        pub decoupled: bool,
        /// Whether the operand `scale` is there; the gradient is multiplied by it first.
        pub scaled: bool,
    }
}

impl Adam {
    /// Elements of each output in each unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.len.div_ceil(UNIT)
    }
}

/// 0 in place of a denormal number; NaN stays.
#[inline(always)]
fn flush<T: Real>(x: T) -> T {
    if x.abs() < T::MIN_POSITIVE { T::ZERO } else { x }
}

/// The gradient with its L2 penalty. None is not the same as one of 0: it leaves infinite parameters alone.
#[inline(always)]
fn decayed<T: Real>(g: T, p: T, decay: T) -> T {
    if decay == T::ZERO { g } else { g + p * decay }
}

/// What one step of SGD needs, rounded to the parameter's type.
#[derive(Clone, Copy)]
struct SgdStep<T> {
    lr: T,
    scale: T,
    momentum: T,
    keep: T,
    decay: T,
}

simd! {
    fn sgd_plain[T: Real](s: SgdStep<T>, p: &mut [T], g: &[T]) {
        for (p, g) in p.iter_mut().zip(g) {
            let g = decayed(*g * s.scale, *p, s.decay);
            *p -= s.lr * g;
        }
    }
}

simd! {
    fn sgd_momentum[T: Real](s: SgdStep<T>, first: bool, nesterov: bool, p: &mut [T], g: &[T], buf: &mut [T]) {
        for ((p, g), buf) in p.iter_mut().zip(g).zip(buf) {
            let g = decayed(*g * s.scale, *p, s.decay);
            *buf = flush(if first { g } else { *buf * s.momentum + g * s.keep });
            *p -= s.lr * if nesterov { g + *buf * s.momentum } else { *buf };
        }
    }
}

/// What one step of Adam needs, rounded to the parameter's type.
#[derive(Clone, Copy)]
struct AdamStep<T> {
    scale: T,
    /// L2 penalty in the gradient.
    decay: T,
    /// Factor of the parameter before the update.
    shrink: T,
    beta1: T,
    one_less_beta1: T,
    beta2: T,
    one_less_beta2: T,
    /// −lr·√(1 − β₂ᵗ)/(1 − β₁ᵗ), and ε·√(1 − β₂ᵗ): torch divides √v by that root, which would be a second division of
    /// each element.
    minus_step: T,
    eps: T,
}

impl<T: Real> AdamStep<T> {
    /// The constants of step `t`, computed in `f64` as torch does.
    fn new(a: &Adam, lr: T, t: i64, scale: T) -> AdamStep<T> {
        let f = T::from_f64;
        let t = t as f64;
        let (correction1, correction2) = (1.0 - a.beta1.powf(t), 1.0 - a.beta2.powf(t));
        AdamStep {
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
    fn adam[T: Real](s: AdamStep<T>, p: &mut [T], g: &[T], m: &mut [T], v: &mut [T]) {
        // torch's lerp starts from the nearer end.
        let near = s.one_less_beta1.to_f64() < 0.5;
        for (((p, g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
            let g = decayed(*g * s.scale, *p, s.decay);
            let to_g = g - *m;
            *m = flush(if near { *m + to_g * s.one_less_beta1 } else { g - to_g * s.beta1 });
            *v = flush(*v * s.beta2 + s.one_less_beta2 * g * g);
            *p = *p * s.shrink + s.minus_step * *m / (v.sqrt() + s.eps);
        }
    }
}

/// The source of a written operand: `None` where it is written in place.
fn source<'a, T: Real>(args: &Args<'a>, read: usize, write: usize) -> Option<&'a [T]> {
    match args.inplace(read) {
        None => Some(args.read::<T>(read)),
        Some(j) => {
            assert!(j == write, "read {read} is in the place of write {j}");
            None
        }
    }
}

/// Copies one block from where it is read to where it is updated, unless that is one place.
fn bring<T: Real>(source: Option<&[T]>, at: usize, block: &mut [T]) {
    if let Some(x) = source {
        block.copy_from_slice(&x[at..at + block.len()]);
    }
}

/// The scalar operand `i`.
fn scalar<T: bytemuck::Pod>(args: &Args<'_>, i: usize) -> T {
    args.read::<T>(i)[0]
}

/// One step of SGD: `g = scale·g + weight_decay·p`; `buf = g` in the first step, `momentum·buf + (1 − dampening)·g`
/// later; `p −= lr·buf`, with Nesterov `p −= lr·(g + momentum·buf)`, without momentum `p −= lr·g`.
///
/// Reads p, g: `T[n]`, \[buf: `T[n]`\] of each parameter, then \[t: `i64[]`\], lr: `T[]`, \[scale: `T[]`\]; writes p: `T[n]`,
/// \[buf: `T[n]`\] of each, [`Sgd::per_unit`], in place of their reads or not; params [`Sgd`].
pub fn sgd_update<T: Real>(args: &mut Args<'_>) {
    let a = Sgd::from_words(args.params());
    let momentum = a.momentum != 0.0;
    let params = args.writes() / (1 + usize::from(momentum));
    let t_at = params * (2 + usize::from(momentum));
    let lr_at = t_at + usize::from(momentum);
    let step = SgdStep {
        lr: scalar(args, lr_at),
        scale: if a.scaled { scalar(args, lr_at + 1) } else { T::ONE },
        momentum: T::from_f64(a.momentum),
        keep: T::from_f64(1.0 - a.dampening),
        decay: T::from_f64(a.weight_decay),
    };
    let first = momentum && scalar::<i64>(args, t_at) == 1;
    let lo = args.units().start * UNIT;
    for i in 0..params {
        if momentum {
            momentum_step(args, i, step, first, a.nesterov);
            continue;
        }
        let (p_from, g) = (source::<T>(args, 2 * i, i), args.read::<T>(2 * i + 1));
        for (p, at) in args.write::<T>(i).chunks_mut(UNIT).zip((lo..).step_by(UNIT)) {
            bring(p_from, at, p);
            sgd_plain(step, p, &g[at..at + p.len()]);
        }
    }
}

/// The step of parameter `i` where there is momentum.
fn momentum_step<T: Real>(args: &mut Args<'_>, i: usize, step: SgdStep<T>, first: bool, nesterov: bool) {
    let (read, write, lo) = (3 * i, 2 * i, args.units().start * UNIT);
    let (p_from, g) = (source::<T>(args, read, write), args.read::<T>(read + 1));
    let buf_from = source::<T>(args, read + 2, write + 1);
    let (p, buf) = (args.write::<T>(write), args.write::<T>(write + 1));
    for ((p, buf), at) in p.chunks_mut(UNIT).zip(buf.chunks_mut(UNIT)).zip((lo..).step_by(UNIT)) {
        bring(p_from, at, p);
        bring(buf_from, at, buf);
        sgd_momentum(step, first, nesterov, p, &g[at..at + p.len()], buf);
    }
}

/// One step of Adam or AdamW: `g = scale·g (+ weight_decay·p)`, `m += (1 − β₁)(g − m)`, `v = β₂·v + (1 − β₂)·g²`,
/// `p = p·(1 − lr·weight_decay) − lr·r/(1 − β₁ᵗ)·m / (√v + ε·r)` with `r = √(1 − β₂ᵗ)`.
///
/// Reads p, g, m, v: `T[n]` of each parameter, then lr: `T[]`, t: `i64[]`, \[scale: `T[]`\]; writes p, m, v: `T[n]` of
/// each, [`Adam::per_unit`], in place of their reads or not; params [`Adam`].
pub fn adam_update<T: Real>(args: &mut Args<'_>) {
    let a = Adam::from_words(args.params());
    let params = args.writes() / 3;
    let lr_at = 4 * params;
    let scale = if a.scaled { scalar(args, lr_at + 2) } else { T::ONE };
    let step = AdamStep::new(&a, scalar(args, lr_at), scalar(args, lr_at + 1), scale);
    let lo = args.units().start * UNIT;
    for (read, write) in (0..params).map(|i| (4 * i, 3 * i)) {
        let (p_from, g) = (source::<T>(args, read, write), args.read::<T>(read + 1));
        let (m_from, v_from) = (source::<T>(args, read + 2, write + 1), source::<T>(args, read + 3, write + 2));
        let (p, m, v) = (args.write::<T>(write), args.write::<T>(write + 1), args.write::<T>(write + 2));
        let moments = m.chunks_mut(UNIT).zip(v.chunks_mut(UNIT));
        for ((p, (m, v)), at) in p.chunks_mut(UNIT).zip(moments).zip((lo..).step_by(UNIT)) {
            bring(p_from, at, p);
            bring(m_from, at, m);
            bring(v_from, at, v);
            adam(step, p, &g[at..at + p.len()], m, v);
        }
    }
}

#[cfg(test)]
mod tests;
