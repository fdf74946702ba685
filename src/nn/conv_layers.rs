//! Convolutions as layers, transposed ones among them, over one to three axes; their options: those of the ops, and
//! those of the params.
//!
//! `nn::conv2d` takes the options of the op, [`Conv2d`](crate::nodes::Conv2d), and those of the layer, which
//! `.bias(…)`, `.weight_init(…)` and `.bias_init(…)` make of them and the op does not take.

use super::init::uniform_by_fan_in;
use super::inputs::refuse_inputs;
use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::arguments::setters::setters;
use crate::nodes::{Builder, Conv, Conv1d, ConvTranspose, Init, PerAxis, Var};

/// Options of a convolution as a layer over `N` axes, with `P` = 2·`N` sides to pad. Options of the op become options
/// of the layer by `.bias(…)`, `.weight_init(…)` and `.bias_init(…)`.
///
/// ```
/// use arenagrad::prelude::*;
///
/// let g = Builder::new("net");
/// let x = g.input("x", [8, 3, 32, 32], DType::F32);
/// let y = nn::conv2d(&g, "conv", x, 16, 3, Conv2d::default().stride(2).padding(1).bias(false));
/// assert_eq!(*y.dims(), [8, 16, 16, 16]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConvLayer<const N: usize, const P: usize> {
    /// The windows.
    pub conv: Conv<N, P>,
    /// Channels that x must have; `None` takes those of x.
    pub inputs: Option<usize>,
    /// Adds a param `name.bias`.
    pub bias: bool,
    /// Start values of the weight; `None` is torch's default, uniform in ±1/√fan_in.
    pub weight_init: Option<Init>,
    /// Start values of the bias; `None` is torch's default, uniform in ±1/√fan_in.
    pub bias_init: Option<Init>,
}

/// Options of a transposed convolution as a layer over `N` axes, made as those of a [`ConvLayer`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConvTransposeLayer<const N: usize> {
    /// The windows.
    pub conv: ConvTranspose<N>,
    /// As in [`ConvLayer`].
    pub inputs: Option<usize>,
    /// As in [`ConvLayer`].
    pub bias: bool,
    /// As in [`ConvLayer`].
    pub weight_init: Option<Init>,
    /// As in [`ConvLayer`].
    pub bias_init: Option<Init>,
}

