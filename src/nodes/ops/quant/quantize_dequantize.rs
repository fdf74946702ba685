//! Real numbers to codes, and codes to real numbers.

use super::attrs::{CodeSte, DequantizeAttrs, QuantizeAttrs};
use super::scale::{align_to_axis, batch_quant_operands, check_quant_params, guard_positive};
use crate::ensure;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Index, Positive, Real};

/// Options of [`Var::quantize`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quantize {
    /// The axis whose positions have a scale and a zero point each. Without one there is one of each. The default is
    /// none.
    pub axis: Option<i64>,
    /// The dtype of the codes, `i8` or `u8`.
    pub to: DType,
    /// The lowest and the highest code.
    pub range: (i64, i64),
    /// The derivative. The default is [`CodeSte::Clip`].
    pub ste: CodeSte,
}

impl Quantize {
    /// Codes −128 to 127.
    pub fn i8() -> Quantize {
        Quantize { axis: None, to: DType::I8, range: (-128, 127), ste: CodeSte::Clip }
    }

    /// Codes 0 to 255.
    pub fn u8() -> Quantize {
        Quantize { to: DType::U8, range: (0, 255), ..Quantize::i8() }
    }
}

setters! {
    [] Quantize { axis: impl Into<Option<i64>> => axis.into(), range: (i64, i64), ste: CodeSte }
}

/// round(x·(1/s)) + z, before it is cut off to a range. A product with the reciprocal has torch's bits.
pub(super) fn quantize_unclamped<'g>(x: Var<'g>, scale: Var<'g>, zero: Option<Var<'g>>, axis: Option<i64>) -> Var<'g> {
    let steps = (x * guard_positive(scale, x, axis).recip()).round();
    zero.map_or(steps, |z| steps + align_to_axis(z.cast(x.dtype()), x, axis))
}

/// `t` where `code` is in `lo..=hi`, and an exact 0 elsewhere.
pub(super) fn quantize_inside_range<'g>(code: Var<'g>, lo: i64, hi: i64, t: Var<'g>) -> Var<'g> {
    let inside = code.greater_equal(lo as f64).logical_and(code.less_equal(hi as f64));
    inside.select(t, t.full_like(0.0))
}

fn decompose_quantize<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (x, a) = (s.args[0], QuantizeAttrs::of(&s.attrs));
    let code = quantize_unclamped(x, s.args[1], s.args.get(2).copied(), a.axis);
    let zero = match s.args.get(2) {
        Some(z) => align_to_axis(z.cast(x.dtype()), x, a.axis).broadcast(x.dims()),
        None => x.full_like(0.0),
    };
    vec![code.isnan().select(zero, code).clamp(a.lo as f64, a.hi as f64).cast(a.to)]
}

/// `t` times the derivative of the real number with respect to x.
fn quantize_straight_through<'g>(s: &Site<'_, 'g>, t: Var<'g>) -> Var<'g> {
    let a = QuantizeAttrs::of(&s.attrs);
    match a.ste {
        CodeSte::Identity => t,
        CodeSte::Clip => {
            let code = quantize_unclamped(s.args[0], s.args[1], s.args.get(2).copied(), a.axis);
            quantize_inside_range(code, a.lo, a.hi, t)
        }
    }
}

