//! Elementwise methods and operators of [`Var`]. Operands broadcast as in NumPy.
//!
//! Functions take `f32` and `f64` unless they say more; arithmetic and comparisons take integers too. `complex/var.rs`
//! lists the methods that complex numbers have. A number as the second operand takes the type of the first. A wrong
//! operand is an error of the graph: the builder keeps the first one, and
//! [`Builder::finish`](crate::nodes::Builder::finish) returns it.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::arguments::broadcast::broadcast_dims;
use crate::nodes::arguments::operand::Operand;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::complex::forms::{
    complex_binary_form, complex_cast_form, complex_selected_form, complex_unary_form,
};
use crate::nodes::ops::pointwise::attrs::{CastAttrs, ClampAttrs, PolygammaAttrs};
use std::f64::consts::PI;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl<'g> Var<'g> {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(self) -> Var<'g> {
                self.unary_op(Op::$op)
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
    /// x, and +0 where |x| is below the smallest normal number of its type, 1.2e-38 in `f32` and 2.2e-308 in `f64`; the
    /// derivative is 1. A processor may take two hundred times as long for a product with such a number: flush a value
    /// that fades in a loop in each iteration.
    flush_subnormals => FLUSH_SUBNORMALS;
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
    /// x rounded toward 0, of `f32` or `f64`. The derivative is 0.
    trunc => TRUNC;
    /// arcsin x in radians, from −π/2 to π/2; NaN outside [−1, 1].
    asin => ASIN;
    /// arccos x in radians, from 0 to π; NaN outside [−1, 1].
    acos => ACOS;
    /// sinh x.
    sinh => SINH;
    /// cosh x.
    cosh => COSH;
    /// arsinh x = ln(x + √(x² + 1)), accurate near 0.
    asinh => ASINH;
    /// arcosh x = ln(x + √(x² − 1)): NaN below 1.
    acosh => ACOSH;
    /// artanh x = ½ ln((1 + x)/(1 − x)): ±∞ at ±1, NaN beyond.
    atanh => ATANH;
    /// 2ˣ; exact for integers.
    exp2 => EXP2;
    /// log₂ x: NaN below 0, −∞ at 0; exact for powers of 2.
    log2 => LOG2;
    /// log₁₀ x: NaN below 0, −∞ at 0.
    log10 => LOG10;
    /// 1 − erf x, accurate for large x.
    erfc => ERFC;
    /// The inverse of [`Var::erf`]: ±∞ at ±1, NaN beyond.
    erfinv => ERFINV;
    /// The inverse of [`Var::erfc`]: ∞ at 0, −∞ at 2, NaN beyond.
    erfcinv => ERFCINV;
    /// ln |Γ(x)|: ∞ at 0, −1, −2 …. Γ(n + 1) = n!.
    lgamma => LGAMMA;
    /// ψ(x), the derivative of [`Var::lgamma`]: ∓∞ at ±0, NaN at −1, −2 ….
    digamma => DIGAMMA;
    /// Whether x is NaN, as a bool.
    isnan => ISNAN;
    /// Whether x is ∞ or −∞, as a bool.
    isinf => ISINF;
    /// Whether x is neither infinite nor NaN, as a bool.
    isfinite => ISFINITE;
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
                self.binary_op(Op::$op, b.var_like(self, Op::$op))
            })*
        }
    };
}

