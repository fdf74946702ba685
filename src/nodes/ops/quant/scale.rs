//! Scales and zero points: their shapes, their place among the axes of what they scale, and the check of their sign.

use crate::ensure;
use crate::kernels::cost_model::CostClass;
use crate::kernels::quant::positive_scale::{PositiveScale, positive_scale_kernel_for};
use crate::nodes::arguments::axes::check_axis;
use crate::nodes::ir::batch::BatchSite;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};

fn emit_positive_check(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = PositiveScale { len: cx.arg_dims(0).numel() };
    let call = Call::new(positive_scale_kernel_for(cx.dtype(0))?, p.to_words(), p.units()).cost_class(CostClass::COPY);
    cx.call(call.reads_args(1).faults().writes(Buf::Out(0), p.per_unit()).inplace(&[(0, 0)]));
    Ok(())
}

/// A copy of the scales that are operand `i`, made by a call that faults where one is no normal number
/// above 0.
pub(super) fn lower_checked_scales(cx: &mut LowerCx<'_>, i: usize) -> Result<Buf, String> {
    let (dtype, p) = (cx.dtype(i), PositiveScale { len: cx.arg_dims(i).numel() });
    let scales = cx.temp(dtype.size(), p.len);
    let call = Call::new(positive_scale_kernel_for(dtype)?, p.to_words(), p.units()).reads(&[Buf::Arg(i)]);
    cx.call(call.cost_class(CostClass::COPY).faults().writes(scales, p.per_unit()));
    Ok(scales)
}

/// Scales, each checked to be a normal number above 0.
pub const POSITIVE_SCALE: OpDef = OpDef {
    name: "positive_scale",
    doc: "y = x; an element that is no normal number above 0 ends the step, so that 1/y is finite",
    arity: Arity::Exactly(1),
    attrs: &[],
    flags: Flags::PURE,
    infer: |cx| {
        cx.float(0)?;
        cx.same_as(0)
    },
    // Not `Linear`: a tangent may have any sign.
    deriv: Deriv::Rules(|_, t| vec![t[0]], |_, ct, _| vec![ct[0]]),
    batch: Batch::Leading,
    lower: Lower::Kernel(emit_positive_check),
    cost: |_| 0,
    cases: &[
        Case { args: "f[]", attrs: "", domains: &[Domain::Positive] },
        Case { args: "f[5]", attrs: "", domains: &[Domain::Positive] },
        Case { args: "f[9000]", attrs: "", domains: &[Domain::Positive] },
        Case { args: "f[0]", attrs: "", domains: &[Domain::Positive] },
    ],
    ..OpDef::BLANK
};

/// Checks that operand `i`, called `what`, is a scalar, or has an element for each position of `axis` of operand 0.
pub(super) fn check_scalar_or_axis(cx: &Infer<'_>, i: usize, what: &str, axis: Option<i64>) -> Result<(), String> {
    let d = cx.dims(0);
    match axis {
        None => cx.expect_dims(i, what, &[]),
        Some(axis) => cx.expect_dims(i, what, &[d[check_axis(axis, d.len())?]]),
    }
}

/// Checks scale (operand 1, of a float dtype) and zero point (operand 2, `i32`, if there is one).
pub(super) fn check_quant_params(cx: &Infer<'_>, axis: Option<i64>) -> Result<(), String> {
    cx.float(1)?;
    check_scalar_or_axis(cx, 1, "the scale", axis)?;
    if cx.args.len() > 2 {
        ensure!(cx.dtype(2) == DType::I32, "the zero point is {}; i32 is needed", cx.dtype(2));
        check_scalar_or_axis(cx, 2, "the zero point", axis)?;
    }
    Ok(())
}

/// The largest absolute code of the ops in floats: `f32` holds all whole numbers up to it.
const LARGEST_CODE: i64 = 1 << 24;

/// Checks that `lo..=hi` is a range of codes.
pub(super) fn check_code_range(lo: i64, hi: i64) -> Result<(), String> {
    let held = lo >= -LARGEST_CODE && hi <= LARGEST_CODE;
    ensure!(lo < hi && held, "{lo}..={hi} is no range of codes; lo is below hi, and both are within ±{LARGEST_CODE}");
    Ok(())
}

/// `per`, a scalar or an element for each position of `axis`, so that it broadcasts with `x`.
pub(super) fn align_to_axis<'g>(per: Var<'g>, x: Var<'g>, axis: Option<i64>) -> Var<'g> {
    let Some(axis) = axis.and_then(|a| usize::try_from(a).ok()) else { return per };
    let mut dims = vec![1; x.rank()];
    if let Some(d) = dims.get_mut(axis) {
        *d = per.numel();
    }
    per.reshape(dims)
}

/// The scale of a site, checked, so that it broadcasts with `x`.
pub(super) fn guard_positive<'g>(scale: Var<'g>, x: Var<'g>, axis: Option<i64>) -> Var<'g> {
    align_to_axis(scale.g.emit1(Op::POSITIVE_SCALE, &[scale], &[]), x, axis)
}

/// How the members of a batch run an op whose operands are x, a scale, and others of the scale's shape or of that of x:
/// the operands and the axis. `None` if the scales of an axis differ between members.
pub(super) fn batch_quant_operands<'g>(
    s: &BatchSite<'_, 'g>,
    axis: Option<i64>,
    scales: &[usize],
) -> Option<(Vec<Var<'g>>, Option<i64>)> {
    let shared = scales.iter().all(|&i| s.batched.get(i) != Some(&true));
    let all = s.all();
    match axis {
        // The members are the positions of the first axis, with a scale each.
        None if !shared => Some((all, Some(0))),
        Some(_) if !shared => None,
        _ => {
            let one = |(i, &x): (usize, &Var<'g>)| if scales.contains(&i) { s.site.args[i] } else { x };
            Some((all.iter().enumerate().map(one).collect(), axis.map(|a| a + 1)))
        }
    }
}

impl<'g> Var<'g> {
    /// Calls `f` with the resolved `axis` of scales, if there is one. An axis out of range is an error of `op`.
    #[track_caller]
    pub(super) fn on_scale_axis(self, op: Op, axis: Option<i64>, f: impl FnOnce(Option<i64>) -> Var<'g>) -> Var<'g> {
        match axis {
            Some(axis) => self.on_axis(op, axis, |axis| f(Some(axis))),
            None => self.g.with_caller(|| f(None)),
        }
    }
}
