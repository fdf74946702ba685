//! Elementwise methods and operators of [`Var`]. Operands broadcast as in NumPy.
//!
//! Functions take `f32` and `f64` unless they say more; arithmetic and comparisons take integers too. A number as the
//! second operand takes the type of the first. A wrong operand is an error of the graph: the builder keeps the first
//! one, and [`Builder::finish`](crate::nodes::Builder::finish) returns it.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::build::broadcast::{Operand, broadcast_dims};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::pointwise::attrs::{CastAttrs, ClampAttrs, EluAttrs, LeakyReluAttrs};

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl<'g> Var<'g> {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(self) -> Var<'g> {
                self.g.emit1(Op::$op, &[self], &[])
            })*
        }
    };
}

unary! {
    /// −x. Also the operator `-`.
    neg_value => NEG;
    /// |x|. The derivative at 0 is 0.
    abs => ABS;
    /// −1, 0 or 1. ±0 and NaN stay as they are; the derivative is 0.
    sign => SIGN;
    /// eˣ of `f32` or `f64`.
    exp => EXP;
    /// eˣ − 1, accurate near 0.
    expm1 => EXPM1;
    /// ln x: NaN below 0, −∞ at 0.
    log => LOG;
    /// ln(1 + x), accurate near 0.
    log1p => LOG1P;
    /// √x: NaN below 0.
    sqrt => SQRT;
    /// 1/√x: NaN below 0, ∞ at 0.
    rsqrt => RSQRT;
    /// 1/x.
    recip => RECIP;
    /// sin x, x in radians.
    sin => SIN;
    /// cos x, x in radians.
    cos => COS;
    /// tan x, x in radians.
    tan => TAN;
    /// arctan x in radians, from −π/2 to π/2.
    atan => ATAN;
    /// tanh x.
    tanh => TANH;
    /// σ(x) = 1/(1 + e⁻ˣ).
    sigmoid => SIGMOID;
    /// The error function, 2/√π ∫₀ˣ e^(−t²) dt.
    erf => ERF;
    /// The largest integer not above x, of `f32` or `f64`. The derivative is 0.
    floor => FLOOR;
    /// The smallest integer not below x, of `f32` or `f64`. The derivative is 0.
    ceil => CEIL;
    /// The nearest integer, halves to the even one, of `f32` or `f64`. The derivative is 0.
    round => ROUND;
    /// max(x, 0). The derivative at 0 is 0.
    relu => RELU;
    /// x·Φ(x) with the error function: Φ(x) = ½(1 + erf(x/√2)). Source: Hendrycks and Gimpel, "Gaussian error linear
    /// units".
    gelu => GELU;
    /// The derivative of [`Var::gelu`]: Φ(x) + x·φ(x), φ being the density of the standard normal distribution.
    gelu_grad => GELU_GRAD;
    /// The tanh form of [`Var::gelu`]: ½x(1 + tanh(√(2/π)(x + 0.044715x³))).
    gelu_tanh => GELU_TANH;
    /// The derivative of [`Var::gelu_tanh`].
    gelu_tanh_grad => GELU_TANH_GRAD;
    /// x·σ(x), also called swish.
    silu => SILU;
    /// The derivative of [`Var::silu`]: σ(1 + x(1 − σ)).
    silu_grad => SILU_GRAD;
    /// ln(1 + eˣ), without overflow.
    softplus => SOFTPLUS;
    /// Logical not of a bool.
    logical_not => NOT;
    /// The value, of any type; derivatives treat it as a constant.
    stop_gradient => STOP_GRADIENT;
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl<'g> Var<'g> {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(self, b: impl Operand<'g>) -> Var<'g> {
                self.pair(Op::$op, b.var_like(self, Op::$op))
            })*
        }
    };
}

binary! {
    /// The larger of a and b; NaN if either is. A tie shares the gradient evenly. The operands broadcast.
    maximum => MAX;
    /// The smaller of a and b; NaN if either is. A tie shares the gradient evenly. The operands broadcast.
    minimum => MIN;
    /// aᵇ, as C's `pow`, of `f32` or `f64`. The derivative by a is 0 where b = 0. The derivative by b is 0 where a = 0
    /// and b ≥ 0, and NaN for a < 0.
    pow => POW;
    /// Whether a = b, as a bool. The operands broadcast.
    equal => EQ;
    /// Whether a ≠ b, as a bool. The operands broadcast.
    not_equal => NE;
    /// Whether a < b, as a bool. The operands broadcast.
    less => LT;
    /// Whether a ≤ b, as a bool. The operands broadcast.
    less_equal => LE;
    /// Whether a > b, as a bool. The operands broadcast.
    greater => GT;
    /// Whether a ≥ b, as a bool. The operands broadcast.
    greater_equal => GE;
    /// Logical and of two bools, which broadcast.
    logical_and => AND;
    /// Logical or of two bools, which broadcast.
    logical_or => OR;
}

