//! Comparisons, logic, selection and casts.

use crate::ensure;
use crate::kernels::tile::TileOp;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ops::common::cost::{cost_free, cost_per_result};
use crate::nodes::ops::pointwise::attrs::CastAttrs;
use crate::nodes::ops::pointwise::no_immediates;
use Domain::{Bit, Real};

const fn define_op(
    name: &'static str,
    doc: &'static str,
    arity: usize,
    op: TileOp,
    cases: &'static [Case],
    deriv: Deriv,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(arity),
        attrs: &[],
        flags: Flags::PURE,
        infer: infer_equality,
        deriv,
        batch: Batch::Leading,
        lower: Lower::Tile(op, no_immediates),
        cost: cost_per_result,
        cases,
        ..OpDef::BLANK
    }
}

fn infer_equality(cx: &mut Infer<'_>) -> Result<(), String> {
    cx.same(0, 1)?;
    cx.real(0)?;
    let d = cx.dtype(0);
    ensure!(d.is_float() || d.is_int() || d == DType::Bool, "no comparison in {d}; cast to f32 or f64");
    let dims = cx.dims(0);
    cx.result(DType::Bool, &dims)
}

/// As [`infer_equality`], for ops that ask which of two elements is larger.
fn infer_order(cx: &mut Infer<'_>) -> Result<(), String> {
    ensure!(cx.dtype(0) != DType::Bool, "bools have no order; cast to i32");
    infer_equality(cx)
}

fn infer_logic(cx: &mut Infer<'_>) -> Result<(), String> {
    for i in 0..cx.args.len() {
        ensure!(cx.dtype(i) == DType::Bool, "operand {i} is {}; bool is needed", cx.dtype(i));
        cx.same(0, i)?;
    }
    cx.same_as(0)
}

const PAIRS: &[Case] = &[
    Case { args: "f[3,5] f[3,5]", attrs: "", domains: &[Real] },
    Case { args: "i32[40] i32[40]", attrs: "", domains: &[Domain::Index(3)] },
    Case { args: "i64[1100] i64[1100]", attrs: "", domains: &[Domain::Index(3)] },
];
/// The flags of comparisons.
const STEP: Flags = Flags::PURE.and(Flags::STEP);
const BITS2: &[Case] = &[Case { args: "bool[40] bool[40]", attrs: "", domains: &[Bit] }];

/// Whether two elements are equal.
pub const EQ: OpDef =
    OpDef { flags: STEP.and(Flags::COMMUTES), ..define_op("eq", "y = (a = b)", 2, TileOp::Eq, PAIRS, Deriv::Zero) };
/// Whether two elements differ.
pub const NE: OpDef =
    OpDef { flags: STEP.and(Flags::COMMUTES), ..define_op("ne", "y = (a ≠ b)", 2, TileOp::Ne, PAIRS, Deriv::Zero) };
/// Whether an element is below another.
pub const LT: OpDef =
    OpDef { flags: STEP, infer: infer_order, ..define_op("lt", "y = (a < b)", 2, TileOp::Lt, PAIRS, Deriv::Zero) };
/// Whether an element is at most another.
pub const LE: OpDef =
    OpDef { flags: STEP, infer: infer_order, ..define_op("le", "y = (a ≤ b)", 2, TileOp::Le, PAIRS, Deriv::Zero) };
/// Whether an element is above another.
pub const GT: OpDef =
    OpDef { flags: STEP, infer: infer_order, ..define_op("gt", "y = (a > b)", 2, TileOp::Gt, PAIRS, Deriv::Zero) };
/// Whether an element is at least another.
pub const GE: OpDef =
    OpDef { flags: STEP, infer: infer_order, ..define_op("ge", "y = (a ≥ b)", 2, TileOp::Ge, PAIRS, Deriv::Zero) };

/// Logical and of two bools.
pub const AND: OpDef = OpDef {
    infer: infer_logic,
    flags: Flags::PURE.and(Flags::COMMUTES),
    ..define_op("and", "y = a ∧ b", 2, TileOp::And, BITS2, Deriv::Zero)
};
/// Logical or of two bools.
pub const OR: OpDef = OpDef {
    infer: infer_logic,
    flags: Flags::PURE.and(Flags::COMMUTES),
    ..define_op("or", "y = a ∨ b", 2, TileOp::Or, BITS2, Deriv::Zero)
};
/// Logical not of a bool.
pub const NOT: OpDef = OpDef {
    infer: infer_logic,
    ..define_op("not", "y = ¬a", 1, TileOp::Not, &[Case { args: "bool[40]", attrs: "", domains: &[Bit] }], Deriv::Zero)
};

/// One of two elements, chosen by a bool.
pub const SELECT: OpDef = OpDef {
    infer: |cx| {
        ensure!(cx.dtype(0) == DType::Bool, "the condition is {}; bool is needed", cx.dtype(0));
        cx.real(1)?;
        cx.same(1, 2)?;
        ensure!(cx.dims(0) == cx.dims(1), "the condition has shape {}, the operands {}", cx.dims(0), cx.dims(1));
        cx.same_as(1)
    },
    ..define_op(
        "select",
        "y = c ? a : b",
        3,
        TileOp::Select,
        &[
            Case { args: "bool[3,5] f[3,5] f[3,5]", attrs: "", domains: &[Bit, Real] },
            Case { args: "bool[1100] f[1100] f[1100]", attrs: "", domains: &[Bit, Real] },
        ],
        // The side that is not taken gets an exact zero. A product with the mask would turn ∞ into NaN.
        Deriv::Linear(|s, i, g| {
            let zero = g.full_like(0.0);
            match i {
                1 => Some(s.args[0].select(g, zero)),
                2 => Some(s.args[0].select(zero, g)),
                _ => None,
            }
        }),
    )
};

/// The same numbers in another element type.
pub const CAST: OpDef = OpDef {
    attrs: CastAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::MOVE),
    infer: |cx| {
        let (from, to) = (cx.dtype(0), CastAttrs::of(&cx.attrs).to);
        ensure!(!from.is_complex() && !to.is_complex(), "no cast from {from} to {to}; complex, real and imag convert");
        let dims = cx.dims(0);
        cx.result(to, &dims)
    },
    cost: cost_free,
    ..define_op(
        "cast",
        "the numbers of x in type `to`: truncates toward 0 and saturates to integers, x ≠ 0 to bool",
        1,
        TileOp::Cast,
        &[
            Case { args: "f[3,5]", attrs: "to=f64", domains: &[Real] },
            Case { args: "i32[9]", attrs: "to=f32", domains: &[Domain::Index(9)] },
            Case { args: "bool[9]", attrs: "to=f64", domains: &[Bit] },
        ],
        Deriv::Linear(|s, _, g| {
            let from = s.args[0].dtype();
            from.is_differentiable().then(|| g.cast(from))
        }),
    )
};
