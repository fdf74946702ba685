//! Attributes of ops that work element by element.

use super::act_with_grad::Curve;
use crate::arena::Region;
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::dtype::DType;

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
