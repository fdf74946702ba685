//! Attention in plain ops: the decompositions, and the tangents. All of it works on
//! `[batch, kv_heads, heads of q for each kv head, sequence, width]`.
//!
//! Invariant: a select sets masked scores to −∞, and a query that sees no key gets finite scores before the softmax. So
//! no derivative of any order computes ∞ − ∞ or 0·∞. Only the op definitions use this file.

use super::attrs::AttentionAttrs;
use super::geometry::{AttentionGeometry, Optional, find_optional_operands};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ir::site::Site;
use crate::nodes::ops::random::attrs::DrawAttrs;

/// The scores of a node, with the parts of their derivative.
pub struct Scores<'g> {
    pub geo: AttentionGeometry,
    pub q: Var<'g>,
    pub k: Var<'g>,
    pub v: Var<'g>,
    /// tanh(scale·q·kᵀ / softcap), if there is a softcap.
    bent: Option<Var<'g>>,
    /// The operand of the exponential: scores with bias.
    x: Var<'g>,
    /// Which scores count.
    seen: Var<'g>,
    /// The mask of the probabilities that dropout keeps, and their factor.
    kept: Option<(Var<'g>, f64)>,
}

/// Σ over keys, which keep an axis of 1.
fn sum_over_keys<'g>(x: Var<'g>) -> Var<'g> {
    x.reduce(Op::REDUCE_SUM, 4, true)
}

