//! Normalising layers. Params are called as torch calls them: `weight` starts at one, `bias` at zero.

use super::inputs::refuse_inputs;
use crate::error::Kind;
use crate::nodes::arguments::setters::setters;
use crate::nodes::{Builder, DType, Init, Var};

fn norm_layer_weight<'g>(g: &'g Builder, name: &str, x: Var<'g>, n: usize) -> Var<'g> {
    g.param(&format!("{name}.weight"), [n], x.dtype(), Init::Ones)
}

fn norm_layer_affine<'g>(g: &'g Builder, name: &str, x: Var<'g>, n: usize) -> [Var<'g>; 2] {
    [norm_layer_weight(g, name, x, n), g.param(&format!("{name}.bias"), [n], x.dtype(), Init::Zeros)]
}

fn norm_layer_width(x: Var<'_>) -> usize {
    x.dims().last().copied().unwrap_or(0)
}

fn norm_layer_channels(x: Var<'_>) -> usize {
    x.dims().get(1).copied().unwrap_or(0)
}

/// Layer normalisation over the last axis: params `name.weight` and `name.bias`.
#[track_caller]
pub fn layer_norm<'g>(g: &'g Builder, name: &str, x: Var<'g>, eps: f64) -> Var<'g> {
    g.layer_scope(name, || {
        let [w, b] = norm_layer_affine(g, name, x, norm_layer_width(x));
        x.layer_norm(w, b, eps)
    })
}

/// [`layer_norm`] without the param `name.bias`.
#[track_caller]
pub fn layer_norm_no_bias<'g>(g: &'g Builder, name: &str, x: Var<'g>, eps: f64) -> Var<'g> {
    g.layer_scope(name, || {
        let n = norm_layer_width(x);
        x.layer_norm(norm_layer_weight(g, name, x, n), g.full(0.0, [n], x.dtype()), eps)
    })
}

/// Root-mean-square normalisation over the last axis: param `name.weight`.
#[track_caller]
pub fn rms_norm<'g>(g: &'g Builder, name: &str, x: Var<'g>, eps: f64) -> Var<'g> {
    g.layer_scope(name, || {
        let n = norm_layer_width(x);
        x.rms_norm(norm_layer_weight(g, name, x, n), g.full(0.0, [n], x.dtype()), eps)
    })
}

/// Group normalisation of `x` `[N, C, …]`: params `name.weight` and `name.bias`, `[C]`.
#[track_caller]
pub fn group_norm<'g>(g: &'g Builder, name: &str, x: Var<'g>, groups: usize, eps: f64) -> Var<'g> {
    g.layer_scope(name, || {
        let [w, b] = norm_layer_affine(g, name, x, norm_layer_channels(x));
        x.group_norm(groups, w, b, eps)
    })
}

/// Normalisation of each channel of each sample of `x` `[N, C, …]`, without params, as torch's default.
#[track_caller]
pub fn instance_norm<'g>(g: &'g Builder, x: Var<'g>, eps: f64) -> Var<'g> {
    let c = norm_layer_channels(x);
    x.group_norm(c, g.full(1.0, [c], x.dtype()), g.full(0.0, [c], x.dtype()), eps)
}

/// Layer normalisation over the channels of `x` `[N, C, H, W]`, at each pixel: params `name.weight` and `name.bias`,
/// `[C]`.
#[track_caller]
pub fn layer_norm2d<'g>(g: &'g Builder, name: &str, x: Var<'g>, eps: f64) -> Var<'g> {
    g.layer_scope(name, || {
        if x.is_some() && x.rank() != 4 {
            return g.fail(Kind::Shape, format!("layer_norm2d({x:?}): rank 4 is needed"));
        }
        layer_norm(g, name, x.transpose(&[0, 2, 3, 1]), eps).transpose(&[0, 3, 1, 2])
    })
}

/// Options of [`batch_norm`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BatchNorm {
    /// Channels that x must have; `None` takes those of x.
    pub inputs: Option<usize>,
    /// Term added to the variance.
    pub eps: f64,
    /// The weight of a batch in the running statistics, as torch counts it.
    pub momentum: f64,
    /// If true, normalises by the batch's own statistics and updates the running ones, unless the builder builds for
    /// evaluation ([`Builder::training`]). If false, normalises by the running ones.
    pub training: bool,
}

impl Default for BatchNorm {
    /// torch's defaults: ε = 1e-5, momentum 0.1, training.
    fn default() -> BatchNorm {
        BatchNorm { inputs: None, eps: 1e-5, momentum: 0.1, training: true }
    }
}

setters! {
    [] BatchNorm { inputs: impl Into<Option<usize>> => inputs.into(), eps: f64, momentum: f64, training: bool }
}

/// Batch normalisation of `x` `[N, C, …]` as in `torch.nn.BatchNorm1d` to `3d`: params `name.weight`, `name.bias`,
/// buffers `name.running_mean`, `name.running_var` (unbiased) and `name.num_batches_tracked`. Training and inference
/// programs share them by name, and files of weights hold them. Of two calls of one layer in a graph
/// ([`Builder::reuse`]), the second continues the running statistics of the first, as in torch.
#[track_caller]
pub fn batch_norm<'g>(g: &'g Builder, name: &str, x: Var<'g>, options: BatchNorm) -> Var<'g> {
    g.layer_scope(name, || {
        if let Some(error) = refuse_inputs(name, x, 1, options.inputs) {
            return error;
        }
        let (c, m) = (norm_layer_channels(x), options.momentum);
        let [w, b] = norm_layer_affine(g, name, x, c);
        let state = |what: &str, init| g.buffer(&format!("{name}.{what}"), [c], x.dtype(), init);
        let (mean, var) = (state("running_mean", Init::Zeros), state("running_var", Init::Ones));
        let count = g.buffer(&format!("{name}.num_batches_tracked"), [], DType::I64, Init::Zeros);
        if !options.training || !g.is_training() {
            // An earlier call in this graph may have updated them.
            return x.batch_norm_inference(w, b, [mean, var].map(|v| g.updated(v)), 1, options.eps);
        }
        let [y, now_mean, now_var] = x.batch_norm(w, b, options.eps);
        let n = (x.numel() / c.max(1)) as f64;
        if x.is_some() && n < 2.0 {
            return g.fail(Kind::Shape, format!("batch_norm({x:?}): a channel of one value has no variance"));
        }
        let unbiased = now_var * (n / (n - 1.0));
        g.update_with(mean, |mean| (mean * (1.0 - m) + now_mean * m).stop_gradient());
        g.update_with(var, |var| (var * (1.0 - m) + unbiased * m).stop_gradient());
        g.update_with(count, |count| count + count.full_like(1.0));
        y
    })
}
