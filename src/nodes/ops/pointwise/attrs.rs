//! Attributes of ops that work element by element.

use crate::arena::Region;
use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;

attrs! {
    /// Attributes of `clamp`: the bounds. An infinite one does not bound.
    pub struct ClampAttrs {
        /// The least result.
        lo: f64,
        /// The largest result.
        hi: f64,
    }
}

attrs! {
    /// Attributes of `leaky_relu`.
    pub struct LeakyReluAttrs {
        /// The derivative where x is not positive.
        slope: f64,
    }
}

attrs! {
    /// Attributes of `elu`.
    pub struct EluAttrs {
        /// Minus the limit at −∞.
        alpha: f64,
    }
}

attrs! {
    /// Attributes of `polygamma`.
    pub struct PolygammaAttrs {
        /// How often the digamma function is differentiated.
        order: i64,
    }
}

attrs! {
    /// Attributes of `cast`.
    pub struct CastAttrs {
        /// The type of the result.
        to: DType,
    }
}

choice! {
    /// An activation that `act_with_grad` computes.
    pub enum Curve {
        /// With the error function.
        Gelu = "gelu",
        /// With the hyperbolic tangent.
        GeluTanh = "gelu_tanh",
        /// x·σ(x).
        Silu = "silu",
    }
}

impl Curve {
    /// All of them.
    pub const ALL: [Curve; 3] = [Curve::Gelu, Curve::GeluTanh, Curve::Silu];

    /// The op of the activation.
    pub fn act_op(self) -> Op {
        match self {
            Curve::Gelu => Op::GELU,
            Curve::GeluTanh => Op::GELU_TANH,
            Curve::Silu => Op::SILU,
        }
    }

    /// The op of its derivative.
    pub fn act_grad_op(self) -> Op {
        match self {
            Curve::Gelu => Op::GELU_GRAD,
            Curve::GeluTanh => Op::GELU_TANH_GRAD,
            Curve::Silu => Op::SILU_GRAD,
        }
    }
}

attrs! {
    /// Attributes of `act_with_grad`.
    pub struct ActWithGradAttrs {
        /// The activation.
        act: Curve,
    }
}

attrs! {
    /// Attributes of `map`.
    pub struct MapAttrs {
        /// The pointwise region.
        body: Region,
    }
}
