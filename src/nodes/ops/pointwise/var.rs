//! Point-wise methods and operators of [`Var`], which broadcast as NumPy does.

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
    /// |x|.
    abs => ABS;
    /// −1, 0 or 1.
    sign => SIGN;
    /// eˣ.
    exp => EXP;
    /// eˣ − 1, accurate near 0.
    expm1 => EXPM1;
    /// ln x.
    log => LOG;
    /// ln(1 + x), accurate near 0.
    log1p => LOG1P;
    /// √x.
    sqrt => SQRT;
    /// 1/√x.
    rsqrt => RSQRT;
    /// 1/x.
    recip => RECIP;
    /// sin x.
    sin => SIN;
    /// cos x.
    cos => COS;
    /// tan x.
    tan => TAN;
    /// arctan x.
    atan => ATAN;
    /// tanh x.
    tanh => TANH;
    /// 1/(1 + e⁻ˣ).
    sigmoid => SIGMOID;
    /// The error function.
    erf => ERF;
    /// Largest integer not above x.
    floor => FLOOR;
    /// Smallest integer not below x.
    ceil => CEIL;
    /// Nearest integer, halves to even.
    round => ROUND;
    /// max(x, 0).
    relu => RELU;
    /// x·Φ(x), with the error function.
    gelu => GELU;
    /// The derivative of `gelu`.
    gelu_grad => GELU_GRAD;
    /// GELU in its tanh form.
    gelu_tanh => GELU_TANH;
    /// The derivative of `gelu_tanh`.
    gelu_tanh_grad => GELU_TANH_GRAD;
    /// x·σ(x).
    silu => SILU;
    /// The derivative of `silu`.
    silu_grad => SILU_GRAD;
    /// ln(1 + eˣ).
    softplus => SOFTPLUS;
    /// Logical not.
    logical_not => NOT;
    /// x, through which no derivative passes.
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
    /// The larger; NaN if either is.
    maximum => MAX;
    /// The smaller; NaN if either is.
    minimum => MIN;
    /// aᵇ.
    pow => POW;
    /// a = b.
    equal => EQ;
    /// a ≠ b.
    not_equal => NE;
    /// a < b.
    less => LT;
    /// a ≤ b.
    less_equal => LE;
    /// a > b.
    greater => GT;
    /// a ≥ b.
    greater_equal => GE;
    /// Logical and.
    logical_and => AND;
    /// Logical or.
    logical_or => OR;
}

impl<'g> Var<'g> {
    /// `a` where this is true, `b` elsewhere; all three broadcast.
    #[track_caller]
    pub fn select(self, a: Var<'g>, b: Var<'g>) -> Var<'g> {
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

    /// max(lo, min(x, hi)).
    #[track_caller]
    pub fn clamp(self, lo: f64, hi: f64) -> Var<'g> {
        self.g.emit1(Op::CLAMP, &[self], &ClampAttrs { lo, hi }.list())
    }

    /// x where x > 0, slope·x elsewhere.
    #[track_caller]
    pub fn leaky_relu(self, slope: f64) -> Var<'g> {
        self.g.emit1(Op::LEAKY_RELU, &[self], &LeakyReluAttrs { slope }.list())
    }

    /// x where x > 0, alpha·(eˣ − 1) elsewhere.
    #[track_caller]
    pub fn elu(self, alpha: f64) -> Var<'g> {
        self.g.emit1(Op::ELU, &[self], &EluAttrs { alpha }.list())
    }

    /// The same numbers in another element type.
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
