//! A convolution with an epilogue: bias and activation, applied while the results are in cache.

use super::lower;
use crate::ensure;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::conv::attrs::{ConvAttrs, ConvBiasActAttrs};
use crate::nodes::ops::conv::conv2d::{self, infer_output_image};
use Domain::Real;

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    cx.same_dtype(0, 2)?;
    let channels = cx.rank(1, "w", 4)?[0];
    ensure!(*cx.dims(2) == [channels], "the bias has shape {}, not [{channels}]", cx.dims(2));
    let a = ConvAttrs::from(ConvBiasActAttrs::of(&cx.attrs));
    infer_output_image(cx, &a)
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let a = ConvBiasActAttrs::of(&s.attrs);
    let act = a.act;
    let y = s.g.emit1(Op::CONV2D, &s.args[..2], &ConvAttrs::from(a).list());
    let channels = s.args[2].dims().numel();
    vec![act.apply(y + s.args[2].reshape([channels, 1, 1]))]
}

/// A 2-D convolution with bias and activation in its epilogue.
pub const CONV2D_BIAS_ACT: OpDef = OpDef {
    name: "conv2d_bias_act",
    doc: "y = act(conv2d(x, w) + bias), one number of the bias for each output channel",
    arity: Arity::Exactly(3),
    attrs: ConvBiasActAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED).and(Flags::HEAVY),
    infer: infer_types,
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_node),
    lower: Lower::Kernel(lower::emit_conv2d),
    cost: conv2d::count_flops,
    cases: &[
        Case {
            args: "f[2,3,5,6] f[4,3,3,2] f[4]",
            attrs: "stride=[1,1] pad=[0,0,0,0] dilation=[1,1] groups=1 act=none",
            domains: &[Real],
        },
        Case {
            args: "f[2,4,7,6] f[6,2,3,3] f[6]",
            attrs: "stride=[2,1] pad=[1,0,2,1] dilation=[1,2] groups=2 act=relu",
            domains: &[Real],
        },
        Case {
            args: "f[1,3,5,5] f[3,1,3,3] f[3]",
            attrs: "stride=[2,2] pad=[1,1,1,1] dilation=[1,1] groups=3 act=gelu",
            domains: &[Real],
        },
        Case {
            args: "f[3,2,4,4] f[5,2,1,1] f[5]",
            attrs: "stride=[1,1] pad=[0,0,0,0] dilation=[1,1] groups=1 act=silu",
            domains: &[Real],
        },
        Case {
            args: "f[40,2,6,5] f[9,2,3,3] f[9]",
            attrs: "stride=[1,1] pad=[1,1,1,1] dilation=[1,1] groups=1 act=tanh",
            domains: &[Real],
        },
    ],
    ..OpDef::BLANK
};