/// Codes of real numbers.
pub const QUANTIZE: OpDef = OpDef {
    name: "quantize",
    doc: "q = clamp(round(x·(1/s)) + z, lo, hi), halves to even, NaN to z, with scale s and zero point z (0 without \
        one); the derivative of s·(q − z) with respect to x is 1, and with ste=clip 0 where q is cut off",
    arity: Arity::Between(2, 3),
    attrs: QuantizeAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::QUANT).and(Flags::ZERO_POINT),
    infer: |cx| {
        let a = QuantizeAttrs::of(&cx.attrs);
        let dtype = cx.float(0)?;
        check_quant_params(cx, a.axis)?;
        ensure!(cx.dtype(1) == dtype, "the scale is {}, and x is {dtype}; cast one of them", cx.dtype(1));
        ensure!(matches!(a.to, DType::I8 | DType::U8), "codes are i8 or u8, not {}", a.to);
        let held = a.to.holds(a.lo as f64) && a.to.holds(a.hi as f64);
        ensure!(a.lo < a.hi && held, "{}..={} is no range of {}", a.lo, a.hi, a.to);
        let dims = cx.dims(0);
        cx.result(a.to, &dims)
    },
    deriv: Deriv::Rules(
        |s, t| vec![t[0].map(|t| quantize_straight_through(s, t).cast(DType::F32))],
        |s, ct, _| {
            let x = ct[0].map(|g| quantize_straight_through(s, g.cast(s.args[0].dtype())));
            [x, None, None].into_iter().take(s.args.len()).collect()
        },
    ),
    batch: Batch::Rule(|s| {
        let a = QuantizeAttrs::of(&s.site.attrs);
        let (args, axis) = batch_quant_operands(s, a.axis, &[1, 2])?;
        s.emit(&args, &QuantizeAttrs { axis, ..a }.list())
    }),
    decompose: Some(decompose_quantize),
    lower: Lower::Expand,
    cost: |cx| 5 * cx.out(),
    cases: &[
        Case { args: "f[3,5] f[]", attrs: "to=i8 lo=-128 hi=127 ste=clip", domains: &[Real, Positive] },
        Case { args: "f[3,5] f[] i32[]", attrs: "to=u8 lo=0 hi=2 ste=clip", domains: &[Real, Positive, Index(3)] },
        Case { args: "f[3,5,2] f[5] i32[5]", attrs: "axis=1 to=i8 lo=-1 hi=1 ste=identity", domains: SCALED },
        Case { args: "f[4,300] f[300]", attrs: "axis=1 to=i8 lo=-1 hi=1 ste=clip", domains: &[Real, Positive] },
        Case { args: "f[0,3] f[3]", attrs: "axis=1 to=i8 lo=-8 hi=7 ste=clip", domains: &[Real, Positive] },
        Case { args: "f[] f[]", attrs: "to=i8 lo=-128 hi=127 ste=identity", domains: &[Real, Positive] },
    ],
    ..OpDef::BLANK
};

const SCALED: &[Domain] = &[Real, Positive, Index(5)];

fn decompose_dequantize<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (q, scale, axis) = (s.args[0], s.args[1], DequantizeAttrs::of(&s.attrs).axis);
    let q = q.cast(scale.dtype());
    let centred = s.args.get(2).map_or(q, |z| q - align_to_axis(z.cast(scale.dtype()), q, axis));
    vec![centred * guard_positive(scale, q, axis)]
}

/// Real numbers of codes.
pub const DEQUANTIZE: OpDef = OpDef {
    name: "dequantize",
    doc: "y = s·(q − z), with scale s and zero point z (0 without one); the derivative of y with respect to s·(q − z) \
        is 1",
    arity: Arity::Between(2, 3),
    attrs: DequantizeAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::QUANT).and(Flags::ZERO_POINT),
    infer: |cx| {
        let d = cx.dtype(0);
        ensure!(d.may_be_code(), "codes are i8, u8 or i32, not {d}");
        check_quant_params(cx, DequantizeAttrs::of(&cx.attrs).axis)?;
        let (dtype, dims) = (cx.dtype(1), cx.dims(0));
        cx.result(dtype, &dims)
    },
    deriv: Deriv::Rules(
        |s, t| vec![t[0].map(|t| t.cast(s.args[1].dtype()))],
        |s, ct, _| {
            let q = ct[0].map(|g| g.cast(DType::F32));
            [q, None, None].into_iter().take(s.args.len()).collect()
        },
    ),
    batch: Batch::Rule(|s| {
        let axis = DequantizeAttrs::of(&s.site.attrs).axis;
        let (args, axis) = batch_quant_operands(s, axis, &[1, 2])?;
        s.emit(&args, &DequantizeAttrs { axis }.list())
    }),
    decompose: Some(decompose_dequantize),
    lower: Lower::Expand,
    cost: |cx| 2 * cx.out(),
    cases: &[
        Case { args: "i8[3,5] f[]", attrs: "", domains: &[Index(100), Positive] },
        Case { args: "u8[3,5] f[] i32[]", attrs: "", domains: &[Index(256), Positive, Index(128)] },
        Case { args: "i32[3,5,2] f[5] i32[5]", attrs: "axis=1", domains: &[Index(9000), Positive, Index(9)] },
        Case { args: "i8[1100] f[]", attrs: "", domains: &[Index(100), Positive] },
        Case { args: "i8[0,3] f[3]", attrs: "axis=1", domains: &[Index(100), Positive] },
        Case { args: "u8[] f[]", attrs: "", domains: &[Index(100), Positive] },
    ],
    ..OpDef::BLANK
};
