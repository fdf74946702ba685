//! Optimiser steps by torch's formulas. The step number `t` counts from 1.
//!
//! A step takes one param or several. Its operands are the param, the gradient and the states of each; then, once, the
//! rate and, if the optimiser has one, the step number. One more scalar is optional: the gradients are multiplied by it
//! first (global-norm clipping). The results are the updated params and states, in the order of the operands.

pub mod attrs;
pub mod fused_update;
pub mod lower;
pub mod rows;
pub mod step_options;
pub mod var;

use crate::ensure;
use crate::nodes::ir::attrs::Field;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Count, Positive, Real};
use attrs::{AdamAttrs, SgdAttrs, SgdMomentumAttrs};

/// The number of operands of each param and of scalars after them; `None` where `op` is no step.
pub fn step_layout(op: Op) -> Option<(usize, usize)> {
    match op {
        Op::SGD => Some((2, 1)),
        Op::SGD_MOMENTUM => Some((3, 2)),
        Op::ADAM => Some((4, 2)),
        _ => None,
    }
}

/// Steps and their fused weight updates.
const BEHIND: [(Op, Op); 3] =
    [(Op::SGD, Op::MATMUL_SGD), (Op::SGD_MOMENTUM, Op::MATMUL_SGD_MOMENTUM), (Op::ADAM, Op::MATMUL_ADAM)];

/// The fused weight update of step `op`.
pub fn fused_form_of_step(op: Op) -> Option<Op> {
    BEHIND.iter().find(|b| b.0 == op).map(|b| b.1)
}

/// The step of the fused weight update `op`.
pub fn step_of_fused_form(op: Op) -> Option<Op> {
    BEHIND.iter().find(|b| b.1 == op).map(|b| b.0)
}

const fn define_step(
    name: &'static str,
    doc: &'static str,
    least: usize,
    attrs: &'static [Field],
    deriv: Deriv,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::AtLeast(least),
        attrs,
        flags: Flags::PURE,
        infer: |cx| cx.same_as(0),
        deriv,
        batch: Batch::Rule(batch_step),
        lower: Lower::Expand,
        cost: |cx| 4 * count_param_elements(cx, 2, 1),
        cases: &[],
        ..OpDef::BLANK
    }
}

/// A step of the params of all members, which are larger params. Members with rates of their own are left to a loop.
fn batch_step<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let (tensors, scalars) = step_layout(s.site.op)?;
    let args = s.batched.len();
    let of_params = (args - scalars) / tensors * tensors;
    let arg = |i: usize| if i < of_params { s.arg(i) } else { s.site.args[i] };
    let shared = !s.batched[of_params..].contains(&true);
    shared.then(|| s.site.rebuild_with(&(0..args).map(arg).collect::<Vec<_>>()))
}

/// Results that one call can write.
const MOST_RESULTS: usize = 64;

/// Elements of all params of a step.
fn count_param_elements(cx: &CostCx<'_>, tensors: usize, scalars: usize) -> u64 {
    let params = (cx.graph.args_of(cx.node).len() - scalars) / tensors;
    (0..params).map(|i| cx.arg(tensors * i)).sum()
}

/// Checks the operands of a step: `n` for each param, all of one type, the scalar learning rate, the step number if
/// `counts`, and the scale if there is one.
fn check_step_tensors(cx: &mut Infer<'_>, n: usize, counts: bool) -> Result<(), String> {
    let (all, scalars) = (cx.args.len(), 1 + usize::from(counts));
    let (params, rest) = ((all - scalars) / n, (all - scalars) % n);
    ensure!(rest <= 1, "{all} operands are not {n} for each param, {scalars} for all, and perhaps a scale");
    ensure!(
        params * (n - 1) <= MOST_RESULTS,
        "{params} params are more than a step can take ({})",
        MOST_RESULTS / (n - 1)
    );
    cx.float(0)?;
    let lr = params * n;
    for i in (1..lr).filter(|i| i % n != 0) {
        cx.same(i - i % n, i)?;
    }
    for i in (1..params).map(|p| p * n).chain([lr]) {
        cx.same_dtype(0, i)?;
    }
    cx.expect_dims(lr, "lr", &[])?;
    if counts {
        check_step_number(cx, lr + 1)?;
    }
    if rest == 1 {
        cx.same_dtype(0, all - 1)?;
        cx.expect_dims(all - 1, "the scale", &[])?;
    }
    for i in (0..lr).filter(|i| i % n != 1) {
        cx.same_as(i)?;
    }
    Ok(())
}

