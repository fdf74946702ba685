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
    pub enum CurveAttr {
        /// With the error function.
        Gelu = "gelu",
        /// With the hyperbolic tangent.
        GeluTanh = "gelu_tanh",
        /// x·σ(x).
        Silu = "silu",
    }
}

impl CurveAttr {
    /// All of them.
    pub const ALL: [CurveAttr; 3] = [CurveAttr::Gelu, CurveAttr::GeluTanh, CurveAttr::Silu];

    /// The op of the activation.
    pub fn act_op(self) -> Op {
        match self {
            CurveAttr::Gelu => Op::GELU,
            CurveAttr::GeluTanh => Op::GELU_TANH,
            CurveAttr::Silu => Op::SILU,
        }
    }

    /// The op of its derivative.
    pub fn act_grad_op(self) -> Op {
        match self {
            CurveAttr::Gelu => Op::GELU_GRAD,
            CurveAttr::GeluTanh => Op::GELU_TANH_GRAD,
            CurveAttr::Silu => Op::SILU_GRAD,
        }
    }
}

attrs! {
    /// Attributes of `act_with_grad`.
    pub struct ActWithGradAttrs {
        /// The activation.
        act: CurveAttr,
    }
}

attrs! {
    /// Attributes of `map`.
    pub struct MapAttrs {
        /// The pointwise region.
        body: Region,
    }
}
