//! Bits of integers: logic and shifts. Integers are two's complement.

use crate::ensure;
use crate::kernels::tile::TileOp;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ops::common::cost::cost_per_result;
use crate::nodes::ops::pointwise::no_immediates;
use Domain::{Count, Index};

fn infer_integers(cx: &mut Infer<'_>) -> Result<(), String> {
    for i in 0..cx.args.len() {
        ensure!(cx.dtype(i).is_int(), "operand {i} is {}; an integer type is needed", cx.dtype(i));
        cx.same(0, i)?;
    }
    cx.same_as(0)
}

const ONE: &[Case] = &[
    Case { args: "i32[3,5]", attrs: "", domains: &[Index(900)] },
    Case { args: "u8[1100]", attrs: "", domains: &[Index(256)] },
    Case { args: "i64[]", attrs: "", domains: &[Index(9)] },
];
const TWO: &[Case] = &[
    Case { args: "i32[3,5] i32[3,5]", attrs: "", domains: &[Index(900)] },
    Case { args: "u8[1100] u8[1100]", attrs: "", domains: &[Index(256)] },
    Case { args: "i64[] i64[]", attrs: "", domains: &[Index(9)] },
    Case { args: "u32[0] u32[0]", attrs: "", domains: &[Index(9)] },
];
const SHIFTS: &[Case] = &[
    Case { args: "i32[3,5] i32[3,5]", attrs: "", domains: &[Index(900), Count(40)] },
    Case { args: "u8[1100] u8[1100]", attrs: "", domains: &[Index(256), Count(9)] },
    Case { args: "i64[] i64[]", attrs: "", domains: &[Index(9), Count(3)] },
];

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
        infer: infer_integers,
        deriv,
        batch: Batch::Leading,
        lower: Lower::Tile(op, no_immediates),
        cost: cost_per_result,
        cases,
        ..OpDef::BLANK
    }
}

/// All bits inverted.
pub const BITWISE_NOT: OpDef =
    define_op("bitwise_not", "y = ¬a, bit by bit: −1 − a", 1, TileOp::BitNot, ONE, Deriv::Zero);
/// The bits that both integers have.
pub const BITWISE_AND: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::COMMUTES),
    deriv: Deriv::Zero,
    ..define_op("bitwise_and", "y = a ∧ b, bit by bit", 2, TileOp::BitAnd, TWO, Deriv::Zero)
};
/// The bits that either integer has.
pub const BITWISE_OR: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::COMMUTES),
    deriv: Deriv::Zero,
    ..define_op("bitwise_or", "y = a ∨ b, bit by bit", 2, TileOp::BitOr, TWO, Deriv::Zero)
};
/// The bits that one integer alone has.
pub const BITWISE_XOR: OpDef = OpDef {
    flags: Flags::PURE.and(Flags::COMMUTES),
    deriv: Deriv::Zero,
    ..define_op("bitwise_xor", "y = a ⊕ b, bit by bit", 2, TileOp::BitXor, TWO, Deriv::Zero)
};
/// Bits moved towards the highest.
pub const BITWISE_LEFT_SHIFT: OpDef = define_op(
    "bitwise_left_shift",
    "y = a·2ᵇ without the bits that leave the type; 0 if b is negative or not below the bits of the type",
    2,
    TileOp::ShiftLeft,
    SHIFTS,
    Deriv::Zero,
);
/// Bits moved towards the lowest.
pub const BITWISE_RIGHT_SHIFT: OpDef = define_op(
    "bitwise_right_shift",
    "y = ⌊a/2ᵇ⌋; if b is negative or not below the bits of the type, 0 for a ≥ 0 and −1 for a < 0",
    2,
    TileOp::ShiftRight,
    SHIFTS,
    Deriv::Zero,
);
