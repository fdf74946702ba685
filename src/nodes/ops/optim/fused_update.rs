//! Fused weight updates: an optimiser step in the epilogue of the product that is its gradient. The gradient needs no
//! memory.
//!
//! The operands are those of the product, then those of the optimiser step of one param, except the gradient: the
//! param, its states, the rate, the step number if the optimiser has one, and the scale of the gradient if there is
//! one. The attributes are those of the product, then those of the step.

use super::lower;
use crate::ensure;
use crate::nodes::ir::attrs::{Attr, Field};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::ops::matmul::matmul_dims::matmul_operand_dims;
use crate::nodes::ops::matmul::product_flops;
use crate::nodes::ops::optim::attrs::{MatmulAdamAttrs, MatmulSgdAttrs, MatmulSgdMomentumAttrs};
use crate::nodes::ops::optim::check_step_number;
use Domain::{Count, Positive, Real};

const fn define_op(
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
        flags: Flags::PURE.and(Flags::FUSED),
        infer: |cx| cx.same_as(2),
        deriv,
        batch: Batch::ViaDecompose,
        lower: Lower::Kernel(lower::emit_fused_update),
        cost: |cx| product_flops(cx) + 4 * cx.out(),
        cases: &[],
        ..OpDef::BLANK
    }
}

/// Checks the operands: a and b, `tensors` of the shape of their product, the rate, the step number if `counts`, and
/// the scale if there is one.
fn check_operands(cx: &mut Infer<'_>, tensors: usize, counts: bool) -> Result<(), String> {
    let (lr, all) = (2 + tensors, cx.args.len());
    let rest = lr + 1 + usize::from(counts);
    ensure!(all <= rest + 1, "{all} operands where {rest} and perhaps a scale are needed");
    cx.float(0)?;
    (1..=lr).try_for_each(|i| cx.same_dtype(0, i))?;
    let dims = matmul_operand_dims(cx)?;
    ensure!(*cx.dims(2) == dims[..], "p has shape {}, its gradient {dims:?}", cx.dims(2));
    (3..lr).try_for_each(|i| cx.same(2, i))?;
    cx.expect_dims(lr, "lr", &[])?;
    if counts {
        check_step_number(cx, lr + 1)?;
    }
    if all > rest {
        cx.same_dtype(0, rest)?;
        cx.expect_dims(rest, "the scale", &[])?;
    }
    (2..lr).try_for_each(|i| cx.same_as(i))
}

/// The product, then step `op` with attributes `attrs` by it.
fn decompose_node<'g>(s: &Site<'_, 'g>, op: Op, attrs: &[Attr<'_>]) -> Vec<Var<'g>> {
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&s.attrs);
    let gradient = s.args[0].matmul_t(s.args[1], ta, tb);
    s.g.emit(op, &[&[s.args[2], gradient], &s.args[3..]].concat(), attrs).into()
}

