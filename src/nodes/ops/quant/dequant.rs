//! Coded weights as numbers, and products with them.

use super::coded_weights::{CodedWeightSite, check_weight_operands};
use super::weight_attrs::{DequantAttrs, DequantMatmulAttrs};
use crate::ensure;
use crate::kernels::cost_model::CostClass;
use crate::kernels::dequant::{CodeScheme, DequantMatmul, dequant_kernel_for, dequant_matmul_kernel_for};
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::ir::batch::BatchSite;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Code, Index, Real};

/// The parameters of the kernels for weights whose operands begin at operand `first`.
fn kernel_params(cx: &LowerCx<'_>, a: &DequantAttrs, first: usize) -> DequantMatmul {
    let (scheme, n) = (a.scheme.kernel(), cx.arg_dims(first + 1)[1]);
    let at = CodeScheme::ALL.iter().position(|s| *s == scheme).unwrap_or_default();
    let zeros = scheme.has_zeros() && cx.args() > first + 2;
    DequantMatmul { m: 0, k: to_size_attr(a.k), n, scheme: at, block: to_size_attr(a.block), zeros, transposed: false }
}

fn lower_weights(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = kernel_params(cx, &DequantAttrs::of(&cx.attrs()), 0);
    let call = Call::new(dequant_kernel_for(cx.out(0).dtype)?, p.to_words(), p.units()).flops(cx.flops());
    cx.call(call.reads_args(cx.args()).writes(Buf::Out(0), p.per_unit()).cost_class(CostClass::DEQUANT));
    Ok(())
}

fn lower_matmul(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let a = DequantMatmulAttrs::of(&cx.attrs());
    let (y, transposed) = (cx.out_dims(0), a.transposed);
    let p = kernel_params(cx, &a.into(), 1);
    let m = y[..y.len() - 1].iter().product();
    let p = DequantMatmul { m, transposed, ..p };
    let (dtype, (split, units)) = (cx.dtype(0), p.gemm().decoded_division());
    let len = if dtype == DType::F64 { p.scratch::<f64>() } else { p.scratch::<f32>() };
    let scratch = cx.scratch(dtype.size(), len);
    let class = if dtype == DType::F64 { CostClass::PRODUCT_F64 } else { CostClass::PRODUCT };
    let call = Call::new(dequant_matmul_kernel_for(dtype)?, p.to_words(), units).flops(cx.flops()).cost_class(class);
    cx.call(call.reads_args(cx.args()).whole(1).divided(Buf::Out(0), split).scratch(scratch));
    Ok(())
}

/// Coded weights as numbers.
pub const DEQUANT: OpDef = OpDef {
    name: "dequant",
    doc: "w[p, j] = (code[p, j] − zero[p/block, j])·scale[p/block, j], from (codes, scales[, zeros]) or, for nvfp4, \
        (codes, codes of scales, a number that multiplies all scales); the derivative with respect to a code is its \
        scale, to packed codes 0",
    arity: Arity::Between(2, 3),
    attrs: DequantAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::QUANT),
    infer: |cx| {
        let (k, n, dtype) = check_weight_operands(cx, 0, &DequantAttrs::of(&cx.attrs))?;
        cx.result(dtype, &[k, n])
    },
    deriv: Deriv::Rules(
        |s, t| vec![CodedWeightSite { a: &DequantAttrs::of(&s.attrs), args: s.args }.tangent(t)],
        |s, ct, needed| match ct[0] {
            Some(g) => CodedWeightSite { a: &DequantAttrs::of(&s.attrs), args: s.args }.cotangents(g, needed),
            None => vec![None; s.args.len()],
        },
    ),
    batch: Batch::Members,
    decompose: Some(|s| vec![CodedWeightSite { a: &DequantAttrs::of(&s.attrs), args: s.args }.in_simpler_ops()]),
    lower: Lower::Kernel(lower_weights),
    cost: |cx| 2 * cx.out(),
    cases: &[
        Case { args: "i8[4,2] f[2,2] f[2,2]", attrs: "scheme=int8 block=2 k=4", domains: &[Code, Real] },
        Case { args: "i8[7,33] f[3,33]", attrs: "scheme=int8 block=3 k=7", domains: &[Code, Real] },
        Case { args: "u8[11] f[3,3]", attrs: "scheme=int4 block=3 k=7", domains: &[Code, Real] },
        Case { args: "u8[64] f[1,16] f[1,16]", attrs: "scheme=int4 block=32 k=8", domains: &[Code, Real] },
        Case { args: "u8[5,19] f[2,19]", attrs: "scheme=fp8_e4m3 block=4 k=5", domains: &[Index(124), Real] },
        Case { args: "u8[5,4] f[1,4]", attrs: "scheme=fp8_e5m2 block=5 k=5", domains: &[Index(124), Real] },
        Case { args: "u8[170] u8[2,17] f[]", attrs: "scheme=nvfp4 block=16 k=20", domains: &[Code, Index(100), Real] },
        Case { args: "i8[0,3] f[0,3]", attrs: "scheme=int8 block=2 k=0", domains: &[Code, Real] },
    ],
    ..OpDef::BLANK
};

/// The result of a rule of `dequant_matmul`: the product of `x` with the same weights, or with their transpose.
fn multiply_same_weights<'g>(s: &Site<'_, 'g>, x: Var<'g>, transposed: bool) -> Var<'g> {
    let args = [&[x], &s.args[1..]].concat();
    s.g.emit1(Op::DEQUANT_MATMUL, &args, &DequantMatmulAttrs { transposed, ..DequantMatmulAttrs::of(&s.attrs) }.list())
}

