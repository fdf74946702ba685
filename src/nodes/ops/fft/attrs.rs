//! Attributes of Fourier transforms.

use crate::nodes::ir::attr_types::attrs;

attrs! {
    /// Attributes of `fft`.
    pub struct FftAttrs {
        /// The sign of the exponent: + if true, − if false.
        inverse: bool,
        /// What each result is multiplied by.
        scale: f64,
    }
}

attrs! {
    /// Attributes of `rfft`.
    pub struct RfftAttrs {
        /// What each result is multiplied by.
        scale: f64,
    }
}

attrs! {
    /// Attributes of `irfft`.
    pub struct IrfftAttrs {
        /// Length of the result's last axis.
        n: i64,
        /// What each result is multiplied by.
        scale: f64,
    }
}
