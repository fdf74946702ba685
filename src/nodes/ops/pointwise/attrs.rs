//! Attributes of ops that work element by element.

use super::act_grad::Curve;
use crate::arena::Region;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::typed::attrs;

attrs! {
    /// Of `clamp`: its bounds. An infinite one is none.
    pub struct ClampAttrs {
        /// The least result.
        lo: f64,
        /// The largest result.
        hi: f64,
    }
}

attrs! {
    /// Of `leaky_relu`.
    pub struct LeakyReluAttrs {
        /// The derivative where x is not positive.
        slope: f64,
    }
}

attrs! {
    /// Of `elu`.
    pub struct EluAttrs {
        /// Minus the limit at −∞.
        alpha: f64,
    }
}

attrs! {
    /// Of `cast`.
    pub struct CastAttrs {
        /// The type of the result.
        to: DType,
    }
}

attrs! {
    /// Of `act_with_grad`.
    pub struct ActWithGradAttrs {
        /// The activation.
        act: Curve,
    }
}

attrs! {
    /// Of `map`.
    pub struct MapAttrs {
        /// The point-wise region.
        body: Region,
    }
}
