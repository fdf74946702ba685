//! 2-D convolutions of codes.

use super::int_attrs::{ProductSte, QConvAttrs};
use super::int_product::{IntProductSite, check_product_types, lower_requantise, place_sums, sum_kernel_reads};
use crate::kernels::conv::ConvGeom;
use crate::kernels::cost_model::CostClass;
use crate::kernels::int_gemm::{IntConv, int_conv_kernel, int_conv_zeros_kernel};
use crate::nodes::ir::batch::BatchSite;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::conv::check_input_channels;
use crate::nodes::ops::conv::convolution;
use Domain::{Code, Index, Positive};

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let a = QConvAttrs::of(&cx.attrs);
    let conv = a.conv();
    conv.check::<2>()?;
    let (x, w) = (cx.rank(0, "x", 4)?, cx.rank(1, "w", 4)?);
    check_input_channels(&conv, &x, &w)?;
    let [ho, wo] = convolution::of_dims(&x, &w, &conv).count()?;
    check_product_types(cx, &a.product(), w[0], w[1..].iter().product())?;
    cx.result(a.to, &[x[0], w[0], ho, wo])
}

fn lower_node(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (attrs, y) = (QConvAttrs::of(&cx.attrs()), cx.out_dims(0));
    let a = attrs.product();
    let c = convolution::of_dims(&cx.arg_dims(0), &cx.arg_dims(1), &attrs.conv());
    let sums = place_sums(cx, &a, y.numel());
    let p = IntConv {
        images: c.n,
        groups: c.groups,
        channels: c.c_in / c.groups.max(1),
        m: c.c_out / c.groups.max(1),
        windows: c.windows,
        x_signed: cx.dtype(0) == DType::I8,
        x_zero: a.x_zp,
        w_zero: a.w_zp,
    };
    let scratch = cx.scratch(4, p.scratch());
    let kernel = if a.zeros { int_conv_zeros_kernel } else { int_conv_kernel };
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::PRODUCT_I8);
    cx.call(call.reads(&sum_kernel_reads(cx, &a)).whole(2).writes(sums, p.per_unit()).scratch(scratch));
    if sums == Buf::Out(0) {
        Ok(())
    } else {
        lower_requantise(cx, &a, sums, (c.n, c.c_out, c.windows.out().iter().product()))
    }
}

/// `[channels]` as `[channels, 1, 1]`.
fn align_channels(x: Var<'_>) -> Var<'_> {
    x.reshape([x.numel(), 1, 1])
}

/// The convolution and the product as the rules see them.
fn map_product_site<'g, R>(s: &Site<'_, 'g>, f: impl FnOnce(&ConvGeom, &IntProductSite<'_, 'g>) -> R) -> R {
    let attrs = QConvAttrs::of(&s.attrs);
    let c = convolution::of_dims(&s.args[0].dims(), &s.args[1].dims(), &attrs.conv());
    f(&c, &IntProductSite { a: &attrs.product(), args: s.args, align: &align_channels })
}

/// The convolution in `f64`, which holds all sums exactly.
fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    map_product_site(s, |c, p| {
        let sums = convolution::forward(c, p.centred_x(DType::F64), p.centred_w(DType::F64)).cast(DType::I32);
        vec![p.result(sums)]
    })
}

/// `t`, masked if the derivative asks.
fn mask_where_cut<'g>(s: &Site<'_, 'g>, p: &IntProductSite<'_, 'g>, t: Var<'g>) -> Var<'g> {
    if p.a.ste != ProductSte::Masked || p.a.to != DType::I8 {
        return t;
    }
    p.where_kept(s.g.emit1(Op::Q_CONV2D, &p.operands_of_sums(), &QConvAttrs::of(&s.attrs).sums().list()), t)
}

/// As the tangent of `q_matmul`.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    map_product_site(s, |c, p| {
        let codes = p.a.ste == ProductSte::Codes;
        let of_x = t[0].map(|t| {
            let y = convolution::forward(c, t, p.centred_w(DType::F32));
            if codes { y } else { p.by_scale_of_w(y) }
        });
        let of_w = t[1].map(|t| {
            let y = convolution::forward(c, p.centred_x(DType::F32), t);
            if codes { y } else { y * p.a.s_x }
        });
        let of_bias = p.bias().and_then(|_| t[2]).map(|t| align_channels(t).broadcast(s.outs[0].dims()));
        let sum = [of_x, of_w, of_bias].into_iter().flatten().reduce(|a, b| a + b);
        vec![sum.map(|sum| mask_where_cut(s, p, if codes { p.by_multiplier(sum) } else { sum }))]
    })
}

fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], needed: &[bool]) -> Vec<Option<Var<'g>>> {
    let Some(g) = ct[0] else { return vec![None; s.args.len()] };
    map_product_site(s, |c, p| {
        let codes = p.a.ste == ProductSte::Codes;
        let g = mask_where_cut(s, p, g);
        let g = if codes { p.by_multiplier(g) } else { g };
        let x = needed[0].then(|| {
            let g = if codes { g } else { p.by_scale_of_w(g) };
            convolution::input_grad(c, g, p.centred_w(DType::F32))
        });
        let w = needed[1].then(|| {
            let w = convolution::weight_grad(c, p.centred_x(DType::F32), g);
            if codes { w } else { w * p.a.s_x }
        });
        let bias = p.bias().filter(|_| needed[2]).map(|_| g.sum([0, 2, 3]));
        let mut all = vec![x, w, bias];
        all.resize(s.args.len(), None);
        all
    })
}

/// Images of members with the same weights are more images.
fn batch_node<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    if s.batched[1..].contains(&true) {
        return None;
    }
    let x = s.site.args[0];
    let (images, rest) = (x.axis_len(1)?, &s.site.args[1..]);
    let y = s.site.rebuild_with(&[&[x.flatten(0, 1)], rest].concat());
    Some(y.into_iter().map(|y| y.unflatten(0, &[s.size, images])).collect())
}

/// A 2-D convolution of codes.
pub const Q_CONV2D: OpDef = OpDef {
    name: "q_conv2d",
    doc: "as q_matmul, with the sums of conv2d over x − x_zp and w − w_zp (x NCHW, w [O, C/groups, kh, kw], bias, \
        zeros and scales [O]); places beyond the edge count as x_zp, so they contribute 0",
    arity: Arity::Between(2, 5),
    attrs: QConvAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::QUANT).and(Flags::HEAVY),
    infer: infer_types,
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Rule(batch_node),
    decompose: Some(decompose_node),
    lower: Lower::Kernel(lower_node),
    cost: |cx| {
        let w = cx.graph.dims(cx.graph.args_of(cx.node)[1]);
        2 * cx.out().saturating_mul(w.iter().skip(1).product::<usize>() as u64)
    },
    cases: CONV_CASES,
    ..OpDef::BLANK
};

/// Cases of [`Q_CONV2D`]: edges, steps, dilation, groups, one channel a group, windows of one place.
const CONV_CASES: &[Case] = &[
    Case {
        args: "i8[2,3,5,6] i8[4,3,3,2] i32[4]",
        attrs: "stride=[1,1] pad=[1,1,1,1] dilation=[1,1] groups=1 x_zp=3 w_zp=-1 out_zp=5 s_x=0.5 s_w=0.2 s_out=600 \
            to=i8 zeros=false scales=false ste=masked",
        domains: &[Code, Code, Index(100)],
    },
    Case {
        args: "u8[2,4,7,6] i8[6,2,3,3] f32[6]",
        attrs: "stride=[2,1] pad=[1,0,2,1] dilation=[1,2] groups=2 x_zp=128 w_zp=0 out_zp=0 s_x=0.01 s_w=1 s_out=1 \
            to=f32 zeros=false scales=true ste=plain",
        domains: &[Code, Code, Positive],
    },
    Case {
        args: "i8[1,3,5,5] i8[3,1,3,3] i32[3] f32[3]",
        attrs: "stride=[2,2] pad=[1,1,1,1] dilation=[1,1] groups=3 x_zp=-5 w_zp=2 out_zp=-9 s_x=0.01 s_w=1 s_out=4 \
            to=i8 zeros=false scales=true ste=codes",
        domains: &[Code, Code, Index(100), Positive],
    },
    Case {
        args: "u8[2,4,5,5] i8[6,2,3,3] i8[6] f32[6]",
        attrs: "stride=[1,2] pad=[1,0,1,1] dilation=[1,1] groups=2 x_zp=9 w_zp=0 out_zp=1 s_x=0.05 s_w=1 s_out=2 \
            to=i8 zeros=true scales=true ste=masked",
        domains: &[Code, Code, Code, Positive],
    },
    Case {
        args: "i8[3,2,4,4] i8[5,2,1,1]",
        attrs: "stride=[1,1] pad=[0,0,0,0] dilation=[1,1] groups=1 x_zp=0 w_zp=0 out_zp=0 s_x=1 s_w=1 s_out=1 to=i32 \
            zeros=false scales=false ste=masked",
        domains: &[Code],
    },
];
