//! A convolution with what follows it: bias and activation applied while the results are near.

use super::lower;
use crate::ensure;
use crate::nodes::ir::attrs::{Attr, Field, Kind};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, Op, OpDef, Site};
use crate::nodes::ops::common::window::{DILATION, PAD, STRIDE};
use crate::nodes::ops::conv::{flops, forward_infer};
use crate::nodes::ops::matmul::epilogue::{ACT_NAMES, activate};
use Domain::Real;

fn infer(cx: &mut Infer<'_>) -> Result<(), String> {
    cx.same_dtype(0, 2)?;
    let channels = cx.rank(1, "w", 4)?[0];
    ensure!(*cx.dims(2) == [channels], "the bias has shape {}, not [{channels}]", cx.dims(2));
    forward_infer(cx)
}

fn expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let a = &s.attrs;
    let (stride, pad, dilation) = (a.ints(0), a.ints(1), a.ints(2));
    let attrs = [Attr::Ints(&stride), Attr::Ints(&pad), Attr::Ints(&dilation), Attr::Int(a.int(3))];
    let y = s.g.emit1(Op::CONV2D, &s.args[..2], &attrs);
    let channels = s.args[2].dims().numel();
    vec![activate(y + s.args[2].reshape([channels, 1, 1]), a.choice(4))]
}

/// See `doc`.
pub const CONV2D_BIAS_ACT: OpDef = OpDef {
    name: "conv2d_bias_act",
    doc: "y = act(conv2d(x, w) + bias), one number of the bias for each output channel",
    arity: Arity::Exactly(3),
    attrs: &[STRIDE, PAD, DILATION, Field::new("groups", Kind::Int), Field::new("act", ACT_NAMES)],
    flags: Flags::PURE.and(Flags::FUSED),
    infer,
    deriv: Deriv::ViaDecompose,
    decompose: Some(expand),
    lower: Lower::Kernel(lower::conv2d),
    cost: flops,
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
};
