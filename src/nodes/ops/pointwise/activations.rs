//! Activations and other pointwise functions of one tensor that are formulas of ops, as methods of [`Var`].
//!
//! Values and derivatives at kinks are torch's. All take `f32` and `f64`. Fusion computes each in one sweep.

use crate::error::Kind;
use crate::nodes::build::broadcast::Operand;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use std::f64::consts::PI;

/// The slope and the bound of [`Var::selu`]. Source: Klambauer et al., "Self-normalizing neural networks".
const SELU: (f64, f64) = (1.050_700_987_355_480_5, 1.673_263_242_354_377_2);

impl<'g> Var<'g> {
    /// An error of `name` unless `x` is finite and `holds`.
    #[track_caller]
    fn needs(self, name: &str, what: &str, x: f64, holds: bool) -> Option<Var<'g>> {
        if x.is_finite() && holds {
            return None;
        }
        Some(self.g.fail(Kind::Shape, format!("{name}({}{}): {what} is {x}", self.dtype(), self.dims())))
    }

    /// x², of any type with arithmetic.
    #[track_caller]
    pub fn square(self) -> Var<'g> {
        self * self
    }

    /// sin(πx) / (πx), and 1 at 0. The first derivative at 0 is 0; those of a higher order are exact elsewhere alone.
    #[track_caller]
    pub fn sinc(self) -> Var<'g> {
        let z = self * PI;
        let zero = z.equal(0.0);
        let one = z.full_like(1.0);
        // The quotient sees 1 where it is not taken, so that no 0/0 reaches a derivative.
        let safe = zero.select(one, z);
        zero.select(one, safe.sin() / safe)
    }

    /// ln(x / (1 − x)), the inverse of [`Var::sigmoid`]: ∓∞ at 0 and 1, NaN outside of [0, 1].
    #[track_caller]
    pub fn logit(self) -> Var<'g> {
        self.log() - (-self).log1p()
    }

    /// ln σ(x), without overflow.
    #[track_caller]
    pub fn logsigmoid(self) -> Var<'g> {
        -(-self).softplus()
    }

    /// x·tanh(softplus x). Source: Misra, "Mish: a self regularized non-monotonic activation function".
    #[track_caller]
    pub fn mish(self) -> Var<'g> {
        self * self.softplus().tanh()
    }

    /// max(0, min(6, x + 3)) / 6. The derivative is 0 at ±3.
    #[track_caller]
    pub fn hardsigmoid(self) -> Var<'g> {
        (self + 3.0).clamp(0.0, 6.0) / 6.0
    }

    /// x·[`hardsigmoid`](Var::hardsigmoid)(x). The derivative is 0 at −3 and 1 at 3.
    #[track_caller]
    pub fn hardswish(self) -> Var<'g> {
        self * self.hardsigmoid()
    }

    /// x limited to [−1, 1]; [`Var::clamp`] takes other bounds. The derivative is 0 at the bounds.
    #[track_caller]
    pub fn hardtanh(self) -> Var<'g> {
        self.clamp(-1.0, 1.0)
    }

    /// x limited to [0, 6]. The derivative is 0 at the bounds.
    #[track_caller]
    pub fn relu6(self) -> Var<'g> {
        self.clamp(0.0, 6.0)
    }

    /// 1.0507·x where x > 0, 1.0507·1.6733·(eˣ − 1) elsewhere. Source: Klambauer et al., "Self-normalizing neural
    /// networks".
    #[track_caller]
    pub fn selu(self) -> Var<'g> {
        self.elu(SELU.1) * SELU.0
    }

    /// x where x > 0, alpha·(e^(x/alpha) − 1) elsewhere. The derivative is continuous. `alpha` must not be 0.
    #[track_caller]
    pub fn celu(self, alpha: f64) -> Var<'g> {
        if let Some(error) = self.needs("celu", "alpha must be finite and not 0; it", alpha, alpha != 0.0) {
            return error;
        }
        self.greater(0.0).select(self, (self / alpha).elu(1.0) * alpha)
    }

    /// x moved towards 0 by `lambda`, and 0 where |x| ≤ `lambda`, where the derivative is 0 too.
    #[track_caller]
    pub fn softshrink(self, lambda: f64) -> Var<'g> {
        if let Some(error) =
            self.needs("softshrink", "lambda must be finite and not negative; it", lambda, lambda >= 0.0)
        {
            return error;
        }
        let moved = self - self.clamp(-lambda, lambda).stop_gradient();
        self.abs().less_equal(lambda).select(self.full_like(0.0), moved)
    }

    /// x, and 0 where |x| ≤ `lambda`, where the derivative is 0 too.
    #[track_caller]
    pub fn hardshrink(self, lambda: f64) -> Var<'g> {
        if let Some(error) =
            self.needs("hardshrink", "lambda must be finite and not negative; it", lambda, lambda >= 0.0)
        {
            return error;
        }
        self.abs().less_equal(lambda).select(self.full_like(0.0), self)
    }

    /// x − tanh x.
    #[track_caller]
    pub fn tanhshrink(self) -> Var<'g> {
        self - self.tanh()
    }

    /// x / (1 + |x|).
    #[track_caller]
    pub fn softsign(self) -> Var<'g> {
        self / (self.abs() + 1.0)
    }

    /// x where x > 0, slope·x elsewhere; `slope` is a tensor that broadcasts, such as a param of the shape `[1]` or
    /// `[channels, 1, 1]`. The derivative at 0 is the slope.
    #[track_caller]
    pub fn prelu(self, slope: Var<'g>) -> Var<'g> {
        let low = slope * self;
        self.greater(0.0).select(self, low)
    }

    /// x where x > `at`, `value` elsewhere, with a derivative of 0. NaN stays.
    #[track_caller]
    pub fn threshold(self, at: f64, value: f64) -> Var<'g> {
        self.less_equal(at).select(self.full_like(value), self)
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
}
