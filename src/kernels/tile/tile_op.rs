//! The operations of tile programs.
//!
//! Invariant: `TileOp::ALL[op as usize] == op`. [`supports_operand_type`] alone decides which element types an
//! operation has; `apply` has an arm for each.

use crate::fault::{Cause, NEGATIVE_EXPONENT, ZERO_DIVISOR};
use arenagrad_arena::DType;

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// An element-wise operation. `a`, `b`, `c` are its operands; `imm` its immediates.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum TileOp { $($(#[$doc])* $name,)* }

        impl TileOp {
            /// Every operation, in the order of the codes.
            pub const ALL: &[TileOp] = &[$(TileOp::$name,)*];
        }
    };
}

ops! {
    /// −a; wraps for integers.
    Neg,
    /// |a|; wraps for integers.
    Abs,
    /// −1, 0 or 1; keeps NaN and the sign of zero.
    Sign,
    /// eᵃ.
    Exp,
    /// eᵃ − 1.
    Expm1,
    /// log a.
    Log,
    /// log(1 + a).
    Log1p,
    /// √a.
    Sqrt,
    /// 1/√a.
    Rsqrt,
    /// 1/a.
    Recip,
    /// sin a.
    Sin,
    /// cos a.
    Cos,
    /// tan a.
    Tan,
    /// atan a.
    Atan,
    /// tanh a.
    Tanh,
    /// 1 / (1 + e⁻ᵃ).
    Sigmoid,
    /// The error function.
    Erf,
    /// Rounds down.
    Floor,
    /// Rounds up.
    Ceil,
    /// Rounds to nearest, half to even.
    Round,
    /// max(a, 0): NaN stays, −0 becomes 0.
    Relu,
    /// a where a > 0, else `imm[0]`·a.
    LeakyRelu,
    /// a where a > 0, else `imm[0]`·(eᵃ − 1).
    Elu,
    /// a·Φ(a).
    Gelu,
    /// The derivative of [`TileOp::Gelu`].
    GeluGrad,
    /// The tanh form of [`TileOp::Gelu`].
    GeluTanh,
    /// The derivative of [`TileOp::GeluTanh`].
    GeluTanhGrad,
    /// a·sigmoid(a).
    Silu,
    /// The derivative of [`TileOp::Silu`].
    SiluGrad,
    /// log(1 + eᵃ).
    Softplus,
    /// Rounds toward zero.
    Trunc,
    /// arcsin a.
    Asin,
    /// arccos a.
    Acos,
    /// sinh a.
    Sinh,
    /// cosh a.
    Cosh,
    /// arsinh a.
    Asinh,
    /// arcosh a.
    Acosh,
    /// artanh a.
    Atanh,
    /// 2ᵃ.
    Exp2,
    /// log₂ a.
    Log2,
    /// log₁₀ a.
    Log10,
    /// 1 − erf a.
    Erfc,
    /// The inverse of [`TileOp::Erf`].
    Erfinv,
    /// The inverse of [`TileOp::Erfc`].
    Erfcinv,
    /// log |Γ(a)|.
    Lgamma,
    /// The derivative of [`TileOp::Lgamma`].
    Digamma,
    /// The derivative of order `imm[0]` of [`TileOp::Digamma`].
    Polygamma,
    /// All bits inverted.
    BitNot,
    /// Logical not.
    Not,
    /// a, byte for byte.
    Copy,
    /// a + b; wraps for integers.
    Add,
    /// a − b; wraps for integers.
    Sub,
    /// a·b; wraps for integers.
    Mul,
    /// a / b. Integers truncate and wrap; by zero gives 0 and a fault at the element.
    Div,
    /// The larger; NaN where either is NaN; +0 over −0.
    Max,
    /// The smaller; NaN where either is NaN; −0 under +0.
    Min,
    /// aᵇ. Integers wrap, and an exponent below 0 gives 0 and a fault at the element.
    Pow,
    /// The angle of the point (b, a).
    Atan2,
    /// √(a² + b²).
    Hypot,
    /// |a| with the sign of b.
    Copysign,
    /// The next number after a towards b.
    Nextafter,
    /// a − trunc(a/b)·b. For integers, by zero gives 0 and a fault at the element.
    Fmod,
    /// a − ⌊a/b⌋·b. For integers, by zero gives 0 and a fault at the element.
    Remainder,
    /// ⌊a/b⌋. Integers wrap; by zero gives 0 and a fault at the element.
    FloorDivide,
    /// The bits of both.
    BitAnd,
    /// The bits of either.
    BitOr,
    /// The bits of one alone.
    BitXor,
    /// a · 2ᵇ without the bits that leave the type; 0 if b is not in `0..bits`.
    ShiftLeft,
    /// ⌊a / 2ᵇ⌋; if b is not in `0..bits`, 0, and −1 for a negative a.
    ShiftRight,
    /// a = b, as a Bool.
    Eq,
    /// a ≠ b, as a Bool.
    Ne,
    /// a < b, as a Bool.
    Lt,
    /// a ≤ b, as a Bool.
    Le,
    /// a > b, as a Bool.
    Gt,
    /// a ≥ b, as a Bool.
    Ge,
    /// Logical and.
    And,
    /// Logical or.
    Or,
    /// b where the Bool a is true, else c, byte for byte.
    Select,
    /// b where a > 0, else 0, whatever b is: the derivative of [`TileOp::Relu`] times b, from its result.
    Gate,
    /// b · (1 − a²), each rounded: the derivative of [`TileOp::Tanh`] times b, from its result.
    TanhGrad,
    /// b · (a · (1 − a)), each rounded: the derivative of [`TileOp::Sigmoid`] times b, from its result.
    SigmoidGrad,
    /// min(max(a, `imm[0]`), `imm[1]`); NaN stays.
    Clamp,
    /// a converted from `elem` to `out`: see `cast`.
    Cast,
    /// The constant `imm[0] + imm[1]`. For integers the sum is exact (two floats can represent any `i64`) and clamped
    /// to the type's range.
    Fill,
}

