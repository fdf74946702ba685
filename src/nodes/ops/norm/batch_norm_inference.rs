//! Batch normalisation by given statistics, along any axis of features. It is plain arithmetic, which fuses into one
//! sweep.

use super::check_eps;
use crate::nodes::arguments::axes::check_axis;
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use Domain::{Positive, Real};

attrs! {
    /// Attributes of [`BATCH_NORM_INFERENCE`].
    pub struct BatchNormInferenceAttrs {
        /// The axis of features, in 0..rank.
        axis: i64,
        /// The term added to the variance.
        eps: f64,
    }
}

/// Normalisation of each feature by given statistics.
pub const BATCH_NORM_INFERENCE: OpDef = OpDef {
    name: "batch_norm_inference",
    doc: "y = γ(x − mean)/√(var + eps) + β with an element of γ, β, mean and var for each position along `axis`; \
          dx = γ·dy/√(var + eps), dγ = Σ dy(x − mean)/√(var + eps), dβ = Σ dy; mean and var have their exact \
          gradients, too",
    arity: Arity::Exactly(5),
    attrs: BatchNormInferenceAttrs::FIELDS,
    flags: Flags::PURE,
    infer: |cx| {
        cx.float(0)?;
        let (d, a) = (cx.dims(0), BatchNormInferenceAttrs::of(&cx.attrs));
        let axis = check_axis(a.axis, d.len())?;
        check_eps(a.eps)?;
        for (i, what) in ["gamma", "beta", "the mean", "the variance"].into_iter().enumerate() {
            cx.same_dtype(0, i + 1)?;
            cx.expect_dims(i + 1, what, &[d[axis]])?;
        }
        cx.same_as(0)
    },
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(|s| {
        let BatchNormInferenceAttrs { axis, eps } = BatchNormInferenceAttrs::of(&s.attrs);
        let x = s.args[0];
        let mut column = vec![1; x.rank() - to_size_attr(axis)];
        column[0] = s.args[1].numel();
        let along = |i: usize| s.args[i].reshape(&column);
        let scale = (s.args[4] + eps).rsqrt() * s.args[1];
        vec![(x - along(3)) * scale.reshape(&column) + along(2)]
    }),
    lower: Lower::Expand,
    cost: |cx| 3 * cx.out(),
    cases: &[
        Case {
            args: "f[3,2,4] f[2] f[2] f[2] f[2]",
            attrs: "axis=1 eps=0.001",
            domains: &[Real, Real, Real, Real, Positive],
        },
        Case { args: "f[5] f[5] f[5] f[5] f[5]", attrs: "axis=0 eps=0", domains: &[Real, Real, Real, Real, Positive] },
        Case {
            args: "f[70,33] f[33] f[33] f[33] f[33]",
            attrs: "axis=1 eps=0.1",
            domains: &[Real, Real, Real, Real, Positive],
        },
        Case {
            args: "f[4,3,3] f[4] f[4] f[4] f[4]",
            attrs: "axis=0 eps=0.00001",
            domains: &[Real, Real, Real, Real, Positive],
        },
        Case {
            args: "f[0,3] f[3] f[3] f[3] f[3]",
            attrs: "axis=1 eps=0.1",
            domains: &[Real, Real, Real, Real, Positive],
        },
    ],
    ..OpDef::BLANK
};
