//! The gated delta rule: T = e^(g_t)·S_(t−1), u = Tᵀk_t, d = β_t·(v_t − u), S_t = T + k_t·dᵀ and o_t = S_tᵀ·q_t /
//! √keys, with a state S `[keys, values]` for each head (Yang et al., "Gated Delta Networks: Improving Mamba2 with
//! Delta Rule", 2024).
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`gated_delta_kernel`] | q, k: `T[batch, steps, heads, keys]`, v: `T[batch, steps, heads, values]`, g, β: `T[batch, steps, heads]`, S_0: `T[batch, heads, keys, values]` if `state` | o: `T[batch, steps, heads, values]`, the last S: `T[batch, heads, keys, values]`, scratch | [`GatedDelta`] |
//!
//! Invariant: each number of u and of o is one chain of `mul_add` over the keys.

use super::sequence_units::{SequenceUnits, sequence_stretch};
use crate::abi::{Args, MatrixMut};
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::matrix_rows::{add_scaled_matrix_row, scale_matrix_row};
use crate::params::params;
use crate::simd;
use crate::vmath;

params! {
    /// Params of the kernels of the gated delta rule.
    pub struct GatedDelta {
        /// Sequences.
        pub batch: usize,
        /// Steps of each.
        pub steps: usize,
        /// Heads, at least 1.
        pub heads: usize,
        /// Elements of a query and of a key, at least 1: rows of a state.
        pub keys: usize,
        /// Elements of a value, at least 1: columns of a state.
        pub values: usize,
        /// Whether S_0 is an operand; else it is 0.
        pub state: bool,
        /// Whether the backward kernel reads the gradient of the last state.
        pub last: bool,
    }
}

impl GatedDelta {
    /// How units divide the heads.
    pub fn units(&self) -> SequenceUnits {
        SequenceUnits { batch: self.batch, channels: self.heads, width: 1 }
    }

    /// Elements of a state.
    pub fn state_len(&self) -> usize {
        self.keys.saturating_mul(self.values)
    }

    /// Elements of scratch for each thread of the forward kernel: d.
    pub fn scratch(&self) -> usize {
        self.values
    }

    /// Steps between two states that the backward kernel keeps.
    pub fn stretch(&self) -> usize {
        sequence_stretch(self.steps)
    }

    /// States that the backward kernel keeps: those before each stretch.
    pub fn stretches(&self) -> usize {
        self.steps.div_ceil(self.stretch())
    }

    /// The factor of the outputs.
    pub(super) fn scale<T: Float>(&self) -> T {
        T::from_f64(1.0 / (self.keys as f64).sqrt())
    }
}

/// The operands of the rule.
#[derive(Clone, Copy)]
pub(super) struct GatedDeltaOperands<'a, T> {
    q: &'a [T],
    k: &'a [T],
    v: &'a [T],
    g: &'a [T],
    beta: &'a [T],
    state: Option<&'a [T]>,
}

/// What one step of a head reads.
pub(super) struct GatedDeltaStep<'a, T> {
    pub q: &'a [T],
    pub k: &'a [T],
    pub v: &'a [T],
    /// e^g.
    pub decay: T,
    pub beta: T,
}

impl<'a, T: Float> GatedDeltaOperands<'a, T> {
    /// The reads from `first` on.
    pub fn read(p: &GatedDelta, args: &Args<'a>, first: usize) -> GatedDeltaOperands<'a, T> {
        let [q, k, v, g, beta] = [0, 1, 2, 3, 4].map(|i| args.read(first + i));
        GatedDeltaOperands { q, k, v, g, beta, state: p.state.then(|| args.read(first + 5)) }
    }

    /// Step `t` of head `h` of sequence `b`.
    #[inline(always)]
    pub fn step(&self, p: &GatedDelta, [b, h]: [usize; 2], t: usize) -> GatedDeltaStep<'a, T> {
        let at = (b * p.steps + t) * p.heads + h;
        let row = |x: &'a [T], n: usize| &x[at * n..(at + 1) * n];
        let (q, k, v) = (row(self.q, p.keys), row(self.k, p.keys), row(self.v, p.values));
        GatedDeltaStep { q, k, v, decay: vmath::exp(self.g[at]), beta: self.beta[at] }
    }

    /// Writes S_0.
    pub fn load_state(&self, p: &GatedDelta, [b, h]: [usize; 2], to: &mut [T]) {
        match self.state {
            Some(state) => to.copy_from_slice(&state[(b * p.heads + h) * p.state_len()..][..p.state_len()]),
            None => to.fill(T::ZERO),
        }
    }
}

impl<T: Float> GatedDeltaStep<'_, T> {
    /// Replaces the state before the step by that after it. Writes d.
    #[inline(always)]
    pub fn advance(&self, state: &mut [T], d: &mut [T]) {
        let values = d.len();
        d.fill(T::ZERO);
        for (row, k) in state.chunks_exact_mut(values).zip(self.k) {
            scale_matrix_row(self.decay, row);
            add_scaled_matrix_row(*k, row, d);
        }
        for (d, v) in d.iter_mut().zip(self.v) {
            *d = self.beta * (*v - *d);
        }
        for (row, k) in state.chunks_exact_mut(values).zip(self.k) {
            add_scaled_matrix_row(*k, d, row);
        }
    }
}

simd! {
    /// All steps of a head. `state` holds S_0, then the last state.
    fn gated_delta_head[T: Float](
        p: &GatedDelta,
        x: &GatedDeltaOperands<'_, T>,
        at: [usize; 2],
        state: &mut [T],
        d: &mut [T],
        o: &mut MatrixMut<'_, T>,
    ) {
        for t in 0..p.steps {
            let (step, o) = (x.step(p, at, t), o.row(t));
            step.advance(state, d);
            o.fill(T::ZERO);
            for (row, q) in state.chunks_exact(p.values).zip(step.q) {
                add_scaled_matrix_row(*q, row, o);
            }
            scale_matrix_row(p.scale(), o);
        }
    }
}

/// The gated delta rule and the last state.
///
/// Reads q, k, v, g, β and S_0 as the head of the file says; writes o and the last state, both divided by
/// [`SequenceUnits::split`], and scratch (`Split::PerThread`, [`GatedDelta::scratch`]); params [`GatedDelta`].
pub fn gated_delta_kernel<T: Float>(args: &mut Args<'_>) {
    let p = GatedDelta::from_words(args.params());
    let (units, x) = (p.units(), GatedDeltaOperands::<T>::read(&p, args, 0));
    let mut o = units.part::<T>(args, 0, p.steps, p.values);
    let mut last = units.part::<T>(args, 1, 1, p.state_len());
    let d = &mut args.write::<T>(2)[..p.scratch()];
    for unit in args.units().map(|unit| units.unit(unit)) {
        for (b, h) in unit.batch.flat_map(|b| unit.channels.clone().map(move |h| (b, h))) {
            let head = h..h + 1;
            let mut state = last.at(b, &head);
            x.load_state(&p, [b, h], state.row(0));
            gated_delta_head(&p, &x, [b, h], state.row(0), d, &mut o.at(b, &head));
        }
    }
}

by_dtype!(gated_delta_kernel_for = gated_delta_kernel::<floats>);