impl<'g> Scores<'g> {
    /// The scores of a node whose q is operand `first` and whose optional operands begin at `rest`. After an error:
    /// `None`.
    pub fn new(s: &Site<'_, 'g>, first: usize, rest: usize) -> Option<Scores<'g>> {
        let [q, k, v] = [0, 1, 2].map(|i| s.args[first + i]);
        let attrs = AttentionAttrs::of(&s.attrs);
        let geo = AttentionGeometry::of(&[q.dims(), k.dims(), v.dims()], &attrs).ok()?;
        let Optional { padding, bias, key, .. } = find_optional_operands(&attrs, rest);
        let (q, k, v) = (geo.split(q, geo.heads), geo.split(k, geo.kv_heads), geo.split(v, geo.kv_heads));
        let raw = q.matmul_t(k, false, true) * geo.scale;
        let bent = (geo.cap > 0.0).then(|| (raw * (1.0 / geo.cap)).tanh());
        let x = bent.map_or(raw, |t| t * geo.cap);
        let bias = bias.map(|i| geo.grouped_bias(s.args[i]));
        let (mask, bias) = bias.map_or((None, None), |b| match b.dtype() {
            DType::Bool => (Some(b), None),
            _ => (None, Some(b)),
        });
        let x = bias.map_or(x, |bias| x + bias);
        let mut seen = x.not_equal(f64::NEG_INFINITY);
        if let Some(mask) = mask {
            seen = seen.logical_and(mask);
        }
        if geo.causal {
            seen = seen.logical_and(geo.visible_band(s));
        }
        if let Some(i) = padding {
            let keep = s.args[i];
            let keep = if keep.dtype() == DType::Bool { keep } else { keep.greater_equal(0.5) };
            seen = seen.logical_and(keep.reshape([geo.batch, 1, 1, 1, geo.keys]));
        }
        let kept = key.map(|i| draw_kept(&attrs, s.args[i], x));
        Some(Scores { geo, q, k, v, bent, x, seen, kept })
    }

    /// y and the log-sum-exp.
    pub fn forward(&self) -> Vec<Var<'g>> {
        let x = self.x;
        let any = sum_over_keys(self.seen.cast(x.dtype())).greater(0.0);
        let none = x.full_like(f64::NEG_INFINITY);
        // A row without keys enters the softmax as zeros, whatever its scores.
        let x = any.select(self.seen.select(x, none), x.full_like(0.0));
        // Without a key, no sum is defined, and none is read.
        let lse = if self.geo.keys == 0 { sum_over_keys(x) } else { x.reduce(Op::LOGSUMEXP, 4, true) };
        let y = self.drop((x - lse).exp()).matmul(self.v);
        let y = any.select(y, y.full_like(0.0));
        let lse = any.select(lse, lse.full_like(f64::NEG_INFINITY));
        vec![self.geo.join(y), self.geo.score_rows(lse)]
    }

    /// The probabilities, from the log-sum-exp.
    fn weights(&self, lse: Var<'g>) -> Var<'g> {
        let (x, lse) = (self.x, self.geo.score_column(lse));
        let seen = self.seen.logical_and(lse.not_equal(f64::NEG_INFINITY));
        seen.select(x - lse, x.full_like(f64::NEG_INFINITY)).exp()
    }

    /// Probabilities, or values linear in them, with dropout applied.
    fn drop(&self, w: Var<'g>) -> Var<'g> {
        self.kept.map_or(w, |(kept, scale)| kept.select(w * scale, w.full_like(0.0)))
    }

    /// Carries a gradient or a tangent across the softcap: times 1 − tanh².
    fn bend(&self, x: Var<'g>) -> Var<'g> {
        self.bent.map_or(x, |t| x * (1.0 - t * t))
    }

    /// dq, dk, dv, and the gradient of the scores, which is that of the bias.
    pub fn backward(&self, dy: Var<'g>, y: Var<'g>, lse: Var<'g>, dlse: Option<Var<'g>>) -> [Var<'g>; 4] {
        let geo = &self.geo;
        let (dy, y, w) = (geo.split(dy, geo.heads), geo.split(y, geo.heads), self.weights(lse));
        let delta = sum_over_keys(dy * y);
        let delta = dlse.map_or(delta, |d| delta - geo.score_column(d));
        let ds = w * (self.drop(dy.matmul_t(self.v, false, true)) - delta);
        let dot = self.bend(ds) * geo.scale;
        let dq = dot.matmul(self.k);
        let dk = dot.matmul_t(self.q, true, false).unbroadcast(&self.k.dims());
        let dv = self.drop(w).matmul_t(dy, true, false).unbroadcast(&self.v.dims());
        let dbias = ds.reshape([geo.batch, geo.heads, geo.queries, geo.keys]);
        [geo.join(dq), geo.join(dk), geo.join(dv), dbias]
    }

    /// Tangents of y and the log-sum-exp, from those of q, k, v and the bias:
    /// l̇ = rowsum(P⊙ẋ), ẏ = drop(P⊙ẋ)·v − l̇·y + drop(P)·v̇.
    pub fn jvp(&self, outs: &[Var<'g>], t: [Option<Var<'g>>; 4]) -> Vec<Option<Var<'g>>> {
        let (geo, w) = (&self.geo, self.weights(outs[1]));
        let [q, k, v, bias] = t;
        let q = q.map(|q| geo.split(q, geo.heads).matmul_t(self.k, false, true));
        let k = k.map(|k| self.q.matmul_t(geo.split(k, geo.kv_heads), false, true));
        let dot = [q, k].into_iter().flatten().reduce(|a, b| a + b).map(|dot| self.bend(dot * geo.scale));
        let x = [dot, bias.map(|b| geo.grouped_bias(b))].into_iter().flatten().reduce(|a, b| a + b);
        let moved = x.map(|x| {
            let wx = w * x;
            let lse = sum_over_keys(wx);
            (self.drop(wx).matmul(self.v) - geo.split(outs[0], geo.heads) * lse, lse)
        });
        let through = v.map(|v| self.drop(w).matmul(geo.split(v, geo.kv_heads)));
        let y = [moved.map(|m| m.0), through].into_iter().flatten().reduce(|a, b| a + b);
        vec![y.map(|y| geo.join(y)), moved.map(|m| geo.score_rows(m.1))]
    }
}

/// Which probabilities are not dropped, beside the scores `x`, and what those are multiplied by: the `f32` draws of
/// `[batch, heads, queries, keys]`.
fn draw_kept<'g>(attrs: &AttentionAttrs, key: Var<'g>, x: Var<'g>) -> (Var<'g>, f64) {
    let p = attrs.dropout;
    let draw = DrawAttrs { stream: attrs.stream, dtype: DType::F32, shape: x.ty().shape };
    let draw = key.g.emit1(Op::RNG_UNIFORM, &[key], &draw.list());
    (draw.greater_equal(p), if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 })
}

/// The operands of a node that have a tangent: q, k, v, and the bias.
pub fn score_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> [Option<Var<'g>>; 4] {
    let bias = find_optional_operands(&AttentionAttrs::of(&s.attrs), 3).bias.and_then(|i| t[i]);
    [t[0], t[1], t[2], bias]
}
