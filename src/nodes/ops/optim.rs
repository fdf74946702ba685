//! Optimiser steps, in torch's order of operations. The step number `t` counts from 1. A gradient that must be scaled
//! first (global-norm clipping) is scaled by an ordinary product in the graph.

use super::lowering::train;
use crate::ensure;
use crate::nodes::attrs::{Field, Kind};
use crate::nodes::builder::Var;
use crate::nodes::dtype::DType;
use crate::nodes::infer::Infer;
use crate::nodes::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, OpDef, Site};

use Domain::{Count, Positive, Real};

const DECAY: Field = Field::new("weight_decay", Kind::F64);

const fn row(name: &'static str, doc: &'static str, arity: usize, attrs: &'static [Field]) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(arity),
        attrs,
        flags: Flags::PURE,
        infer: |cx| cx.same_as(0),
        deriv: Deriv::ViaDecompose,
        decompose: None,
        lower: Lower::Expand,
        cost: |cx| 4 * cx.arg(0),
        cases: &[],
    }
}

/// Checks the first `n` operands, all of one type, then the scalar learning rate; they become the results but for the
/// gradient (operand 1).
fn tensors(cx: &mut Infer<'_>, n: usize) -> Result<(), String> {
    cx.float(0)?;
    for i in 1..n {
        cx.same(0, i)?;
    }
    cx.same_dtype(0, n)?;
    cx.expect_dims(n, "lr", &[])?;
    for i in (0..n).filter(|&i| i != 1) {
        cx.same_as(i)?;
    }
    Ok(())
}

/// Checks the step number.
fn step(cx: &Infer<'_>, i: usize) -> Result<(), String> {
    ensure!(cx.dtype(i) == DType::I64, "the step number is {}; i64 is needed", cx.dtype(i));
    cx.expect_dims(i, "the step number", &[])
}

/// Checks that attribute `i` lies in [0, 1).
fn fraction(cx: &Infer<'_>, i: usize) -> Result<(), String> {
    let (name, x) = (cx.attrs.fields[i].name, cx.attrs.f64(i));
    ensure!((0.0..1.0).contains(&x), "{name} is {x}; it must lie in [0, 1)");
    Ok(())
}

/// g + wd·p. A decay of 0 adds nothing, not even the NaN of 0·∞.
fn decayed<'g>(g: Var<'g>, p: Var<'g>, decay: f64) -> Var<'g> {
    if decay == 0.0 { g } else { g + p * decay }
}

/// See `doc`.
pub const SGD: OpDef = OpDef {
    infer: |cx| tensors(cx, 2),
    decompose: Some(|s| {
        let (p, lr) = (s.args[0], s.args[2]);
        vec![p - lr * decayed(s.args[1], p, s.attrs.f64(0))]
    }),
    cases: &[
        Case { args: "f[3,5] f[3,5] f[]", attrs: "weight_decay=0", domains: &[Real, Real, Positive] },
        Case { args: "f[2100] f[2100] f[]", attrs: "weight_decay=0.1", domains: &[Real, Real, Positive] },
    ],
    lower: Lower::Kernel(train::sgd),
    ..row("sgd", "p' = p − lr·(g + weight_decay·p), from (p, g, lr)", 3, &[DECAY])
};

fn momentum_expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (p, lr, t) = (s.args[0], s.args[3], s.args[4]);
    let (mu, dampening, nesterov) = (s.attrs.f64(0), s.attrs.f64(1), s.attrs.bool(2));
    let g = decayed(s.args[1], p, s.attrs.f64(3));
    let later = s.args[2] * mu + g * (1.0 - dampening);
    let buf = t.equal(1.0).select(g, later);
    let move_by = if nesterov { g + buf * mu } else { buf };
    vec![p - lr * move_by, buf]
}

/// See `doc`.
pub const SGD_MOMENTUM: OpDef = OpDef {
    infer: |cx| {
        step(cx, 4)?;
        let (mu, dampening, nesterov) = (cx.attrs.f64(0), cx.attrs.f64(1), cx.attrs.bool(2));
        ensure!(mu > 0.0, "momentum is {mu}; without momentum there is sgd");
        ensure!(!nesterov || dampening == 0.0, "nesterov needs a dampening of 0, not {dampening}");
        tensors(cx, 3)
    },
    decompose: Some(momentum_expand),
    cost: |cx| 6 * cx.arg(0),
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
    ],
    lower: Lower::Kernel(train::sgd_momentum),
    ..row(
        "sgd_momentum",
        "d = g + weight_decay·p; buf' = d if t = 1, momentum·buf + (1 − dampening)·d else; p' = p − lr·buf' (nesterov: p − lr·(d + momentum·buf')), from (p, g, buf, lr, t)",
        5,
        &[
            Field::new("momentum", Kind::F64),
            Field::new("dampening", Kind::F64),
            Field::new("nesterov", Kind::Bool),
            DECAY,
        ],
    )
};

/// 1 − βᵗ in `f64`: an `f32` would lose half the digits of a β near 1.
fn correction<'g>(t: Var<'g>, beta: f64) -> Var<'g> {
    let t = t.cast(DType::F64);
    1.0 - t.full_like(beta).pow(t)
}

fn adam_expand<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let (p, m, v, lr, t) = (s.args[0], s.args[2], s.args[3], s.args[4], s.args[5]);
    let (beta1, beta2, eps, decay) = (s.attrs.f64(0), s.attrs.f64(1), s.attrs.f64(2), s.attrs.f64(3));
    let decoupled = s.attrs.bool(4);
    let g = if decoupled { s.args[1] } else { decayed(s.args[1], p, decay) };
    let p = if decoupled { p * (1.0 - lr * decay) } else { p };
    let m = m + (g - m) * (1.0 - beta1);
    let v = v * beta2 + g * g * (1.0 - beta2);
    let size = (lr.cast(DType::F64) / correction(t, beta1)).cast(p.dtype());
    let root = correction(t, beta2).sqrt().cast(p.dtype());
    vec![p - size * (m / (v.sqrt() / root + eps)), m, v]
}

/// See `doc`.
pub const ADAM: OpDef = OpDef {
    infer: |cx| {
        step(cx, 5)?;
        fraction(cx, 0)?;
        fraction(cx, 1)?;
        tensors(cx, 4)
    },
    decompose: Some(adam_expand),
    cost: |cx| 14 * cx.arg(0),
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
    ],
    lower: Lower::Kernel(train::adam),
    ..row(
        "adam",
        "m' = β₁m + (1 − β₁)g, v' = β₂v + (1 − β₂)g², p' = p − lr/(1 − β₁ᵗ)·m'/(√v'/√(1 − β₂ᵗ) + eps); weight_decay·p joins g, or p shrinks by lr·weight_decay first if decoupled; from (p, g, m, v, lr, t)",
        6,
        &[
            Field::new("beta1", Kind::F64),
            Field::new("beta2", Kind::F64),
            Field::new("eps", Kind::F64),
            DECAY,
            Field::new("decoupled", Kind::Bool),
        ],
    )
};
