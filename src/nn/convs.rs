//! Convolutions, transposed ones among them, over one to three axes.

use super::init::init_by_fan_in;
use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::{Builder, Conv, Conv2d, Conv3d, ConvTranspose, Init, Var};

/// Options of [`conv1d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv1d {
    /// Distance between windows.
    pub stride: usize,
    /// Number of zeros before and after the axis.
    pub pad: [usize; 2],
    /// Distance between the elements of a window.
    pub dilation: usize,
    /// Number of groups of channels that are convolved independently.
    pub groups: usize,
}

impl Default for Conv1d {
    fn default() -> Conv1d {
        Conv1d { stride: 1, pad: [0, 0], dilation: 1, groups: 1 }
    }
}

/// A layer of windows over `N` axes: makes params `name.weight` of `dims` and `name.bias` of `outputs`; `f` applies the
/// weight. One output has a weight of `dims[1..]`.
#[track_caller]
fn conv_layer<'g, const N: usize>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    dims: &[usize],
    f: impl FnOnce(Var<'g>) -> Var<'g>,
) -> Var<'g> {
    let init = conv_weight_init(dims);
    let w = g.param(&format!("{name}.weight"), dims, x.dtype(), init);
    let b = g.param(&format!("{name}.bias"), [outputs], x.dtype(), init);
    // A name that is taken, or a size that overflows, leaves no weight; the error is kept.
    if !g.owns(name, &[x]) || !x.is_some() || !w.is_some() || !b.is_some() {
        return g.var(Value::NONE);
    }
    let mut column = [1; 4];
    column[0] = outputs;
    g.with_caller(|| f(w) + b.reshape(&column[..=N]))
}

/// Start values of a weight whose outputs have `dims[1..]` each.
fn conv_weight_init(dims: &[usize]) -> Init {
    init_by_fan_in(dims.iter().skip(1).fold(1, |n, &d| n.saturating_mul(d)))
}

/// Channels of `x` that one group of a convolution reads.
fn conv_channels(x: Var<'_>, groups: usize) -> usize {
    x.dims().get(1).copied().unwrap_or(0) / groups.max(1)
}

/// 1-D convolution of `x` `[N, C, L]`: params `name.weight` `[outputs, C/groups, kernel]` and `name.bias`.
#[track_caller]
pub fn conv1d<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize, kernel: usize, o: Conv1d) -> Var<'g> {
    let options = Conv { stride: [o.stride], pad: o.pad, dilation: [o.dilation], groups: o.groups };
    conv_layer::<1>(g, name, x, outputs, &[outputs, conv_channels(x, o.groups), kernel], |w| x.conv1d(w, options))
}

/// 2-D convolution of `x` `[N, C, H, W]`: params `name.weight` `[outputs, C/groups, kernel, kernel]` and `name.bias`.
#[track_caller]
pub fn conv2d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: [usize; 2],
    options: Conv2d,
) -> Var<'g> {
    let dims = [&[outputs, conv_channels(x, options.groups)], &kernel[..]].concat();
    conv_layer::<2>(g, name, x, outputs, &dims, |w| x.conv2d(w, options))
}

/// [`conv2d`] without the param `name.bias`, for a layer that a norm follows.
#[track_caller]
pub fn conv2d_no_bias<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: [usize; 2],
    options: Conv2d,
) -> Var<'g> {
    let dims = [&[outputs, conv_channels(x, options.groups)], &kernel[..]].concat();
    x.conv2d(g.param(&format!("{name}.weight"), &dims, x.dtype(), conv_weight_init(&dims)), options)
}

/// 3-D convolution of `x` `[N, C, D, H, W]`: params `name.weight` `[outputs, C/groups, kernel…]` and `name.bias`.
#[track_caller]
pub fn conv3d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: [usize; 3],
    options: Conv3d,
) -> Var<'g> {
    let dims = [&[outputs, conv_channels(x, options.groups)], &kernel[..]].concat();
    conv_layer::<3>(g, name, x, outputs, &dims, |w| x.conv3d(w, options))
}

/// Causal depthwise convolution of `x` `[N, C, L]`: each output reads the last `kernel` elements of its own channel, up
/// to its own position. Params: `name.weight` `[C, 1, kernel]` and `name.bias`. The output has the length of `x`.
#[track_caller]
pub fn causal_depthwise_conv1d<'g>(g: &'g Builder, name: &str, x: Var<'g>, kernel: usize) -> Var<'g> {
    let c = x.dims().get(1).copied().unwrap_or(0);
    conv1d(g, name, x, c, kernel, Conv1d { pad: [kernel.saturating_sub(1), 0], groups: c, ..Conv1d::default() })
}

/// Options of [`conv_transpose1d`].
pub type ConvTranspose1d = ConvTranspose<1>;

/// Options of [`conv_transpose2d`].
pub type ConvTranspose2d = ConvTranspose<2>;

/// Options of [`conv_transpose3d`].
pub type ConvTranspose3d = ConvTranspose<3>;

/// Transposed convolution of `x` `[N, C, L]`, as `torch.nn.ConvTranspose1d`: params `name.weight`
/// `[C, outputs/groups, kernel…]` and `name.bias`.
#[track_caller]
pub fn conv_transpose1d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: [usize; 1],
    o: ConvTranspose1d,
) -> Var<'g> {
    conv_transposed(g, name, x, outputs, &kernel, o.groups, |w| x.conv_transpose1d(w, o))
}

/// Transposed convolution of `x` `[N, C, H, W]`, as `torch.nn.ConvTranspose2d`: params `name.weight`
/// `[C, outputs/groups, kernel…]` and `name.bias`.
#[track_caller]
pub fn conv_transpose2d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: [usize; 2],
    o: ConvTranspose2d,
) -> Var<'g> {
    conv_transposed(g, name, x, outputs, &kernel, o.groups, |w| x.conv_transpose2d(w, o))
}

/// Transposed convolution of `x` `[N, C, D, H, W]`, as `torch.nn.ConvTranspose3d`: params `name.weight`
/// `[C, outputs/groups, kernel…]` and `name.bias`.
#[track_caller]
pub fn conv_transpose3d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: [usize; 3],
    o: ConvTranspose3d,
) -> Var<'g> {
    conv_transposed(g, name, x, outputs, &kernel, o.groups, |w| x.conv_transpose3d(w, o))
}

/// A transposed convolution. As in torch, the fan-in of its start values is counted over the second axis of the weight.
#[track_caller]
fn conv_transposed<'g, const N: usize>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: &[usize; N],
    groups: usize,
    f: impl FnOnce(Var<'g>) -> Var<'g>,
) -> Var<'g> {
    let inputs = x.dims().get(1).copied().unwrap_or(0);
    if x.is_some() && (groups == 0 || !outputs.is_multiple_of(groups)) {
        let text = format!("conv_transpose{N}d({x:?}): {outputs} outputs do not divide into {groups} groups");
        return g.fail(Kind::Shape, text);
    }
    let dims = [&[inputs, outputs.checked_div(groups).unwrap_or(0)], &kernel[..]].concat();
    conv_layer::<N>(g, name, x, outputs, &dims, f)
}
