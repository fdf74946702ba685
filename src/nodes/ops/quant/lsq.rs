//! Learned step sizes (LSQ, Esser et al. 2020): fake quantisation whose scales have a gradient.

use super::attrs::{LsqAttrs, LsqFactor};
use super::scale::{batch_quant_operands, check_code_range, check_quant_params, guard_positive, lower_checked_scales};
use crate::ensure;
use crate::kernels::cost_model::CostClass;
use crate::kernels::quant::lsq::{self, lsq_backward_for};
use crate::kernels::reduce::{Reduce, sum_for};
use crate::nodes::arguments::axes::{AxisSplit, split_at_axis};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Positive, Real};

impl LsqAttrs {
    /// The factor of the gradient of a scale that `count` elements have.
    fn scale_factor(&self, count: usize) -> f64 {
        match self.factor {
            LsqFactor::One => 1.0,
            LsqFactor::Paper => 1.0 / (count.max(1) as f64 * self.hi as f64).sqrt(),
        }
    }
}

fn check_range_and_factor(cx: &Infer<'_>) -> Result<(), String> {
    let a = LsqAttrs::of(&cx.attrs);
    check_code_range(a.lo, a.hi)?;
    let fine = a.factor == LsqFactor::One || a.hi > 0;
    ensure!(fine, "the factor 1/√(n·hi) needs a highest code above 0, not {}", a.hi);
    Ok(())
}

/// x/s, and where it is in the range.
fn divide_by_scale<'g>(x: Var<'g>, scale: Var<'g>, a: &LsqAttrs) -> [Var<'g>; 2] {
    let z = x / guard_positive(scale, x, a.axis);
    [z, z.greater_equal(a.lo as f64).logical_and(z.less_equal(a.hi as f64))]
}

/// ψ(z): round(z) − z in the range, the end of the range outside.
fn scale_slope<'g>([z, inside]: [Var<'g>; 2], a: &LsqAttrs) -> Var<'g> {
    inside.select(z.round() - z, z.clamp(a.lo as f64, a.hi as f64))
}

/// The codes of [`LSQ`] less `shift`, as `i8`. NaN has the code of 0.
pub fn quantize_to_codes<'g>(x: Var<'g>, scale: Var<'g>, a: &LsqAttrs, shift: i64) -> Var<'g> {
    let code = (x / guard_positive(scale, x, a.axis)).round();
    let code = code.isnan().select(x.full_like(0.0), code).clamp(a.lo as f64, a.hi as f64);
    (code - shift as f64).cast(DType::I8)
}

fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let (x, scale, a) = (s.args[0], s.args[1], LsqAttrs::of(&s.attrs));
    let steps = divide_by_scale(x, scale, &a);
    let by_x = t[0].map(|t| steps[1].select(t, t.full_like(0.0)));
    let by_scale = t[1].map(|t| {
        let factor = a.scale_factor(x.numel() / scale.numel().max(1));
        scale_slope(steps, &a) * super::scale::align_to_axis(t * factor, x, a.axis)
    });
    vec![match (by_x, by_scale) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }]
}

/// Fake quantisation with learned scales.
pub const LSQ: OpDef = OpDef {
    name: "lsq",
    doc: "y = clamp(round(x/s), lo, hi)·s, halves to even; x̄ = ȳ where lo ≤ x/s ≤ hi, else 0; s̄ = κ·Σ ψ(x/s)·ȳ with \
        ψ(z) = round(z) − z in the range, lo or hi outside",
    arity: Arity::Exactly(2),
    attrs: LsqAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::STRAIGHT),
    infer: |cx| {
        cx.float(0)?;
        cx.same_dtype(0, 1)?;
        check_quant_params(cx, LsqAttrs::of(&cx.attrs).axis)?;
        check_range_and_factor(cx)?;
        cx.same_as(0)
    },
    deriv: Deriv::Rules(push_tangents, |s, ct, _| match ct[0] {
        Some(g) => {
            let both = s.g.emit(Op::LSQ_BACKWARD, &[g, s.args[0], s.args[1]], &LsqAttrs::of(&s.attrs).list());
            both.into_iter().map(Some).collect()
        }
        None => vec![None, None],
    }),
    batch: Batch::Rule(|s| {
        let a = LsqAttrs::of(&s.site.attrs);
        let (args, axis) = match (a.factor, a.axis) {
            (LsqFactor::One, _) => batch_quant_operands(s, a.axis, &[1])?,
            // The factor counts the elements of one member.
            (LsqFactor::Paper, None) => (s.all(), Some(0)),
            (LsqFactor::Paper, Some(_)) => return None,
        };
        s.emit(&args, &LsqAttrs { axis, ..a }.list())
    }),
    decompose: Some(|s| {
        let (x, a) = (s.args[0], LsqAttrs::of(&s.attrs));
        let scale = guard_positive(s.args[1], x, a.axis);
        vec![(x / scale).round().clamp(a.lo as f64, a.hi as f64) * scale]
    }),
    lower: Lower::Expand,
    cost: |cx| 4 * cx.out(),
    cases: &[
        Case { args: "f[3,5] f[]", attrs: "lo=-7 hi=7 factor=one", domains: &[Real, Positive] },
        Case { args: "f[3,5] f[]", attrs: "lo=-1 hi=1 factor=paper", domains: &[Real, Positive] },
        Case { args: "f[3,5,2] f[5]", attrs: "axis=1 lo=0 hi=3 factor=paper", domains: &[Real, Positive] },
        Case { args: "f[4,8] f[4]", attrs: "axis=0 lo=-2 hi=1 factor=one", domains: &[Real, Positive] },
        Case { args: "f[0,3] f[3]", attrs: "axis=1 lo=-8 hi=7 factor=paper", domains: &[Real, Positive] },
        Case { args: "f[] f[]", attrs: "lo=-8 hi=7 factor=one", domains: &[Real, Positive] },
    ],
    ..OpDef::BLANK
};

