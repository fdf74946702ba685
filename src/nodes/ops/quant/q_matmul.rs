//! Matrix products of codes.

use super::int_attrs::{ProductSte, QMatmulAttrs};
use super::int_product::{IntProductSite, check_product_types, lower_requantise, place_sums, sum_kernel_reads};
use crate::ensure;
use crate::kernels::cost_model::CostClass;
use crate::kernels::int_gemm::{IntGemm, int_gemm_kernel, int_gemm_zeros_kernel};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Code, Index, Positive};

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let a = QMatmulAttrs::of(&cx.attrs);
    let (mut dims, w) = (cx.dims(0), cx.rank(1, "w", 2)?);
    ensure!(dims.last() == Some(&w[0]), "x has shape {dims}; its last axis must be {} long, as w is {w}", w[0]);
    check_product_types(cx, &a, w[1], w[0])?;
    if let Some(last) = dims.make_mut().last_mut() {
        *last = w[1];
    }
    cx.result(a.to, &dims)
}

fn lower_node(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (a, y, w) = (QMatmulAttrs::of(&cx.attrs()), cx.out_dims(0), cx.arg_dims(1));
    let (k, n) = (w[0], w[1]);
    let m: usize = y[..y.len() - 1].iter().product();
    let sums = place_sums(cx, &a, m * n);
    let p = IntGemm {
        batch: 1,
        m,
        n,
        k,
        ta: false,
        tb: false,
        a_signed: cx.dtype(0) == DType::I8,
        b_signed: true,
        a_zero: a.x_zp,
        b_zero: a.w_zp,
    };
    let ((split, units), scratch) = (p.division(), cx.scratch(4, p.scratch()));
    let kernel = if a.zeros { int_gemm_zeros_kernel } else { int_gemm_kernel };
    let call = Call::new(kernel, p.to_words(), units).flops(cx.flops()).cost_class(CostClass::PRODUCT_I8);
    let whole = if p.unit_columns().is_some() { 1 } else { 2 };
    cx.call(call.reads(&sum_kernel_reads(cx, &a)).whole(whole).divided(sums, split).scratch(scratch));
    if sums == Buf::Out(0) { Ok(()) } else { lower_requantise(cx, &a, sums, (m, n, 1)) }
}

/// The product as its rules see it.
fn map_product_site<'g, R>(s: &Site<'_, 'g>, f: impl FnOnce(&IntProductSite<'_, 'g>) -> R) -> R {
    f(&IntProductSite { a: &QMatmulAttrs::of(&s.attrs), args: s.args, align: &|per_column| per_column })
}

/// `[.., n]` as `[m, n]`.
fn flatten_to_rows(x: Var<'_>) -> Var<'_> {
    let n = x.dims().last().copied().unwrap_or(1);
    x.reshape([x.dims().iter().rev().skip(1).product(), n])
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    map_product_site(s, |p| {
        let dims = result_dims(s, s.args[1].dims()[1]);
        let sums = flatten_to_rows(p.centred_x(DType::I32)).matmul(p.centred_w(DType::I32)).reshape(dims);
        vec![p.result(sums)]
    })
}

/// `t`, masked if the derivative asks.
fn mask_where_cut<'g>(s: &Site<'_, 'g>, p: &IntProductSite<'_, 'g>, t: Var<'g>) -> Var<'g> {
    if p.a.ste != ProductSte::Masked || p.a.to != DType::I8 {
        return t;
    }
    p.where_kept(s.g.emit1(Op::Q_MATMUL, &p.operands_of_sums(), &p.a.sums().list()), t)
}

/// Of real numbers: ẋ·w + x·ẇ + ḃ. Of codes as numbers, that times the multiplier, with codes for numbers.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    map_product_site(s, |p| {
        let (codes, n) = (p.a.ste == ProductSte::Codes, s.args[1].dims()[1]);
        let shaped = |y: Var<'g>| y.reshape(result_dims(s, n));
        let of_x = t[0].map(|t| {
            let y = shaped(flatten_to_rows(t).matmul(p.centred_w(DType::F32)));
            if codes { y } else { p.by_scale_of_w(y) }
        });
        let of_w = t[1].map(|t| {
            let y = shaped(flatten_to_rows(p.centred_x(DType::F32)).matmul(t));
            if codes { y } else { y * p.a.s_x }
        });
        let of_bias = p.bias().and_then(|_| t[2]).map(|t| t.broadcast(result_dims(s, n)));
        let sum = [of_x, of_w, of_bias].into_iter().flatten().reduce(|a, b| a + b);
        vec![sum.map(|sum| mask_where_cut(s, p, if codes { p.by_multiplier(sum) } else { sum }))]
    })
}

/// The dimensions of the result.
fn result_dims(s: &Site<'_, '_>, n: usize) -> Vec<usize> {
    let mut dims = s.args[0].dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = n;
    }
    dims
}

fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], needed: &[bool]) -> Vec<Option<Var<'g>>> {
    let Some(g) = ct[0] else { return vec![None; s.args.len()] };
    map_product_site(s, |p| {
        let codes = p.a.ste == ProductSte::Codes;
        let g = mask_where_cut(s, p, g);
        let g = if codes { p.by_multiplier(g) } else { g };
        let x = needed[0].then(|| {
            let g = if codes { g } else { p.by_scale_of_w(g) };
            flatten_to_rows(g).matmul_t(p.centred_w(DType::F32), false, true).reshape(s.args[0].dims())
        });
        let w = needed[1].then(|| {
            let w = flatten_to_rows(p.centred_x(DType::F32)).matmul_t(flatten_to_rows(g), true, false);
            if codes { w } else { w * p.a.s_x }
        });
        let bias = p.bias().filter(|_| needed[2]).map(|_| flatten_to_rows(g).sum(0));
        let mut all = vec![x, w, bias];
        all.resize(s.args.len(), None);
        all
    })
}

/// A matrix product of codes.
pub const Q_MATMUL: OpDef = OpDef {
    name: "q_matmul",
    doc: "s = bias + Σₖ (x[.., k] − x_zp)·(w[k, j] − w_zp), exactly, from (x, w[, bias][, zeros][, scales]); y = \
        clamp(round(s·s_x·s_w/s_out) + out_zp, −128, 127), halves to even, or s as i32, which wraps, or s·s_x·s_w as \
        f32; a scale that is not above 0 and finite ends the step; with zeros w_zp[j] is that of column j, with \
        scales s_w[j]; the derivative is that of the real numbers s_x·(x − x_zp), s_w·(w − w_zp), s_x·s_w·bias, \
        s_out·(y − out_zp), 0 where y is cut off with ste=masked, and that of the codes with ste=codes; zeros and \
        scales have none",
    arity: Arity::Between(2, 5),
    attrs: QMatmulAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::QUANT).and(Flags::HEAVY),
    infer: infer_types,
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    // Members with the same weights are more rows of x.
    batch: Batch::Rule(|s| (!s.batched[1..].contains(&true)).then(|| s.site.rebuild_with(s.site.args))),
    decompose: Some(decompose_node),
    lower: Lower::Kernel(lower_node),
    cost: |cx| {
        let d = cx.graph.dims(cx.graph.args_of(cx.node)[0]);
        2 * cx.out().saturating_mul(d.last().copied().unwrap_or(1) as u64)
    },
    cases: &[
        Case {
            args: "i8[2,3] i8[3,2] i32[2]",
            attrs: "x_zp=3 w_zp=-1 out_zp=5 s_x=0.5 s_w=0.2 s_out=600 to=i8 zeros=false scales=false ste=masked",
            domains: &[Code, Code, Index(100)],
        },
        Case {
            args: "u8[2,3,40] i8[40,70]",
            attrs: "x_zp=128 w_zp=0 out_zp=0 s_x=0.5 s_w=0.25 s_out=1 to=f32 zeros=false scales=false ste=plain",
            domains: &[Code],
        },
        Case {
            args: "i8[70,33] i8[33,19] f32[19]",
            attrs: "x_zp=-8 w_zp=0 out_zp=-7 s_x=0.01 s_w=1 s_out=3 to=i8 zeros=false scales=true ste=plain",
            domains: &[Code, Code, Positive],
        },
        Case {
            args: "i8[1,300] i8[300,260] i32[260] f32[260]",
            attrs: "x_zp=0 w_zp=1 out_zp=0 s_x=0.002 s_w=1 s_out=1 to=f32 zeros=false scales=true ste=codes",
            domains: &[Code, Code, Index(9999), Positive],
        },
        Case {
            args: "u8[5] i8[5,3] i32[3]",
            attrs: "x_zp=7 w_zp=0 out_zp=0 s_x=0.1 s_w=2 s_out=1 to=i32 zeros=false scales=false ste=masked",
            domains: &[Code, Code, Index(99)],
        },
        Case {
            args: "i8[3,4] i8[4,5]",
            attrs: "x_zp=0 w_zp=0 out_zp=0 s_x=1 s_w=1 s_out=1 to=i32 zeros=false scales=false ste=codes",
            domains: &[Code],
        },
        Case {
            args: "u8[7,5] i8[5,70] i32[70] i8[70] f32[70]",
            attrs: "x_zp=9 w_zp=0 out_zp=3 s_x=0.05 s_w=1 s_out=2 to=i8 zeros=true scales=true ste=masked",
            domains: &[Code, Code, Index(99), Code, Positive],
        },
        Case {
            args: "i8[2,300] i8[300,260] i8[260]",
            attrs: "x_zp=-1 w_zp=0 out_zp=0 s_x=0.01 s_w=0.02 s_out=1 to=f32 zeros=true scales=false ste=plain",
            domains: &[Code],
        },
        Case {
            args: "i8[3,0] i8[0,5]",
            attrs: "x_zp=0 w_zp=0 out_zp=9 s_x=1 s_w=1 s_out=4 to=i8 zeros=false scales=false ste=masked",
            domains: &[Code],
        },
    ],
    ..OpDef::BLANK
};