binary! {
    /// The larger of a and b; NaN if either is. A tie shares the gradient evenly. The operands broadcast.
    maximum => MAX;
    /// The smaller of a and b; NaN if either is. A tie shares the gradient evenly. The operands broadcast.
    minimum => MIN;
    /// aᵇ, as C's `pow`, of `f32` or `f64`; of integers, by squaring, which wraps. An exponent of an integer below 0
    /// fails the step, as in torch. The derivative with respect to a is 0 where b = 0. The derivative with
    /// respect to b is 0 where a = 0 and b ≥ 0, and NaN for a < 0.
    pow => POW;
    /// The angle of the point (b, a) in radians, in (−π, π], with C's signs: (±0, b) gives ±0 for b ≥ +0 and ±π for
    /// b ≤ −0. Both derivatives are 0 at (0, 0). The operands broadcast.
    atan2 => ATAN2;
    /// √(a² + b²) without overflow in between. Both derivatives are 0 at (0, 0). The operands broadcast.
    hypot => HYPOT;
    /// |a| with the sign of b. The derivative with respect to a is ±1, and 0 at a = 0; the one with respect to b is 0.
    /// The operands broadcast.
    copysign => COPYSIGN;
    /// The next number of the type after a towards b. It has no derivative. The operands broadcast.
    nextafter => NEXTAFTER;
    /// a − trunc(a/b)·b, exact, with the sign of a: C's `fmod`, and `%` of Rust's integers. The derivative with respect
    /// to b is −trunc(a/b). Division of an integer by 0 is an error of the step. The operands broadcast.
    fmod => FMOD;
    /// a − ⌊a/b⌋·b, with the sign of b: Python's `%`. The derivative with respect to b is −⌊a/b⌋. Division of an
    /// integer by 0 is an error of the step. The operands broadcast.
    remainder => REMAINDER;
    /// ⌊a/b⌋, of floats and integers: Python's `//`. The derivative is 0. Division of an integer by 0 is an error of
    /// the step. The operands broadcast.
    floor_divide => FLOOR_DIVIDE;
    /// The larger of a and b; the other one if one is NaN. A tie shares the gradient evenly. The operands broadcast.
    fmax => FMAX;
    /// The smaller of a and b; the other one if one is NaN. A tie shares the gradient evenly. The operands broadcast.
    fmin => FMIN;
    /// ln(eᵃ + eᵇ) without overflow. Two −∞ give −∞, with derivatives of 0. The operands broadcast.
    logaddexp => LOGADDEXP;
    /// a·ln b, and 0 where a = 0 unless b is NaN. The operands broadcast.
    xlogy => XLOGY;
    /// a·2ᵇ of integers, without the bits that leave the type; 0 if b is negative or not below the type's number of
    /// bits. The operands broadcast.
    bitwise_left_shift => BITWISE_LEFT_SHIFT;
    /// ⌊a/2ᵇ⌋ of integers. If b is negative or not below the type's number of bits, 0, and −1 for a negative a. The
    /// operands broadcast.
    bitwise_right_shift => BITWISE_RIGHT_SHIFT;
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
    /// `op` of this value. That of a complex value is written in real ops.
    #[track_caller]
    fn unary_op(self, op: Op) -> Var<'g> {
        match complex_unary_form(op, self) {
            Some(y) => y,
            None => self.g.emit1(op, &[self], &[]),
        }
    }

    /// `op` of two values, which broadcast. That of complex values is written in real ops.
    #[track_caller]
    fn binary_op(self, op: Op, b: Var<'g>) -> Var<'g> {
        match complex_binary_form(op, self, b) {
            Some(y) => y,
            None => self.pair(op, b),
        }
    }

    /// `a` where this bool is true, `b` elsewhere, as in `torch.where`. All three broadcast; `a` and `b` have one type,
    /// or one is complex and the other has the type of its parts. One of them may be a number, which takes the type of
    /// the other. The side that is not chosen gets an exact 0 as its gradient.
    #[track_caller]
    pub fn select(self, a: impl Operand<'g>, b: impl Operand<'g>) -> Var<'g> {
        let Some(like) = a.as_var().or(b.as_var()) else {
            return self.g.fail(Kind::Shape, "select: two numbers have no type; select_as takes it");
        };
        let (a, b) = (a.var_like(like, Op::SELECT), b.var_like(like, Op::SELECT));
        if !self.g.owns("select", &[a, b]) {
            return self.g.var(Value::NONE);
        }
        if let Some(z) = complex_selected_form(self, a, b) {
            return z;
        }
        let dims = broadcast_dims(&a.dims(), &b.dims()).and_then(|d| broadcast_dims(&d, &self.dims()));
        let Some(d) = dims else {
            let text = format!("select: shapes {}, {} and {} do not broadcast", self.dims(), a.dims(), b.dims());
            return self.g.fail(Kind::Shape, text);
        };
        self.g.emit1(Op::SELECT, &[self.broadcast(d), a.broadcast(d), b.broadcast(d)], &[])
    }

    /// max(lo, min(x, hi)), of floats or integers. `lo` must not be above `hi`, and both must be elements of the type;
    /// an infinite bound is no bound. The derivative is 1 strictly inside the bounds, and 0 at and outside them.
    #[track_caller]
    pub fn clamp(self, lo: f64, hi: f64) -> Var<'g> {
        self.g.emit1(Op::CLAMP, &[self], &ClampAttrs { lo, hi }.list())
    }

    /// ψ⁽ⁿ⁾(x) with n = `order` from 1 to 30: the n-th derivative of [`Var::digamma`], of `f32` or `f64`.
    #[track_caller]
    pub fn polygamma(self, order: i64) -> Var<'g> {
        self.g.emit1(Op::POLYGAMMA, &[self], &PolygammaAttrs { order }.list())
    }

    /// `integers` of integers, `bools` of bools.
    #[track_caller]
    fn bits_of_pair(self, b: impl Operand<'g>, integers: Op, bools: Op) -> Var<'g> {
        let op = if self.is_some() && self.dtype() == DType::Bool { bools } else { integers };
        self.pair(op, b.var_like(self, op))
    }

    /// The bits that both a and b have; of bools, whether both hold. The operands broadcast.
    #[track_caller]
    pub fn bitwise_and(self, b: impl Operand<'g>) -> Var<'g> {
        self.bits_of_pair(b, Op::BITWISE_AND, Op::AND)
    }

    /// The bits that a or b has; of bools, whether one holds. The operands broadcast.
    #[track_caller]
    pub fn bitwise_or(self, b: impl Operand<'g>) -> Var<'g> {
        self.bits_of_pair(b, Op::BITWISE_OR, Op::OR)
    }

    /// The bits that one of a and b has; of bools, whether one alone holds. The operands broadcast.
    #[track_caller]
    pub fn bitwise_xor(self, b: impl Operand<'g>) -> Var<'g> {
        self.bits_of_pair(b, Op::BITWISE_XOR, Op::NE)
    }

    /// All bits of an integer inverted; of a bool, its negation.
    #[track_caller]
    pub fn bitwise_not(self) -> Var<'g> {
        let bools = self.is_some() && self.dtype() == DType::Bool;
        self.g.emit1(if bools { Op::NOT } else { Op::BITWISE_NOT }, &[self], &[])
    }

    /// x², of any type that `*` takes.
    #[track_caller]
    pub fn square(self) -> Var<'g> {
        self * self
    }

    /// sin(πx) / (πx), and 1 at 0. Near 0 it is a series of eight terms, so that four derivatives are exact there, too.
    #[track_caller]
    pub fn sinc(self) -> Var<'g> {
        let z = self * PI;
        let near = z.abs().less(0.5);
        let one = z.full_like(1.0);
        // Neither side sees the numbers of the other, so that no 0/0 and no overflow reaches a derivative.
        let (far, w) = (near.select(one, z), near.select(z, 0.0).square());
        let series = (1..8).rev().fold(one, |rest, n| 1.0 - rest * w * (1.0 / f64::from(2 * n * (2 * n + 1))));
        near.select(series, far.sin() / far)
    }

    /// ln(x / (1 − x)), the inverse of [`Var::sigmoid`]: ∓∞ at 0 and 1, NaN outside of [0, 1].
    #[track_caller]
    pub fn logit(self) -> Var<'g> {
        self.log() - (-self).log1p()
    }

    /// `nan` in place of NaN, `high` of ∞, `low` of −∞. Without `high` and `low`, the largest and the least number of
    /// the type. The derivative is 0 where an element is replaced.
    #[track_caller]
    pub fn nan_to_num(self, nan: f64, high: Option<f64>, low: Option<f64>) -> Var<'g> {
        let largest = if self.is_some() && self.dtype() == DType::F32 { f64::from(f32::MAX) } else { f64::MAX };
        let put = |x: Var<'g>, at: Var<'g>, value: f64| at.select(x.full_like(value), x);
        let x = put(self, self.isnan(), nan);
        let x = put(x, x.equal(f64::INFINITY), high.unwrap_or(largest));
        put(x, x.equal(f64::NEG_INFINITY), low.unwrap_or(-largest))
    }

    /// x + weight·(end − x), exact at weights of 0 and 1. The operands broadcast.
    #[track_caller]
    pub fn lerp(self, end: Var<'g>, weight: impl Operand<'g>) -> Var<'g> {
        let weight = weight.var_like(self, Op::MUL);
        let way = end - self;
        let (from_start, from_end) = (self + weight * way, end - (1.0 - weight) * way);
        weight.less(0.5).select(from_start, from_end)
    }

    /// `value` where `mask` is true, x elsewhere. Where it is true, the derivative is 0. The two broadcast.
    #[track_caller]
    pub fn masked_fill(self, mask: Var<'g>, value: f64) -> Var<'g> {
        match self.is_some() {
            true => mask.select(value.var_like(self, Op::SELECT), self),
            false => self,
        }
    }

    /// The same numbers in type `to`. Floats become integers by truncation and saturation, and bools by x ≠ 0. Real
    /// numbers become complex ones with an imaginary part of 0. A complex number becomes no real one: [`Var::real`]
    /// takes its real part.
    #[track_caller]
    pub fn cast(self, to: DType) -> Var<'g> {
        if self.is_some() && self.dtype() == to {
            return self;
        }
        match complex_cast_form(self, to) {
            Some(y) => y,
            None => self.g.emit1(Op::CAST, &[self], &CastAttrs { to }.list()),
        }
    }

    /// The number `a` where this bool is true, `b` elsewhere, as `dtype`, which must hold both.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    ///
    /// let g = Builder::new("signs");
    /// let x = g.input("x", [3], DType::F32);
    /// x.less(0.0).select_as(-1.0, 1.0, DType::I32).tap("sign");
    /// let mut p = Session::new().compile(&g.finish([])?)?;
    /// p.values_mut::<f32>("x")?.copy_from_slice(&[-2.0, 0.0, 3.0]);
    /// p.step()?;
    /// assert_eq!(p.values::<i32>("sign")?, [-1, 1, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn select_as(self, a: f64, b: f64, dtype: DType) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        if let Some(x) = [a, b].into_iter().find(|&x| !dtype.can_hold(x)) {
            return self.refuse("select_as", format!("{x:?} is no element of {dtype}"));
        }
        self.g.with_caller(|| self.select(self.g.full(a, [], dtype), b))
    }

    /// This value where `cond` is true, `other` (a value or a number) elsewhere, as in `torch.Tensor.where`: the same
    /// as `cond.select(self, other)`.
    #[track_caller]
    pub fn where_(self, cond: Var<'g>, other: impl Operand<'g>) -> Var<'g> {
        cond.select(self, other)
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<'g> std::ops::$trait<Var<'g>> for Var<'g> {
            type Output = Var<'g>;
            #[track_caller]
            fn $method(self, b: Var<'g>) -> Var<'g> {
                self.binary_op(Op::$op, b)
            }
        }
        impl<'g> std::ops::$trait<f64> for Var<'g> {
            type Output = Var<'g>;
            #[track_caller]
            fn $method(self, b: f64) -> Var<'g> {
                self.binary_op(Op::$op, b.var_like(self, Op::$op))
            }
        }
        impl<'g> std::ops::$trait<Var<'g>> for f64 {
            type Output = Var<'g>;
            #[track_caller]
            fn $method(self, b: Var<'g>) -> Var<'g> {
                self.var_like(b, Op::$op).binary_op(Op::$op, b)
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
