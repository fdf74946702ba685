//! Activations and other pointwise functions of one tensor as methods of [`Var`]. Each is one op or a formula of a few
//! ops.
//!
//! Values and derivatives at kinks are torch's. All take `f32` and `f64`. Fusion computes each in one sweep.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::pointwise::attrs::{EluAttrs, LeakyReluAttrs};

/// The slope and the bound of [`Var::selu`]. Source: Klambauer et al., "Self-normalizing neural networks".
const SELU: (f64, f64) = (1.050_700_987_355_480_5, 1.673_263_242_354_377_2);

impl<'g> Var<'g> {
    /// An error of `name` unless `x` is finite and `holds`.
    #[track_caller]
    fn activation_needs(self, name: &str, what: &str, x: f64, holds: bool) -> Option<Var<'g>> {
        if x.is_finite() && holds {
            return None;
        }
        Some(self.g.fail(Kind::Shape, format!("{name}({}{}): {what} is {x}", self.dtype(), self.dims())))
    }

    /// ln σ(x), without overflow.
    #[track_caller]
    pub fn logsigmoid(self) -> Var<'g> {
        -(-self).softplus()
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
        if let Some(error) = self.activation_needs("celu", "alpha must be finite and not 0; it", alpha, alpha != 0.0) {
            return error;
        }
        let low = self.greater(0.0).select(self.full_like(0.0), self);
        self.relu() + (low / alpha).expm1() * alpha
    }

    /// x moved towards 0 by `lambda`, and 0 where |x| ≤ `lambda`, where the derivative is 0 too.
    #[track_caller]
    pub fn softshrink(self, lambda: f64) -> Var<'g> {
        if let Some(error) =
            self.activation_needs("softshrink", "lambda must be finite and not negative; it", lambda, lambda >= 0.0)
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
            self.activation_needs("hardshrink", "lambda must be finite and not negative; it", lambda, lambda >= 0.0)
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

    /// x where x > 0, slope·x elsewhere, as in `torch.nn.PReLU`: a `slope` of shape `[1]` or a scalar is one for all, a
    /// `slope` `[channels]` is one for each channel of x `[N, channels, ..]`. One of the rank of x broadcasts. Another
    /// shape is an error. The derivative at 0 is the slope.
    #[track_caller]
    pub fn prelu(self, slope: Var<'g>) -> Var<'g> {
        if !self.g.owns("prelu", &[slope]) || !self.is_some() || !slope.is_some() {
            return self.g.var(Value::NONE);
        }
        let (d, s) = (self.dims(), slope.dims());
        let slope = match (s.as_ref(), d.as_ref()) {
            ([] | [1], _) => slope,
            ([n], [_, channels, rest @ ..]) if n == channels => {
                slope.reshape([&[*n], vec![1; rest.len()].as_slice()].concat())
            }
            _ if s.len() == d.len() => slope,
            _ => {
                let why = format!("a slope of shape {s} is neither one number, nor one for each channel on axis 1");
                return self.refuse("prelu", format!("x has shape {d}; {why}"));
            }
        };
        let low = slope * self;
        self.greater(0.0).select(self, low)
    }

    /// x where x > `at`, `value` elsewhere, with a derivative of 0. NaN stays.
    #[track_caller]
    pub fn threshold(self, at: f64, value: f64) -> Var<'g> {
        self.less_equal(at).select(self.full_like(value), self)
    }
}