/// [`SGD`](super::SGD) by a gradient that is a product.
pub const MATMUL_SGD: OpDef = OpDef {
    infer: |cx| {
        MatmulSgdAttrs::of(&cx.attrs).step_attrs().check()?;
        check_operands(cx, 1, false)
    },
    decompose: Some(|s| decompose_node(s, Op::SGD, &MatmulSgdAttrs::of(&s.attrs).step_attrs().list())),
    cases: &[
        Case { args: "f[6,5] f[6,7] f[5,7] f[]", attrs: "ta=true tb=false weight_decay=0", domains: PLAIN },
        Case { args: "f[9,50] f[9,140] f[50,140] f[]", attrs: "ta=true tb=false weight_decay=0.1", domains: PLAIN },
        Case { args: "f[3,600] f[600,4] f[3,4] f[]", attrs: "ta=false tb=false weight_decay=0.1", domains: PLAIN },
        Case { args: "f[2,5,3] f[2,4,3] f[2,5,4] f[]", attrs: "ta=false tb=true weight_decay=0", domains: PLAIN },
        Case { args: "f[1,8] f[8,5] f[1,5] f[]", attrs: "ta=false tb=false weight_decay=0.5", domains: PLAIN },
        Case { args: "f[9,50] f[9,40] f[50,40] f[] f[]", attrs: "ta=true tb=false weight_decay=0.5", domains: PLAIN },
    ],
    ..define_op(
        "matmul_sgd",
        "p' = p − lr·(a·b + weight_decay·p), from (a, b, p, lr): a step of SGD by the gradient a·b; one more scalar \
        operand multiplies the gradient",
        4,
        MatmulSgdAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};

const PLAIN: &[Domain] = &[Real, Real, Real, Positive];

/// [`SGD_MOMENTUM`](super::SGD_MOMENTUM) by a gradient that is a product.
pub const MATMUL_SGD_MOMENTUM: OpDef = OpDef {
    infer: |cx| {
        MatmulSgdMomentumAttrs::of(&cx.attrs).step_attrs().check()?;
        check_operands(cx, 2, true)
    },
    decompose: Some(|s| decompose_node(s, Op::SGD_MOMENTUM, &MatmulSgdMomentumAttrs::of(&s.attrs).step_attrs().list())),
    cost: |cx| product_flops(cx) + 6 * cx.out(),
    cases: &[
        Case {
            args: "f[9,50] f[9,140] f[50,140] f[50,140] f[] i64[]",
            attrs: "ta=true tb=false momentum=0.9 dampening=0.3 nesterov=false weight_decay=0.1",
            domains: &[Real, Real, Real, Real, Positive, Count(9)],
        },
        Case {
            args: "f[60,7] f[60,7] f[60,60] f[60,60] f[] i64[] f[]",
            attrs: "ta=false tb=true momentum=0.9 dampening=0 nesterov=true weight_decay=0",
            domains: &[Real, Real, Real, Real, Positive, Count(9), Positive],
        },
        Case {
            args: "f[2,5,3] f[2,4,3] f[2,5,4] f[2,5,4] f[] i64[]",
            attrs: "ta=false tb=true momentum=0.9 dampening=0 nesterov=false weight_decay=0",
            domains: &[Real, Real, Real, Real, Positive, Count(1)],
        },
    ],
    ..define_op(
        "matmul_sgd_momentum",
        "p', buf' = sgd_momentum(p, a·b, buf, lr, t), from (a, b, p, buf, lr, t): a step by the gradient a·b; one \
        more scalar operand multiplies the gradient",
        6,
        MatmulSgdMomentumAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};

/// [`ADAM`](super::ADAM) by a gradient that is a product.
pub const MATMUL_ADAM: OpDef = OpDef {
    infer: |cx| {
        MatmulAdamAttrs::of(&cx.attrs).step_attrs().check()?;
        check_operands(cx, 3, true)
    },
    decompose: Some(|s| decompose_node(s, Op::ADAM, &MatmulAdamAttrs::of(&s.attrs).step_attrs().list())),
    cost: |cx| product_flops(cx) + 14 * cx.out(),
    cases: &[
        Case {
            args: "f[9,50] f[9,140] f[50,140] f[50,140] f[50,140] f[] i64[]",
            attrs: "ta=true tb=false beta1=0.9 beta2=0.999 eps=0.00000001 weight_decay=0.1 decoupled=true",
            domains: ADAM,
        },
        Case {
            args: "f[60,7] f[60,7] f[60,60] f[60,60] f[60,60] f[] i64[] f[]",
            attrs: "ta=false tb=true beta1=0.9 beta2=0.99 eps=0.001 weight_decay=0.1 decoupled=false",
            domains: ADAM,
        },
        Case {
            args: "f[1,8] f[8,5] f[1,5] f[1,5] f[1,5] f[] i64[]",
            attrs: "ta=false tb=false beta1=0.3 beta2=0.99 eps=0.001 weight_decay=0 decoupled=false",
            domains: ADAM,
        },
    ],
    ..define_op(
        "matmul_adam",
        "p', m', v' = adam(p, a·b, m, v, lr, t), from (a, b, p, m, v, lr, t): a step by the gradient a·b; one more \
        scalar operand multiplies the gradient",
        7,
        MatmulAdamAttrs::FIELDS,
        Deriv::ViaDecompose,
    )
};

const ADAM: &[Domain] = &[Real, Real, Real, Real, Positive, Positive, Count(9), Positive];
