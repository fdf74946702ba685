//! Convolutions in one dimension, and transposed ones, by way of the 2-D op and its gradient.

use super::fan_in;
use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::attrs::Attr;
use crate::nodes::{Builder, Conv2d, Op, Var};

/// Options of [`conv1d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv1d {
    /// Step between windows.
    pub stride: usize,
    /// Zeros before and after.
    pub pad: [usize; 2],
    /// Distance between the taps of a window.
    pub dilation: usize,
    /// Independent groups of channels.
    pub groups: usize,
}

impl Default for Conv1d {
    fn default() -> Conv1d {
        Conv1d { stride: 1, pad: [0, 0], dilation: 1, groups: 1 }
    }
}

/// 1-D convolution of `x` `[N, C, L]`: params `name.weight` `[outputs, C/groups, kernel]` and `name.bias`.
#[track_caller]
pub fn conv1d<'g>(g: &'g Builder, name: &str, x: Var<'g>, outputs: usize, kernel: usize, o: Conv1d) -> Var<'g> {
    let d = x.dims();
    if x.is_some() && d.len() != 3 {
        return g.fail(Kind::Shape, format!("conv1d({x:?}): rank 3 is needed"));
    }
    let channels = d.get(1).copied().unwrap_or(0) / o.groups.max(1);
    let init = fan_in(channels.saturating_mul(kernel));
    let w = g.param(&format!("{name}.weight"), [outputs, channels, kernel], x.dtype(), init);
    let b = g.param(&format!("{name}.bias"), [outputs], x.dtype(), init);
    let options =
        Conv2d { stride: [1, o.stride], pad: [0, 0, o.pad[0], o.pad[1]], dilation: [1, o.dilation], groups: o.groups };
    let flat = |v: Var<'g>| {
        let d = v.dims();
        v.reshape([d[0], d[1], 1, d[2]])
    };
    // A name that is taken, or a size that overflows, leaves no weight; the error is kept.
    if !x.is_some() || !w.is_some() || !b.is_some() {
        return g.var(Value::NONE);
    }
    let y = flat(x).conv2d(flat(w), options);
    if !y.is_some() {
        return y;
    }
    let length = y.dims().last().copied().unwrap_or(0);
    y.reshape([d[0], outputs, length]) + b.reshape([outputs, 1])
}

/// Each channel of `x` `[N, C, L]` convolved with its own `kernel` last elements, nothing later: params `name.weight`
/// `[C, 1, kernel]` and `name.bias`. The length stays.
#[track_caller]
pub fn causal_depthwise_conv1d<'g>(g: &'g Builder, name: &str, x: Var<'g>, kernel: usize) -> Var<'g> {
    let c = x.dims().get(1).copied().unwrap_or(0);
    conv1d(g, name, x, c, kernel, Conv1d { pad: [kernel.saturating_sub(1), 0], groups: c, ..Conv1d::default() })
}

/// Options of [`conv_transpose2d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTranspose2d {
    /// Places between two inputs in the output.
    pub stride: [usize; 2],
    /// What is cut off on each side, down and across.
    pub pad: [usize; 2],
    /// Rows and columns added at the end, fewer than the stride or the dilation.
    pub output_pad: [usize; 2],
    /// Distance between the taps.
    pub dilation: [usize; 2],
    /// Independent groups of channels.
    pub groups: usize,
}

impl Default for ConvTranspose2d {
    fn default() -> ConvTranspose2d {
        ConvTranspose2d { stride: [1, 1], pad: [0, 0], output_pad: [0, 0], dilation: [1, 1], groups: 1 }
    }
}

/// Transposed convolution of `x` `[N, C, H, W]`, as `torch.nn.ConvTranspose2d`: params `name.weight`
/// `[C, outputs/groups, kernel, kernel]` and `name.bias`. It is the input gradient of the convolution with these
/// weights.
#[track_caller]
pub fn conv_transpose2d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: [usize; 2],
    o: ConvTranspose2d,
) -> Var<'g> {
    let d = x.dims();
    if !x.is_some() {
        return x;
    }
    if d.len() != 4 || o.groups == 0 || !outputs.is_multiple_of(o.groups) {
        let text = format!("conv_transpose2d({x:?}): rank 4 is needed, and {outputs} outputs in {} groups", o.groups);
        return g.fail(Kind::Shape, text);
    }
    let size = |i: usize| {
        let full = d[i + 2].saturating_sub(1).saturating_mul(o.stride[i]);
        let taps = o.dilation[i].saturating_mul(kernel[i].saturating_sub(1)).saturating_add(o.output_pad[i]);
        full.saturating_add(taps).saturating_add(1).checked_sub(o.pad[i].saturating_mul(2))
    };
    let fits = (0..2).all(|i| o.output_pad[i] == 0 || o.output_pad[i] < o.stride[i].max(o.dilation[i]));
    let (Some(h), Some(w), true) = (size(0), size(1), fits) else {
        let text = format!(
            "conv_transpose2d({x:?}): padding {:?} and output padding {:?} do not fit kernel {kernel:?} and stride {:?}",
            o.pad, o.output_pad, o.stride
        );
        return g.fail(Kind::Shape, text);
    };
    let channels = outputs / o.groups;
    let init = fan_in(channels.saturating_mul(kernel[0]).saturating_mul(kernel[1]));
    let weight = g.param(&format!("{name}.weight"), [d[1], channels, kernel[0], kernel[1]], x.dtype(), init);
    let bias = g.param(&format!("{name}.bias"), [outputs], x.dtype(), init);
    let wide = |l: &[usize]| l.iter().map(|&v| i64::try_from(v).unwrap_or(i64::MAX)).collect::<Vec<_>>();
    let pad = wide(&[o.pad[0], o.pad[0], o.pad[1], o.pad[1]]);
    let (lead, stride, dilation) = (wide(&[h, w]), wide(&o.stride), wide(&o.dilation));
    let attrs = [
        Attr::Ints(&lead),
        Attr::Ints(&stride),
        Attr::Ints(&pad),
        Attr::Ints(&dilation),
        Attr::Int(i64::try_from(o.groups).unwrap_or(i64::MAX)),
    ];
    g.emit1(Op::CONV2D_INPUT_GRAD, &[x, weight], &attrs) + bias.reshape([outputs, 1, 1])
}