/// `[.., n]` as `[m, n]`.
fn flatten_rows(x: Var<'_>) -> Var<'_> {
    let n = x.dims().last().copied().unwrap_or(1);
    x.reshape([x.dims().iter().rev().skip(1).product(), n])
}

/// x · w, or x · wᵀ, of any number of leading axes.
fn multiply_rows<'g>(x: Var<'g>, w: Var<'g>, transposed: bool) -> Var<'g> {
    let y = flatten_rows(x).matmul_t(w, false, transposed);
    let (mut dims, n) = (x.dims().to_vec(), y.dims()[1]);
    if let Some(last) = dims.last_mut() {
        *last = n;
    }
    y.reshape(dims)
}

fn decompose_matmul<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let a = DequantMatmulAttrs::of(&s.attrs);
    let transposed = a.transposed;
    let w = s.g.emit1(Op::DEQUANT, &s.args[1..], &DequantAttrs::from(a).list());
    vec![multiply_rows(s.args[0], w, transposed)]
}

/// Each term of the tangent is a product with one tangent.
fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let a = DequantMatmulAttrs::of(&s.attrs);
    let transposed = a.transposed;
    let of_x = t[0].map(|t| multiply_same_weights(s, t, transposed));
    let of_w = CodedWeightSite { a: &a.into(), args: &s.args[1..] }.tangent(&t[1..]);
    let of_w = of_w.map(|w| multiply_rows(s.args[0], w, transposed));
    vec![of_x.into_iter().chain(of_w).reduce(|a, b| a + b)]
}

fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], needed: &[bool]) -> Vec<Option<Var<'g>>> {
    let Some(g) = ct[0] else { return vec![None; s.args.len()] };
    let a = DequantMatmulAttrs::of(&s.attrs);
    let transposed = a.transposed;
    let mut all = vec![needed[0].then(|| multiply_same_weights(s, g, !transposed))];
    if needed[1..].iter().any(|n| *n) {
        let (x, g) = (flatten_rows(s.args[0]), flatten_rows(g));
        let of_w = if transposed { g.matmul_t(x, true, false) } else { x.matmul_t(g, true, false) };
        all.extend(CodedWeightSite { a: &a.into(), args: &s.args[1..] }.cotangents(of_w, &needed[1..]));
    }
    all.resize(s.args.len(), None);
    all
}

/// Members with the same weights are more rows of x.
fn batch_matmul<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let shared = !s.batched[1..].contains(&true);
    shared.then(|| s.site.rebuild_with(s.site.args))
}

/// A matrix product with coded weights.
pub const DEQUANT_MATMUL: OpDef = OpDef {
    name: "dequant_matmul",
    doc: "y = x·w, or x·wᵀ if `transposed`, from x[.., k] (or x[.., n]) and the operands of `dequant`, whose result \
        w[k, n] is decoded part by part and never stored",
    arity: Arity::Between(3, 4),
    attrs: DequantMatmulAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::QUANT).and(Flags::HEAVY),
    infer: |cx| {
        let a = DequantMatmulAttrs::of(&cx.attrs);
        let transposed = a.transposed;
        let (k, n, dtype) = check_weight_operands(cx, 1, &a.into())?;
        ensure!(cx.dtype(0) == dtype, "x is {}, and the scales are {dtype}; cast one of them", cx.dtype(0));
        let mut dims = cx.dims(0);
        let (inner, outer) = if transposed { (n, k) } else { (k, n) };
        ensure!(dims.last() == Some(&inner), "x has shape {dims}; its last axis must be {inner} long");
        if let Some(last) = dims.make_mut().last_mut() {
            *last = outer;
        }
        cx.result(dtype, &dims)
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::Rule(batch_matmul),
    decompose: Some(decompose_matmul),
    lower: Lower::Kernel(lower_matmul),
    cost: |cx| {
        let d = cx.graph.dims(cx.graph.args_of(cx.node)[0]);
        2 * cx.out().saturating_mul(d.last().copied().unwrap_or(1) as u64)
    },
    cases: MATMUL_CASES,
    ..OpDef::BLANK
};

/// Cases of [`DEQUANT_MATMUL`]: every scheme, odd rows of nibbles, blocks that do not divide k, one row and many.
const MATMUL_CASES: &[Case] = &[
    Case {
        args: "f[2,4] i8[4,2] f[2,2] f[2,2]",
        attrs: "scheme=int8 block=2 k=4 transposed=false",
        domains: &[Real, Code, Real],
    },
    Case {
        args: "f[70,20] i8[20,33] f[2,33]",
        attrs: "scheme=int8 block=16 k=20 transposed=false",
        domains: &[Real, Index(20), Real],
    },
    Case {
        args: "f[2,3,3] u8[11] f[3,3] f[3,3]",
        attrs: "scheme=int4 block=3 k=7 transposed=true",
        domains: &[Real, Code, Real],
    },
    Case {
        args: "f[1,40] u8[5600] f[2,280]",
        attrs: "scheme=int4 block=32 k=40 transposed=false",
        domains: &[Real, Code, Real],
    },
    Case {
        args: "f[5] u8[5,19] f[2,19]",
        attrs: "scheme=fp8_e4m3 block=4 k=5 transposed=false",
        domains: &[Real, Index(124), Real],
    },
    Case {
        args: "f[3,5] u8[5,4] f[1,4]",
        attrs: "scheme=fp8_e5m2 block=5 k=5 transposed=false",
        domains: &[Real, Index(124), Real],
    },
    Case {
        args: "f[3,20] u8[170] u8[2,17] f[]",
        attrs: "scheme=nvfp4 block=16 k=20 transposed=false",
        domains: &[Real, Code, Index(100), Real],
    },
    Case {
        args: "f[2,0] i8[0,3] f[0,3]",
        attrs: "scheme=int8 block=2 k=0 transposed=false",
        domains: &[Real, Code, Real],
    },
];
