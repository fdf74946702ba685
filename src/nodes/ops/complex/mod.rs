//! Complex numbers. Three ops join and split them; all arithmetic is written in real ops on their parts, so it has the
//! derivatives of real ops, of any order. `tanh_parts` alone has a derivative of its own. Ops that only move elements
//! take complex numbers as they are.
//!
//! Convention: the cotangent of z is ∂L/∂Re z + i·∂L/∂Im z, as in torch. So L = |z|² gives 2z, and a step of gradient
//! descent is z − rate·cotangent.

pub mod forms;
pub mod lower;
pub mod parts;
pub mod tanh;
pub mod var;

use crate::nodes::ir::lower_cx::LowerFn;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ops::common::cost::cost_free;
use Domain::Real;

const fn define_op(name: &'static str, doc: &'static str, arity: usize, lower: LowerFn, deriv: Deriv) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(arity),
        attrs: &[],
        flags: Flags::PURE,
        infer: |cx| {
            let (part, dims) = (cx.complex(0)?, cx.dims(0));
            cx.result(part, &dims)
        },
        deriv,
        batch: Batch::Leading,
        lower: Lower::Kernel(lower),
        cost: cost_free,
        cases: &[
            Case { args: "c[3,5]", attrs: "", domains: &[Real] },
            Case { args: "c[]", attrs: "", domains: &[Real] },
            Case { args: "c[0,2]", attrs: "", domains: &[Real] },
            Case { args: "c[5000]", attrs: "", domains: &[Real] },
        ],
        ..OpDef::BLANK
    }
}

/// Complex numbers of their parts.
pub const COMPLEX: OpDef = OpDef {
    infer: |cx| {
        cx.same(0, 1)?;
        let dtype = cx.float(0)?;
        let to = dtype.complex().ok_or_else(|| format!("there are no complex numbers of {dtype}"))?;
        let dims = cx.dims(0);
        cx.result(to, &dims)
    },
    cases: &[
        Case { args: "f[3,5] f[3,5]", attrs: "", domains: &[Real] },
        Case { args: "f[] f[]", attrs: "", domains: &[Real] },
        Case { args: "f[0] f[0]", attrs: "", domains: &[Real] },
        Case { args: "f[5000] f[5000]", attrs: "", domains: &[Real] },
    ],
    ..define_op(
        "complex",
        "z = re + i·im",
        2,
        lower::emit_complex,
        Deriv::Linear(|_, i, g| Some(if i == 0 { g.real() } else { g.imag() })),
    )
};

/// Real parts.
pub const REAL: OpDef =
    define_op("real", "y = Re z", 1, lower::emit_real, Deriv::Linear(|_, _, g| Some(g.complex(g.full_like(0.0)))));

/// Imaginary parts.
pub const IMAG: OpDef =
    define_op("imag", "y = Im z", 1, lower::emit_imag, Deriv::Linear(|_, _, g| Some(g.full_like(0.0).complex(g))));