/// The methods of a layer's options, and what makes them of the op's options.
macro_rules! layer_options {
    ([$($generics:tt)*] $layer:ident<$($n:ident),*> of $op:ty { $($(#[$doc:meta])* $name:ident: $ty:ty),* $(,)? }) => {
        impl<$($generics)*> From<$op> for $layer<$($n),*> {
            fn from(conv: $op) -> Self {
                $layer { conv, inputs: None, bias: true, weight_init: None, bias_init: None }
            }
        }

        impl<$($generics)*> Default for $layer<$($n),*> {
            fn default() -> Self {
                <$op>::default().into()
            }
        }

        setters! {
            [$($generics)*] $layer<$($n),*> {
                inputs: impl Into<Option<usize>> => inputs.into(),
                bias: bool,
                weight_init: impl Into<Option<Init>> => weight_init.into(),
                bias_init: impl Into<Option<Init>> => bias_init.into(),
            }
        }

        impl<$($generics)*> $layer<$($n),*> {
            $(
            #[doc = concat!("These options with this `", stringify!($name), "` of the windows.")]
            pub fn $name(self, $name: $ty) -> Self {
                $layer { conv: self.conv.$name($name), ..self }
            }
            )*
        }

        to_layer! { [$($generics)*] $op => $layer<$($n),*> }
    };
}

/// The methods that make options of a layer of an op's.
macro_rules! to_layer {
    ([$($generics:tt)*] $op:ty => $layer:ty) => {
        impl<$($generics)*> $op {
            /// Options of a layer whose x must have this number of channels, so that images with the channels last are
            /// an error.
            pub fn inputs(self, inputs: usize) -> $layer {
                <$layer>::from(self).inputs(inputs)
            }

            /// Options of a layer with this `bias`: whether it has a param `name.bias`.
            pub fn bias(self, bias: bool) -> $layer {
                <$layer>::from(self).bias(bias)
            }

            /// Options of a layer with these start values of its weight.
            pub fn weight_init(self, init: Init) -> $layer {
                <$layer>::from(self).weight_init(init)
            }

            /// Options of a layer with these start values of its bias.
            pub fn bias_init(self, init: Init) -> $layer {
                <$layer>::from(self).bias_init(init)
            }
        }
    };
}

layer_options! {
    [const N: usize, const P: usize] ConvLayer<N, P> of Conv<N, P> {
        stride: impl PerAxis<N>,
        padding: impl PerAxis<N>,
        pad: [usize; P],
        dilation: impl PerAxis<N>,
        groups: usize,
    }
}

layer_options! {
    [const N: usize] ConvTransposeLayer<N> of ConvTranspose<N> {
        stride: impl PerAxis<N>,
        padding: impl PerAxis<N>,
        pad: impl PerAxis<N>,
        output_padding: impl PerAxis<N>,
        output_pad: impl PerAxis<N>,
        dilation: impl PerAxis<N>,
        groups: usize,
    }
}

/// The param of a layer of windows.
struct ConvParams<'a, const N: usize> {
    inputs: Option<usize>,
    outputs: usize,
    dims: &'a [usize],
    bias: bool,
    weight_init: Option<Init>,
    bias_init: Option<Init>,
}

/// A layer of windows over `N` axes: makes the params `name.weight` and `name.bias`; `f` applies the weight. One output
/// has a weight of `dims[1..]`.
#[track_caller]
fn conv_layer<'g, const N: usize>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    p: ConvParams<'_, N>,
    f: impl FnOnce(Var<'g>) -> Var<'g>,
) -> Var<'g> {
    g.layer_scope(name, || {
        if let Some(error) = refuse_inputs(name, x, 1, p.inputs) {
            return error;
        }
        let init = conv_weight_init(p.dims);
        let w = g.param(&format!("{name}.weight"), p.dims, x.dtype(), p.weight_init.unwrap_or(init));
        let bias_init = p.bias_init.unwrap_or(init);
        let b = p.bias.then(|| g.param(&format!("{name}.bias"), [p.outputs], x.dtype(), bias_init));
        // A name that is taken, or a size that overflows, leaves no weight; the error is kept.
        if !g.owns(name, &[x]) || !x.is_some() || !w.is_some() || b.is_some_and(|b| !b.is_some()) {
            return g.var(Value::NONE);
        }
        let mut column = [1; 4];
        column[0] = p.outputs;
        let y = f(w);
        b.map_or(y, |b| y + b.reshape(&column[..=N]))
    })
}

/// Start values of a weight whose outputs have `dims[1..]` each.
fn conv_weight_init(dims: &[usize]) -> Init {
    uniform_by_fan_in(dims.iter().skip(1).fold(1, |n, &d| n.saturating_mul(d)))
}

/// A convolution over `N` axes; `f` applies the weight.
#[track_caller]
fn conv_layer_of<'g, const N: usize, const P: usize>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: [usize; N],
    o: &ConvLayer<N, P>,
    f: impl FnOnce(Var<'g>) -> Var<'g>,
) -> Var<'g> {
    let channels = x.dims().get(1).copied().unwrap_or(0) / o.conv.groups.max(1);
    let dims = [&[outputs, channels], &kernel[..]].concat();
    let ConvLayer { inputs, bias, weight_init, bias_init, .. } = *o;
    conv_layer::<N>(g, name, x, ConvParams { inputs, outputs, dims: &dims, bias, weight_init, bias_init }, f)
}

/// 1-D convolution of `x` `[N, C, L]`: params `name.weight` `[outputs, C/groups, kernel…]` and `name.bias`.
#[track_caller]
pub fn conv1d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: impl PerAxis<1>,
    options: impl Into<ConvLayer<1, 2>>,
) -> Var<'g> {
    let o = options.into();
    conv_layer_of(g, name, x, outputs, kernel.per_axis(), &o, |w| x.conv1d(w, o.conv))
}