impl<'g> Var<'g> {
    /// `a` where this bool is true, `b` elsewhere, as `torch.where`. All three broadcast; `a` and `b` have one type, any
    /// but `c64`. One of them may be a number, which takes the type of the other. The side that is not chosen gets an
    /// exact 0 as its gradient.
    #[track_caller]
    pub fn select(self, a: impl Operand<'g>, b: impl Operand<'g>) -> Var<'g> {
        let Some(like) = a.as_var().or(b.as_var()) else {
            return self.g.fail(Kind::Shape, "select: two numbers have no type; write one of them as a tensor");
        };
        let (a, b) = (a.var_like(like, Op::SELECT), b.var_like(like, Op::SELECT));
        if !self.g.owns("select", &[a, b]) {
            return self.g.var(Value::NONE);
        }
        let dims = broadcast_dims(&a.dims(), &b.dims()).and_then(|d| broadcast_dims(&d, &self.dims()));
        let Some(d) = dims else {
            let text = format!("select: shapes {}, {} and {} do not broadcast", self.dims(), a.dims(), b.dims());
            return self.g.fail(Kind::Shape, text);
        };
        self.g.emit1(Op::SELECT, &[self.broadcast(d), a.broadcast(d), b.broadcast(d)], &[])
    }

    /// max(lo, min(x, hi)). `lo` must not be above `hi`; an infinite bound does not bound. The derivative is 1 strictly
    /// inside the bounds, and 0 at and outside them.
    #[track_caller]
    pub fn clamp(self, lo: f64, hi: f64) -> Var<'g> {
        self.g.emit1(Op::CLAMP, &[self], &ClampAttrs { lo, hi }.list())
    }

    /// x where x > 0, slope·x elsewhere. The derivative at 0 is the slope.
    #[track_caller]
    pub fn leaky_relu(self, slope: f64) -> Var<'g> {
        self.g.emit1(Op::LEAKY_RELU, &[self], &LeakyReluAttrs { slope }.list())
    }

    /// x where x > 0, alpha·(eˣ − 1) elsewhere.
    #[track_caller]
    pub fn elu(self, alpha: f64) -> Var<'g> {
        self.g.emit1(Op::ELU, &[self], &EluAttrs { alpha }.list())
    }

    /// The same numbers in type `to`. Floats become integers by truncation and saturation, and bools by x ≠ 0. `c64`
    /// has no casts.
    #[track_caller]
    pub fn cast(self, to: DType) -> Var<'g> {
        if self.is_some() && self.dtype() == to {
            return self;
        }
        self.g.emit1(Op::CAST, &[self], &CastAttrs { to }.list())
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<'g> std::ops::$trait<Var<'g>> for Var<'g> {
            type Output = Var<'g>;
            #[track_caller]
            fn $method(self, b: Var<'g>) -> Var<'g> {
                self.pair(Op::$op, b)
            }
        }
        impl<'g> std::ops::$trait<f64> for Var<'g> {
            type Output = Var<'g>;
            #[track_caller]
            fn $method(self, b: f64) -> Var<'g> {
                self.pair(Op::$op, b.var_like(self, Op::$op))
            }
        }
        impl<'g> std::ops::$trait<Var<'g>> for f64 {
            type Output = Var<'g>;
            #[track_caller]
            fn $method(self, b: Var<'g>) -> Var<'g> {
                self.var_like(b, Op::$op).pair(Op::$op, b)
            }
        }
    )*};
}

operator! {
    Add add ADD;
    Sub sub SUB;
    Mul mul MUL;
    Div div DIV;
}

impl<'g> std::ops::Neg for Var<'g> {
    type Output = Var<'g>;
    #[track_caller]
    fn neg(self) -> Var<'g> {
        self.neg_value()
    }
}
