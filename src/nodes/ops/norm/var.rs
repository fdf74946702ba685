//! Norms as methods of [`Var`], as torch names them.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::norm::batch_norm_inference::BatchNormInferenceAttrs;
use crate::nodes::ops::norm::{GroupNormAttrs, NormAttrs};

impl<'g> Var<'g> {
    /// Layer normalisation, as in `torch.nn.LayerNorm`: γ(x − mean)/√(var + eps) + β with the biased variance, over the
    /// trailing axes that `gamma` and `beta` have. All are `f32` or all `f64`.
    #[track_caller]
    pub fn layer_norm(self, gamma: Var<'g>, beta: Var<'g>, eps: f64) -> Var<'g> {
        self.trailing_norm(Op::LAYER_NORM, gamma, beta, eps)
    }

    /// Normalisation by the root mean square, as in `torch.nn.RMSNorm` with a bias: γx/√(mean(x²) + eps) + β, over the
    /// trailing axes that `gamma` and `beta` have.
    #[track_caller]
    pub fn rms_norm(self, gamma: Var<'g>, beta: Var<'g>, eps: f64) -> Var<'g> {
        self.trailing_norm(Op::RMS_NORM, gamma, beta, eps)
    }

    #[track_caller]
    fn trailing_norm(self, op: Op, gamma: Var<'g>, beta: Var<'g>, eps: f64) -> Var<'g> {
        let name = if op == Op::RMS_NORM { "rms_norm" } else { "layer_norm" };
        let own = self.g.owns(name, &[gamma, beta]);
        if !own || !self.is_some() || !gamma.is_some() || !beta.is_some() {
            return self.g.var(Value::NONE);
        }
        let (d, n) = (self.dims(), gamma.dims());
        if n.is_empty() || !d.ends_with(&n) || beta.dims() != n {
            let text = format!("{name}: gamma {n} and beta {} are not the last axes of {d}", beta.dims());
            return self.g.fail(Kind::Shape, text);
        }
        let flat = [&d[..d.len() - n.len()], &[n.numel()]].concat();
        let args = [self.reshape(flat), gamma.reshape([n.numel()]), beta.reshape([n.numel()])];
        self.g.emit1(op, &args, &NormAttrs { eps }.list()).reshape(d)
    }

    /// Normalisation of each of `groups` runs of channels (axis 1) of each sample, as in `torch.nn.GroupNorm`. `gamma`
    /// and `beta` have an element for each channel. `groups` must divide the channels.
    #[track_caller]
    pub fn group_norm(self, groups: usize, gamma: Var<'g>, beta: Var<'g>, eps: f64) -> Var<'g> {
        let attrs = GroupNormAttrs { groups: i64::try_from(groups).unwrap_or(i64::MAX), eps };
        self.g.emit1(Op::GROUP_NORM, &[self, gamma, beta], &attrs.list())
    }

    /// Normalisation of each channel (axis 1) over the batch and the other axes: y, then the mean and the biased
    /// variance of each channel. `gamma` and `beta` have an element for each channel. [`crate::nn::batch_norm`] is the
    /// layer with moving averages.
    #[track_caller]
    pub fn batch_norm(self, gamma: Var<'g>, beta: Var<'g>, eps: f64) -> [Var<'g>; 3] {
        let all = self.g.emit(Op::BATCH_NORM, &[self, gamma, beta], &NormAttrs { eps }.list());
        [all[0], all[1], all[2]]
    }
}

impl<'g> Var<'g> {
    /// Normalisation of each feature by given statistics: γ(x − mean)/√(var + eps) + β, as in
    /// `torch.nn.functional.batch_norm` outside of training. `gamma`, `beta` and the `statistics` (mean, variance) have
    /// an element for each position along `axis`, which torch fixes at 1. All are `f32` or all `f64`, and all get
    /// gradients.
    #[track_caller]
    pub fn batch_norm_inference(
        self,
        gamma: Var<'g>,
        beta: Var<'g>,
        statistics: [Var<'g>; 2],
        axis: i64,
        eps: f64,
    ) -> Var<'g> {
        self.on_axis(Op::BATCH_NORM_INFERENCE, axis, |axis| {
            let args = [self, gamma, beta, statistics[0], statistics[1]];
            self.g.emit1(Op::BATCH_NORM_INFERENCE, &args, &BatchNormInferenceAttrs { axis, eps }.list())
        })
    }

    /// x / (k + alpha·m)^beta of x `[N, C, …]`, m being the sum of squares over `size` neighbouring channels (size / 2
    /// before, the rest after; missing ones count as 0) divided by `size`, as in `torch.nn.LocalResponseNorm`. torch's
    /// defaults are alpha 1e-4, beta 0.75, k 1. Source: Krizhevsky et al., "ImageNet classification with deep
    /// convolutional neural networks".
    #[track_caller]
    pub fn local_response_norm(self, size: usize, alpha: f64, beta: f64, k: f64) -> Var<'g> {
        let d = self.dims();
        if !self.is_some() {
            return self;
        }
        if d.len() < 3 || size == 0 || !self.dtype().is_float() {
            let why = format!("size {size}; floats [N, C, …] of rank 3 or more, and a size of 1 or more are needed");
            return self.refuse("local_response_norm", why);
        }
        self.g.with_caller(|| {
            let (mut low, mut high) = (vec![0; d.len()], vec![0; d.len()]);
            // Channels beyond all others add nothing.
            (low[1], high[1]) = ((size / 2).min(d[1]), ((size - 1) / 2).min(d[1]));
            let squares = (self * self).pad(&low, &high, 0.0);
            let near = (0..=low[1] + high[1]).map(|at| squares.narrow(1, at, d[1]));
            let sum = near.reduce(|a, b| a + b).unwrap_or(self);
            self / (sum * (alpha / size as f64) + k).pow(beta)
        })
    }
}