/// 2-D convolution of `x` `[N, C, H, W]`: params `name.weight` `[outputs, C/groups, kernel…]` and `name.bias`.
#[track_caller]
pub fn conv2d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: impl PerAxis<2>,
    options: impl Into<ConvLayer<2, 4>>,
) -> Var<'g> {
    let o = options.into();
    conv_layer_of(g, name, x, outputs, kernel.per_axis(), &o, |w| x.conv2d(w, o.conv))
}

/// 3-D convolution of `x` `[N, C, D, H, W]`: params `name.weight` `[outputs, C/groups, kernel…]` and `name.bias`.
#[track_caller]
pub fn conv3d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: impl PerAxis<3>,
    options: impl Into<ConvLayer<3, 6>>,
) -> Var<'g> {
    let o = options.into();
    conv_layer_of(g, name, x, outputs, kernel.per_axis(), &o, |w| x.conv3d(w, o.conv))
}

/// Causal depthwise convolution of `x` `[N, C, L]`: each output reads the last `kernel` elements of its own channel, up
/// to its own position. Params: `name.weight` `[C, 1, kernel]` and `name.bias`. The output has the length of `x`.
#[track_caller]
pub fn causal_depthwise_conv1d<'g>(g: &'g Builder, name: &str, x: Var<'g>, kernel: usize) -> Var<'g> {
    let c = x.dims().get(1).copied().unwrap_or(0);
    conv1d(g, name, x, c, kernel, Conv1d { pad: [kernel.saturating_sub(1), 0], groups: c, ..Conv1d::default() })
}

/// Transposed convolution of `x` `[N, C, L]`, as in `torch.nn.ConvTranspose1d`: params `name.weight`
/// `[C, outputs/groups, kernel…]` and `name.bias`.
#[track_caller]
pub fn conv_transpose1d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: impl PerAxis<1>,
    options: impl Into<ConvTransposeLayer<1>>,
) -> Var<'g> {
    let o = options.into();
    conv_transpose_layer_of(g, name, x, outputs, kernel.per_axis(), &o, |w| x.conv_transpose1d(w, o.conv))
}

/// Transposed convolution of `x` `[N, C, H, W]`, as in `torch.nn.ConvTranspose2d`: params `name.weight`
/// `[C, outputs/groups, kernel…]` and `name.bias`.
#[track_caller]
pub fn conv_transpose2d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: impl PerAxis<2>,
    options: impl Into<ConvTransposeLayer<2>>,
) -> Var<'g> {
    let o = options.into();
    conv_transpose_layer_of(g, name, x, outputs, kernel.per_axis(), &o, |w| x.conv_transpose2d(w, o.conv))
}

/// Transposed convolution of `x` `[N, C, D, H, W]`, as in `torch.nn.ConvTranspose3d`: params `name.weight`
/// `[C, outputs/groups, kernel…]` and `name.bias`.
#[track_caller]
pub fn conv_transpose3d<'g>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: impl PerAxis<3>,
    options: impl Into<ConvTransposeLayer<3>>,
) -> Var<'g> {
    let o = options.into();
    conv_transpose_layer_of(g, name, x, outputs, kernel.per_axis(), &o, |w| x.conv_transpose3d(w, o.conv))
}

/// A transposed convolution. As in torch, the fan-in of its start values is counted over the second axis of the weight.
#[track_caller]
fn conv_transpose_layer_of<'g, const N: usize>(
    g: &'g Builder,
    name: &str,
    x: Var<'g>,
    outputs: usize,
    kernel: [usize; N],
    o: &ConvTransposeLayer<N>,
    f: impl FnOnce(Var<'g>) -> Var<'g>,
) -> Var<'g> {
    g.layer_scope(name, || {
        let (inputs, groups) = (x.dims().get(1).copied().unwrap_or(0), o.conv.groups);
        if x.is_some() && (groups == 0 || !outputs.is_multiple_of(groups)) {
            let text = format!("conv_transpose{N}d({x:?}): {outputs} outputs do not divide into {groups} groups");
            return g.fail(Kind::Shape, text);
        }
        let dims = [&[inputs, outputs.checked_div(groups).unwrap_or(0)], &kernel[..]].concat();
        let ConvTransposeLayer { inputs, bias, weight_init, bias_init, .. } = *o;
        conv_layer::<N>(g, name, x, ConvParams { inputs, outputs, dims: &dims, bias, weight_init, bias_init }, f)
    })
}