/// The results of `one` for each param. `one` takes the tensors of the param, with the gradient scaled, and the
/// scalars.
fn step_each_param<'g>(
    s: &Site<'_, 'g>,
    (n, scalars): (usize, usize),
    one: impl Fn(&[Var<'g>], &[Var<'g>]) -> Vec<Var<'g>>,
) -> Vec<Var<'g>> {
    let params = (s.args.len() - scalars) / n;
    let (tensors, rest) = s.args.split_at(params * n);
    let scaled = |t: &[Var<'g>]| {
        let mut t = t.to_vec();
        if let Some(&scale) = rest.get(scalars) {
            t[1] = t[1] * scale;
        }
        one(&t, rest)
    };
    tensors.chunks_exact(n).flat_map(scaled).collect()
}

/// Checks the step number.
pub(super) fn check_step_number(cx: &Infer<'_>, i: usize) -> Result<(), String> {
    ensure!(cx.dtype(i) == DType::I64, "the step number is {}; i64 is needed", cx.dtype(i));
    cx.expect_dims(i, "the step number", &[])
}

/// g + wd·p. A decay of 0 adds nothing, not even the NaN of 0·∞.
fn decay_gradient<'g>(g: Var<'g>, p: Var<'g>, decay: f64) -> Var<'g> {
    if decay == 0.0 { g } else { g + p * decay }
}

/// A step of stochastic gradient descent without momentum.
pub const SGD: OpDef = OpDef {
    infer: |cx| {
        SgdAttrs::of(&cx.attrs).check()?;
        check_step_tensors(cx, 2, false)
    },
    decompose: Some(|s| {
        let SgdAttrs { weight_decay } = SgdAttrs::of(&s.attrs);
        step_each_param(s, (2, 1), |t, k| vec![t[0] - k[0] * decay_gradient(t[1], t[0], weight_decay)])
    }),
    cases: &[
        Case { args: "f[3,5] f[3,5] f[]", attrs: "weight_decay=0", domains: &[Real, Real, Positive] },
        Case { args: "f[2100] f[2100] f[]", attrs: "weight_decay=0.1", domains: &[Real, Real, Positive] },
        Case {
            args: "f[7] f[7] f[3,400] f[3,400] f[] f[]",
            attrs: "weight_decay=0.1",
            domains: &[Real, Real, Real, Real, Positive],
        },
    ],
    lower: Lower::Kernel(lower::emit_step),
    ..define_step(
        "sgd",
        "p' = p − lr·(g + weight_decay·p), from (p, g) of each param, lr; one more scalar operand multiplies g",
        3,
        SgdAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};

fn decompose_sgd_momentum<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let a = SgdMomentumAttrs::of(&s.attrs);
    step_each_param(s, (3, 2), |tensors, k| {
        let (p, lr, t) = (tensors[0], k[0], k[1]);
        let g = decay_gradient(tensors[1], p, a.weight_decay);
        let later = tensors[2] * a.momentum + g * (1.0 - a.dampening);
        let buf = t.equal(1.0).select(g, later);
        let move_by = if a.nesterov { g + buf * a.momentum } else { buf };
        vec![p - lr * move_by, buf]
    })
}