impl TileOp {
    /// Number of operands.
    #[inline]
    pub const fn arity(self) -> usize {
        use TileOp::*;
        match self {
            Fill => 0,
            Add | Sub | Mul | Div | Max | Min | Pow | Eq | Ne | Lt | Le | Gt | Ge | And | Or | Gate | TanhGrad
            | SigmoidGrad | Atan2 | Hypot | Copysign | Nextafter | Fmod | Remainder | FloorDivide | BitAnd | BitOr
            | BitXor | ShiftLeft | ShiftRight => 2,
            Select => 3,
            _ => 1,
        }
    }

    /// Whether the result is a Bool whatever the operands are.
    #[inline]
    pub const fn compares(self) -> bool {
        use TileOp::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }

    /// What the second of two integers can be at fault for.
    #[inline]
    pub const fn cause(self) -> Option<&'static Cause> {
        use TileOp::*;
        match self {
            Div | Fmod | Remainder | FloorDivide => Some(&ZERO_DIVISOR),
            Pow => Some(&NEGATIVE_EXPONENT),
            _ => None,
        }
    }

    /// The element type of operand `k` of a step on `elem`.
    #[inline]
    pub fn operand(self, elem: DType, k: usize) -> DType {
        if self == TileOp::Select && k == 0 { DType::Bool } else { elem }
    }
}

/// Whether `op` exists for operands of type `elem`. ([`TileOp::Cast`] takes any pair of [`DType::REAL`].)
pub fn supports_operand_type(op: TileOp, elem: DType) -> bool {
    use TileOp::*;
    match op {
        Copy | Select | Cast | Fill => DType::REAL.contains(&elem),
        Not | And | Or => elem == DType::Bool,
        Eq | Ne => elem.is_float() || elem.is_int() || elem == DType::Bool,
        BitNot | BitAnd | BitOr | BitXor | ShiftLeft | ShiftRight => elem.is_int(),
        Neg | Abs | Sign | Add | Sub | Mul | Div | Max | Min | Pow | Lt | Le | Gt | Ge | Clamp | Fmod | Remainder
        | FloorDivide => elem.is_float() || elem.is_int(),
        _ => elem.is_float(),
    }
}