/// The factors of the shape of `x` around the axis of scales; one scale if there is no axis.
fn split_at_scales(cx: &LowerCx<'_>, axis: Option<i64>) -> AxisSplit {
    let d = cx.arg_dims(1);
    match axis.and_then(|a| usize::try_from(a).ok()) {
        Some(axis) => split_at_axis(&d, axis),
        None => AxisSplit { outer: 1, n: 1, inner: d.numel() },
    }
}

fn lower_backward(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (a, dtype) = (LsqAttrs::of(&cx.attrs()), cx.dtype(0));
    let AxisSplit { outer, n: channels, inner } = split_at_scales(cx, a.axis);
    let factor = a.scale_factor(outer * inner);
    let p = lsq::Backward { outer, channels, inner, lo: a.lo as f64, hi: a.hi as f64, factor };
    let scales = lower_checked_scales(cx, 2)?;
    let sums = cx.temp(dtype.size(), p.parts() * channels);
    let scratch = cx.scratch(dtype.size(), p.scratch());
    let call = Call::new(lsq_backward_for(dtype)?, p.to_words(), p.units()).flops(cx.flops());
    let call = call.cost_class(CostClass::REDUCE).reads_args(2).reads(&[scales]).writes(Buf::Out(0), p.per_unit());
    cx.call(call.writes(sums, p.sums_per_unit()).scratch(scratch).inplace(&[(0, 0), (1, 0)]));
    if cx.used[1] {
        let sum = Reduce::new(1, p.parts(), channels);
        let call = Call::new(sum_for(dtype)?, sum.to_words(), sum.units()).cost_class(CostClass::REDUCE).reads(&[sums]);
        cx.call(call.writes(Buf::Out(1), sum.per_unit()));
    }
    Ok(())
}

fn decompose_backward<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (g, x, scale, a) = (s.args[0], s.args[1], s.args[2], LsqAttrs::of(&s.attrs));
    let steps = divide_by_scale(x, scale, &a);
    let axis = a.axis.and_then(|axis| usize::try_from(axis).ok());
    let others: Vec<i64> = (0..x.rank()).filter(|&i| Some(i) != axis).map(|i| i as i64).collect();
    let factor = a.scale_factor(x.numel() / scale.numel().max(1));
    let sum = (scale_slope(steps, &a) * g).sum(others.as_slice()) * factor;
    vec![steps[1].select(g, g.full_like(0.0)), sum]
}

/// The cotangents of both operands of [`LSQ`], in one sweep.
pub const LSQ_BACKWARD: OpDef = OpDef {
    name: "lsq_backward",
    doc: "x̄ and s̄ of `lsq` from ȳ, x and s: x̄ = ȳ where lo ≤ x/s ≤ hi, else 0; s̄ = κ·Σ ψ(x/s)·ȳ",
    arity: Arity::Exactly(3),
    attrs: LsqAttrs::FIELDS,
    // ψ has the period 1: rounding x would change s̄ much.
    flags: Flags::PURE.and(Flags::EXACT),
    infer: |cx| {
        cx.float(0)?;
        cx.same(0, 1)?;
        cx.same_dtype(0, 2)?;
        super::scale::check_scalar_or_axis(cx, 2, "the scale", LsqAttrs::of(&cx.attrs).axis)?;
        check_range_and_factor(cx)?;
        cx.same_as(1)?;
        cx.same_as(2)
    },
    deriv: Deriv::ViaDecompose,
    batch: Batch::Rule(|s| {
        let a = LsqAttrs::of(&s.site.attrs);
        if a.axis.is_some() {
            return None;
        }
        // Each member has a scale's cotangent of its own.
        s.emit(&s.all(), &LsqAttrs { axis: Some(0), ..a }.list())
    }),
    decompose: Some(decompose_backward),
    lower: Lower::Kernel(lower_backward),
    cost: |cx| 8 * cx.arg(0),
    cases: &[
        Case { args: "f[3,5] f[3,5] f[]", attrs: "lo=-7 hi=7 factor=one", domains: &[Real, Real, Positive] },
        Case { args: "f[9000] f[9000] f[]", attrs: "lo=-1 hi=1 factor=paper", domains: &[Real, Real, Positive] },
        Case { args: "f[3,5,2] f[3,5,2] f[5]", attrs: "axis=1 lo=0 hi=3 factor=paper", domains: TERMS },
        Case { args: "f[4,300] f[4,300] f[4]", attrs: "axis=0 lo=-2 hi=1 factor=one", domains: TERMS },
        Case { args: "f[2000,3] f[2000,3] f[3]", attrs: "axis=1 lo=-2 hi=1 factor=one", domains: TERMS },
        Case { args: "f[0,3] f[0,3] f[3]", attrs: "axis=1 lo=-8 hi=7 factor=paper", domains: TERMS },
        Case { args: "f[] f[] f[]", attrs: "lo=-8 hi=7 factor=one", domains: TERMS },
    ],
    ..OpDef::BLANK
};

const TERMS: &[Domain] = &[Real, Real, Positive];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_of_the_paper_falls_with_the_elements_of_a_scale() {
        let of = |factor, count| LsqAttrs { axis: None, lo: -4, hi: 4, factor }.scale_factor(count);
        assert_eq!([0, 1, 4, 9].map(|n| of(LsqFactor::Paper, n)), [0.5, 0.5, 0.25, 1.0 / 6.0]);
        assert_eq!([0, 9].map(|n| of(LsqFactor::One, n)), [1.0; 2]);
    }
}