/// A step of stochastic gradient descent with momentum.
pub const SGD_MOMENTUM: OpDef = OpDef {
    infer: |cx| {
        SgdMomentumAttrs::of(&cx.attrs).check()?;
        check_step_tensors(cx, 3, true)
    },
    decompose: Some(decompose_sgd_momentum),
    cost: |cx| 6 * count_param_elements(cx, 3, 2),
    cases: &[
        Case {
            args: "f[3,5] f[3,5] f[3,5] f[] i64[]",
            attrs: "momentum=0.9 dampening=0.3 nesterov=false weight_decay=0.1",
            domains: &[Real, Real, Real, Positive, Count(9)],
        },
        Case {
            args: "f[2100] f[2100] f[2100] f[] i64[]",
            attrs: "momentum=0.9 dampening=0 nesterov=true weight_decay=0",
            domains: &[Real, Real, Real, Positive, Count(1)],
        },
        Case {
            args: "f[9] f[9] f[9] f[2,3] f[2,3] f[2,3] f[] i64[] f[]",
            attrs: "momentum=0.9 dampening=0.3 nesterov=false weight_decay=0.1",
            domains: &[Real, Real, Real, Real, Real, Real, Positive, Count(9), Positive],
        },
    ],
    lower: Lower::Kernel(lower::emit_step),
    ..define_step(
        "sgd_momentum",
        "d = g + weight_decay·p; buf' = d if t = 1, momentum·buf + (1 − dampening)·d else; p' = p − lr·buf' \
        (nesterov: p − lr·(d + momentum·buf')), from (p, g, buf) of each param, lr, t; one more scalar operand \
        multiplies g",
        5,
        SgdMomentumAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};

/// 1 − βᵗ in `f64`: an `f32` would lose half the digits of a β near 1.
fn bias_correction<'g>(t: Var<'g>, beta: f64) -> Var<'g> {
    let t = t.cast(DType::F64);
    1.0 - t.full_like(beta).pow(t)
}

fn decompose_adam<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let AdamAttrs { beta1, beta2, eps, weight_decay: decay, decoupled } = AdamAttrs::of(&s.attrs);
    step_each_param(s, (4, 2), |tensors, k| {
        let (p, m, v, lr, t) = (tensors[0], tensors[2], tensors[3], k[0], k[1]);
        let g = if decoupled { tensors[1] } else { decay_gradient(tensors[1], p, decay) };
        let p = if decoupled { p * (1.0 - lr * decay) } else { p };
        let m = m + (g - m) * (1.0 - beta1);
        let v = v * beta2 + g * g * (1.0 - beta2);
        let size = (lr.cast(DType::F64) / bias_correction(t, beta1)).cast(p.dtype());
        let root = bias_correction(t, beta2).sqrt().cast(p.dtype());
        vec![p - size * (m / (v.sqrt() / root + eps)), m, v]
    })
}

/// A step of Adam or AdamW.
pub const ADAM: OpDef = OpDef {
    infer: |cx| {
        AdamAttrs::of(&cx.attrs).check()?;
        check_step_tensors(cx, 4, true)
    },
    decompose: Some(decompose_adam),
    cost: |cx| 14 * count_param_elements(cx, 4, 2),
    cases: &[
        Case {
            args: "f[3,5] f[3,5] f[3,5] f[3,5] f[] i64[]",
            attrs: "beta1=0.9 beta2=0.999 eps=0.00000001 weight_decay=0.1 decoupled=true",
            domains: &[Real, Real, Real, Positive, Positive, Count(9)],
        },
        Case {
            args: "f[2100] f[2100] f[2100] f[2100] f[] i64[]",
            attrs: "beta1=0.9 beta2=0.99 eps=0.001 weight_decay=0.1 decoupled=false",
            domains: &[Real, Real, Real, Positive, Positive, Count(9)],
        },
        Case {
            args: "f[40] f[40] f[40] f[40] f[] i64[]",
            attrs: "beta1=0.3 beta2=0.99 eps=0.001 weight_decay=0 decoupled=false",
            domains: &[Real, Real, Real, Positive, Positive, Count(1)],
        },
        Case {
            args: "f[5] f[5] f[5] f[5] f[2,3] f[2,3] f[2,3] f[2,3] f[] i64[] f[]",
            attrs: "beta1=0.9 beta2=0.999 eps=0.00000001 weight_decay=0.1 decoupled=true",
            domains: &[Real, Real, Real, Positive, Real, Real, Real, Positive, Positive, Count(9), Positive],
        },
    ],
    lower: Lower::Kernel(lower::emit_step),
    ..define_step(
        "adam",
        "m' = β₁m + (1 − β₁)g, v' = β₂v + (1 − β₂)g², p' = p − lr/(1 − β₁ᵗ)·m'/(√v'/√(1 − β₂ᵗ) + eps); weight_decay·p \
        joins g, or p shrinks by lr·weight_decay first if decoupled; from (p, g, m, v) of each param, lr, t; one more \
        scalar operand multiplies g",
        6,
        AdamAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};
